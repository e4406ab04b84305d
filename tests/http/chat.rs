//! Chat completions on a socket: the same answers as on the bus, with tools and sessions.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::served::{Served, fields, text};
use crate::support::daemon::{Client, eventually, until};
use crate::support::needs;
use crate::tools::{TOOLS, fits, hermes};

const PATH: &str = "/v1/chat/completions";

async fn ask(served: &Served, body: &Value) -> (u16, String) {
    served.ask(PATH, body).await
}

/// Returns a whole answer, after a check that a stream has the same message.
async fn answer(served: &Served, body: &Value) -> Value {
    let (status, whole) = ask(served, body).await;
    assert_eq!(status, 200, "{whole}");
    let whole: Value = serde_json::from_str(&whole).expect("JSON");
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let (status, events) = ask(served, &streamed).await;
    assert_eq!(status, 200, "{events}");
    let choice = &whole["choices"][0];
    let [content, calls, tokens] = of_stream(&events);
    let message = &choice["message"];
    assert_eq!(content, message["content"].as_str().unwrap_or_default());
    let written = message["tool_calls"].as_array().into_iter().flatten();
    let written = written.map(|call| {
        let function = &call["function"];
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        text(&function["name"]) + &text(&function["arguments"])
    });
    assert_eq!(calls, written.collect::<String>());
    assert_eq!(tokens, texts(&choice["logprobs"]["content"]).concat());
    whole
}

/// The texts of an array of tokens.
fn texts(tokens: &Value) -> Vec<String> {
    let tokens = tokens.as_array().into_iter().flatten();
    let token = |token: &Value| token["token"].as_str().expect("a token").to_owned();
    tokens.map(token).collect()
}

/// Returns the joined content, calls and tokens of a stream.
fn of_stream(events: &str) -> [String; 3] {
    let mut parts = <[String; 3]>::default();
    assert!(events.ends_with("data: [DONE]\n\n"), "{events}");
    for event in events.split_terminator("\n\n") {
        let data = event.strip_prefix("data: ").expect("data");
        if data == "[DONE]" {
            break;
        }
        let chunk: Value = serde_json::from_str(data).expect("JSON");
        let choice = &chunk["choices"][0];
        let function = &choice["delta"]["tool_calls"][0]["function"];
        let [content, calls, tokens] = &mut parts;
        *content += choice["delta"]["content"].as_str().unwrap_or_default();
        *calls += function["name"].as_str().unwrap_or_default();
        *calls += function["arguments"].as_str().unwrap_or_default();
        *tokens += &texts(&choice["logprobs"]["content"]).concat();
    }
    parts
}

fn user(content: &str) -> Value {
    json!({"role": "user", "content": content})
}

