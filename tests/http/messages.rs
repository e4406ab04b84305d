//! Anthropic's messages on a socket: the same answers as chat completions have, whole and as a stream, with tools; and its
//! form of errors.

use serde_json::{Value, json};

use super::raw::ask_at;
use super::served::{Served, events};
use crate::support::needs;
use crate::tools::{TOOLS, fits, hermes};

const PATH: &str = "/v1/messages";

async fn ask(served: &Served, path: &str, body: &Value) -> (u16, Value) {
    let (status, answer) = served.ask(path, body).await;
    (status, serde_json::from_str(&answer).expect("JSON"))
}

/// Returns the choice of a chat completion, and its usage.
async fn chat(served: &Served, body: &Value) -> (Value, Value) {
    let (status, answer) = ask(served, "/v1/chat/completions", body).await;
    assert_eq!(status, 200, "{answer}");
    (answer["choices"][0].clone(), answer["usage"].clone())
}

/// Returns a whole answer, after a check that a stream has the same blocks.
async fn answer(served: &Served, body: &Value) -> Value {
    let (status, whole) = ask(served, PATH, body).await;
    assert_eq!(status, 200, "{whole}");
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let (status, stream) = served.ask(PATH, &streamed).await;
    assert_eq!(status, 200, "{stream}");
    let events = events(&stream);
    let mut blocks: Vec<Value> = Vec::new();
    let mut inputs = Vec::new();
    for (_, event) in &events {
        if let Value::Object(_) = &event["content_block"] {
            blocks.push(event["content_block"].clone());
            inputs.push(String::new());
        }
        let delta = &event["delta"];
        if let (Some(block), Some(text)) = (blocks.last_mut(), delta["text"].as_str()) {
            block["text"] = json!(block["text"].as_str().expect("a text").to_owned() + text);
        }
        if let (Some(input), Some(text)) = (inputs.last_mut(), delta["partial_json"].as_str()) {
            *input += text;
        }
    }
    for (block, input) in blocks.iter_mut().zip(inputs) {
        if block["type"] == "tool_use" {
            block["input"] = serde_json::from_str(&input).expect("JSON");
        }
    }
    assert_eq!(json!(blocks), whole["content"]);
    let end = &events[events.len() - 2].1;
    assert_eq!(end["delta"]["stop_reason"], whole["stop_reason"]);
    assert_eq!(
        end["usage"]["output_tokens"],
        whole["usage"]["output_tokens"]
    );
    assert_eq!(events[events.len() - 1].0, "message_stop");
    whole
}

/// With a real model, token by token.
#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_those_of_chat_completions() {
    if !needs::smollm2() {
        return;
    }
    let served = Served::smollm2().await;
    let user = json!({"role": "user", "content": "Name three colours."});
    let system = json!({"role": "system", "content": "Be short."});
    let body = json!({"messages": [system, user], "temperature": 0, "max_tokens": 24});
    let (expected, usage) = chat(&served, &body).await;
    let mut body = json!({"model": "default", "system": "Be short.", "messages": [user], "temperature": 0, "max_tokens": 24});
    let (status, counted) = ask(&served, "/v1/messages/count_tokens", &body).await;
    assert_eq!(
        (status, &counted["input_tokens"]),
        (200, &usage["prompt_tokens"])
    );
    let whole = answer(&served, &body).await;
    assert_eq!(whole["content"][0]["text"], expected["message"]["content"]);
    let of = &whole["usage"];
    let input = of["input_tokens"]
        .as_u64()
        .zip(of["cache_read_input_tokens"].as_u64());
    assert_eq!(
        input.map(|(new, cached)| new + cached),
        usage["prompt_tokens"].as_u64()
    );
    // Up to a text of the answer.
    let said = whole["content"][0]["text"].as_str().expect("a text");
    let stop: String = said.chars().skip(4).take(3).collect();
    body["stop_sequences"] = json!([stop]);
    let stopped = answer(&served, &body).await;
    assert_eq!(
        stopped["content"][0]["text"],
        said[..said.find(&stop).expect("it is there")]
    );
    assert_eq!(
        (&stopped["stop_reason"], &stopped["stop_sequence"]),
        (&json!("stop_sequence"), &json!(stop))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_out_and_results_come_back() {
    let config = "kv.context = 512\nsampling.max_tokens = 150\nsampling.seed = 3\n";
    let served = Served::tiny(&hermes(), config).await;
    let tools: Value = serde_json::from_str(TOOLS).expect("JSON");
    let body = json!({"messages": [{"role": "user", "content": "hello"}], "tools": tools, "tool_choice": "required",
        "parallel_tool_calls": false, "reasoning_effort": "none"});
    let (expected, _) = chat(&served, &body).await;
    let expected = &expected["message"]["tool_calls"][0];
    let own = tools.as_array().expect("tools").iter().map(|tool| {
        let function = &tool["function"];
        json!({"name": function["name"], "description": function["description"], "input_schema": function["parameters"]})
    });
    let own: Value = own.collect();
    let mut asked = json!({"max_tokens": 150, "messages": [{"role": "user", "content": "hello"}], "tools": own,
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true}});
    let whole = answer(&served, &asked).await;
    assert_eq!(whole["stop_reason"], "tool_use");
    let call = &whole["content"][0];
    assert_eq!(
        (&call["id"], &call["name"]),
        (&expected["id"], &expected["function"]["name"])
    );
    let arguments = expected["function"]["arguments"].as_str().expect("a text");
    assert_eq!(
        call["input"],
        serde_json::from_str::<Value>(arguments).expect("JSON")
    );

    // Its blocks and a result go back as they are, and one tool is demanded.
    let result = json!([{"type": "tool_result", "tool_use_id": call["id"], "content": [{"type": "text", "text": "bump"}]}]);
    asked["messages"] = json!([asked["messages"][0], {"role": "assistant", "content": whole["content"]}, {"role": "user",
        "content": result}]);
    asked["tool_choice"] = json!({"type": "tool", "name": "go"});
    let next = answer(&served, &asked).await;
    let call = &next["content"][0];
    assert!(
        call["name"] == "go" && fits("go", &call["input"].to_string()),
        "{call}"
    );
    asked["messages"][2]["content"][0]["tool_use_id"] = json!("another");
    let (status, refused) = ask(&served, PATH, &asked).await;
    let why = refused["error"]["message"].as_str().expect("a message");
    assert!(status == 400 && why.contains("another"), "{refused}");
}

/// Errors of the server, of its paths and of requests have Anthropic's form.
#[tokio::test(flavor = "multi_thread")]
async fn errors_have_anthropics_form() {
    let served = Served::script("").await;
    let large = "POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Length: 99000000\r\n\r\n";
    let method = "GET /v1/messages HTTP/1.1\r\nHost: a\r\n\r\n";
    let path = "POST /v1/messages/batches HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    for (request, status, kind) in [
        (large, 413, "request_too_large"),
        (method, 405, "invalid_request_error"),
        (path, 404, "not_found_error"),
    ] {
        let (code, error) = ask_at(served.socket(), request).await.expect("an answer");
        let error: Value = serde_json::from_str(&error).expect("JSON");
        assert_eq!((code, &error["type"]), (status, &json!("error")));
        assert_eq!(error["error"]["type"], kind, "{error}");
    }
    let body =
        json!({"max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "logit_bias": {}});
    let (status, error) = ask(&served, PATH, &body).await;
    assert_eq!(
        (status, &error["error"]["type"]),
        (400, &json!("invalid_request_error"))
    );
    let why = error["error"]["message"].as_str().expect("a message");
    assert!(why.contains("\"logit_bias\""), "{why}");
}