/// With a real model, token by token.
#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_those_of_the_bus() {
    if !needs::smollm2() {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let model = root.join("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let served = Served::model(&model, "kv.context = 1024\n").await;
    for question in ["Name three colours.", "Écris un mot: ", "1 2 3 4"] {
        let options = fields([
            ("temperature", 0.0.into()),
            ("max_tokens", 24u32.into()),
            ("logprobs", 0u32.into()),
        ]);
        let answered = served.client.manager.complete(question, options).await;
        let (said, info) = answered.expect("an answer");
        let tokens: Value = serde_json::from_str(&text(&info, "logprobs")).expect("JSON");
        let tokens = tokens.as_array().expect("an array").iter();
        let tokens: Vec<_> = tokens
            .map(|one| one["text"].as_str().expect("a text"))
            .collect();
        let body = json!({"model": "default", "messages": [user(question)], "temperature": 0, "max_completion_tokens": 24,
            "logprobs": true});
        let whole = answer(&served, &body).await;
        let choice = &whole["choices"][0];
        assert_eq!(choice["message"]["content"], said);
        assert_eq!(texts(&choice["logprobs"]["content"]), tokens);
        assert_eq!(choice["finish_reason"], text(&info, "finish_reason"));
    }
    // A format, too.
    let schema = json!({"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
        "additionalProperties": false});
    let options = fields([
        ("temperature", 0.0.into()),
        ("json_schema", schema.to_string().into()),
    ]);
    let answered = served.client.manager.complete("A colour?", options).await;
    let (said, _) = answered.expect("an answer");
    let format = json!({"type": "json_schema", "json_schema": {"name": "colour", "schema": schema, "strict": true}});
    let body =
        json!({"messages": [user("A colour?")], "temperature": 0, "response_format": format});
    let whole = answer(&served, &body).await;
    assert_eq!(whole["choices"][0]["message"]["content"], said);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_are_called_as_on_the_bus() {
    let config = "kv.context = 512\nsampling.max_tokens = 150\nsampling.seed = 3\n";
    let served = Served::tiny(&hermes(), config).await;
    let options = fields([
        ("tools", TOOLS.into()),
        ("tool_choice", "required".into()),
        ("parallel_tool_calls", false.into()),
        ("thinking", false.into()),
    ]);
    let answered = served.client.manager.complete("hello", options).await;
    let (_, info) = answered.expect("an answer");
    let calls: Value = serde_json::from_str(&text(&info, "tool_calls")).expect("JSON");
    let tools: Value = serde_json::from_str(TOOLS).expect("JSON");
    let mut body = json!({"messages": [user("hello")], "tools": tools, "tool_choice": "required", "parallel_tool_calls": false,
        "reasoning_effort": "none"});
    let whole = answer(&served, &body).await;
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["tool_calls"], calls);
    assert_eq!(
        (&choice["finish_reason"], &choice["message"]["content"]),
        (&json!("tool_calls"), &Value::Null)
    );

    // Its message and a result go back as they are, and one function is demanded.
    let id = calls[0]["id"].clone();
    let result = json!({"role": "tool", "tool_call_id": id, "content": "bump"});
    body["messages"] = json!([user("hello"), choice["message"], result]);
    body["tool_choice"] = json!({"type": "function", "function": {"name": "go"}});
    let whole = answer(&served, &body).await;
    let call = &whole["choices"][0]["message"]["tool_calls"][0];
    assert_ne!(call["id"], id);
    let arguments = call["function"]["arguments"].as_str().expect("a text");
    assert!(
        call["function"]["name"] == "go" && fits("go", arguments),
        "{call}"
    );
    body["messages"][2]["tool_call_id"] = json!("another");
    let (status, error) = ask(&served, &body).await;
    assert!(
        status == 400 && error.contains("another") && error.contains("\"messages\""),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_the_same_through_both_doors() {
    let served = Served::script("").await;
    let say = async |messages: Value| {
        let body = json!({"messages": messages, "ganglion": {"session": "kitchen"}});
        let (status, answer) = ask(&served, &body).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        (status, answer)
    };
    let system = json!({"role": "system", "content": "Be short."});
    let (status, first) = say(json!([system, user("one two")])).await;
    assert_eq!(status, 200, "{first}");
    let (status, second) = say(json!([user("three")])).await;
    assert_eq!(status, 200, "{second}");
    let cached = &second["usage"]["prompt_tokens_details"]["cached_tokens"];
    assert!(
        cached.as_u64() >= first["usage"]["prompt_tokens"].as_u64(),
        "{second}"
    );
    let messages = json!([user("a"), {"role": "assistant", "content": "b"}, user("c")]);
    let (status, refused) = say(messages).await;
    assert!(
        status == 400 && refused["error"]["param"] == "messages[1]",
        "{refused}"
    );

    let manager = &served.client.manager;
    let open = manager
        .open_session(fields([("name", "kitchen".into())]))
        .await;
    let session = served.client.session(open.expect("it is free")).await;
    let said = session.history().await.expect("messages");
    let said: Vec<_> = said.iter().map(|(role, text)| (&**role, &**text)).collect();
    assert_eq!(said.len(), 5, "{said:?}");
    assert_eq!(
        (said[0], said[3]),
        (("system", "Be short."), ("user", "three"))
    );
    let (status, refused) = say(json!([user("four")])).await;
    assert!(
        status == 409 && refused["error"]["code"] == "session_busy",
        "{refused}"
    );
    // Another connection of the same user takes its turn afterwards.
    session.close().await.expect("it closes");
    until(async || say(json!([user("five")])).await.0 == 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_leaves_cancels_its_request() {
    let served = Served::script("tokens=4000,delay=10ms").await;
    for stream in [true, false] {
        let body = json!({"messages": [user("one")], "stream": stream, "max_tokens": 4000});
        let mut connection = served.send(PATH, &body).await;
        if stream {
            let mut some = [0; 200];
            eventually(connection.read_exact(&mut some))
                .await
                .expect("it begins");
        }
        let client = Client::connect(&served.bus).await;
        until(async || {
            client
                .manager
                .queue_length()
                .await
                .is_ok_and(|length| length == 1)
        })
        .await;
        drop(connection);
        // The whole answer would take 40 seconds.
        let ends = until(async || {
            client
                .manager
                .queue_length()
                .await
                .is_ok_and(|length| length == 0)
        });
        let ended = tokio::time::timeout(std::time::Duration::from_secs(20), ends).await;
        ended.expect("it was cancelled");
    }
}
