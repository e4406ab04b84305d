//! Responses on a socket: the same answers as chat completions have, whole and as a stream, with tools and sessions.

use serde_json::{Value, json};

use super::raw::ask_at;
use super::served::{Served, events};
use crate::support::needs;
use crate::tools::{TOOLS, fits, hermes};

const PATH: &str = "/v1/responses";

async fn ask(served: &Served, body: &Value) -> (u16, Value) {
    let (status, answer) = served.ask(PATH, body).await;
    (status, serde_json::from_str(&answer).expect("JSON"))
}

/// Returns the message of a chat completion.
async fn chat(served: &Served, body: &Value) -> Value {
    let (status, answer) = served.ask("/v1/chat/completions", body).await;
    assert_eq!(status, 200, "{answer}");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    answer["choices"][0].clone()
}

/// Returns a whole answer, after a check that a stream has the same items.
async fn answer(served: &Served, body: &Value) -> Value {
    let (status, whole) = ask(served, body).await;
    assert_eq!(status, 200, "{whole}");
    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    let (status, stream) = served.ask(PATH, &streamed).await;
    assert_eq!(status, 200, "{stream}");
    let events = events(&stream);
    let (first, last) = (
        &events[0].1["response"],
        &events[events.len() - 1].1["response"],
    );
    assert_eq!((&first["id"], &first["output"]), (&last["id"], &json!([])));
    assert_eq!(
        (&last["status"], &last["usage"]["output_tokens"]),
        (&whole["status"], &whole["usage"]["output_tokens"])
    );
    assert_eq!(without_ids(&last["output"]), without_ids(&whole["output"]));
    let deltas = events
        .iter()
        .filter_map(|(_, event)| event["delta"].as_str());
    let whole_text = whole["output"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| match &item["arguments"] {
            Value::String(arguments) => arguments.clone(),
            _ => item["content"][0]["text"]
                .as_str()
                .expect("a text")
                .to_owned(),
        });
    assert_eq!(deltas.collect::<String>(), whole_text.collect::<String>());
    whole
}

/// Returns items without their own ids, which differ between answers.
fn without_ids(items: &Value) -> Value {
    let mut items = items.clone();
    for item in items.as_array_mut().expect("items") {
        item.as_object_mut().expect("an object").remove("id");
    }
    items
}

/// With a real model, token by token.
#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_those_of_chat_completions() {
    if !needs::smollm2() {
        return;
    }
    let served = Served::smollm2().await;
    let question = "Name three colours.";
    let system = json!({"role": "system", "content": "Be short."});
    let body = json!({"messages": [system, {"role": "user", "content": question}], "temperature": 0, "max_tokens": 24,
        "logprobs": true, "top_logprobs": 2});
    let expected = chat(&served, &body).await;
    let body = json!({"model": "default", "instructions": "Be short.", "input": question, "temperature": 0,
        "max_output_tokens": 24, "include": ["message.output_text.logprobs"], "top_logprobs": 2});
    let whole = answer(&served, &body).await;
    let part = &whole["output"][0]["content"][0];
    assert_eq!(part["text"], expected["message"]["content"]);
    let tokens = |tokens: &Value| {
        let tokens = tokens.as_array().expect("tokens").iter();
        let token = |token: &Value| {
            (
                token["token"].clone(),
                token["logprob"].clone(),
                token["top_logprobs"][1]["token"].clone(),
            )
        };
        tokens.map(token).collect::<Vec<_>>()
    };
    assert_eq!(
        tokens(&part["logprobs"]),
        tokens(&expected["logprobs"]["content"])
    );
    let partial = expected["finish_reason"] == "length";
    assert_eq!(
        whole["status"],
        if partial { "incomplete" } else { "completed" }
    );
    // A format, too.
    let schema = json!({"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
        "additionalProperties": false});
    let format = json!({"type": "json_schema", "name": "colour", "schema": schema, "strict": true});
    let body = json!({"input": "A colour?", "temperature": 0, "text": {"format": format}});
    let whole = answer(&served, &body).await;
    let said = whole["output"][0]["content"][0]["text"]
        .as_str()
        .expect("a text");
    let said: Value = serde_json::from_str(said).expect("JSON");
    assert!(["red", "blue"].contains(&said["colour"].as_str().expect("a colour")));
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_out_and_results_come_back() {
    let config = "kv.context = 512\nsampling.max_tokens = 150\nsampling.seed = 3\n";
    let served = Served::tiny(&hermes(), config).await;
    let tools: Value = serde_json::from_str(TOOLS).expect("JSON");
    let mut body = json!({"messages": [{"role": "user", "content": "hello"}], "tools": tools, "tool_choice": "required",
        "parallel_tool_calls": false, "reasoning_effort": "none"});
    let expected = chat(&served, &body).await["message"]["tool_calls"][0].clone();
    let flat = tools.as_array().expect("tools").iter().map(|tool| {
        let mut flat = tool["function"].clone();
        flat["type"] = "function".into();
        flat
    });
    let flat: Value = flat.collect();
    let mut asked = json!({"input": [{"role": "user", "content": "hello"}], "tools": flat, "tool_choice": "required",
        "parallel_tool_calls": false, "reasoning": {"effort": "none"}});
    let whole = answer(&served, &asked).await;
    let call = &whole["output"][0];
    assert_eq!(
        (&call["call_id"], &call["name"]),
        (&expected["id"], &expected["function"]["name"])
    );
    assert_eq!(call["arguments"], expected["function"]["arguments"]);

    // Its item and a result go back as they are, and one function is demanded.
    let result =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "bump"});
    let mut items = vec![asked["input"][0].clone()];
    items.extend(whole["output"].as_array().expect("items").iter().cloned());
    items.push(result);
    asked["input"] = items.into();
    asked["tool_choice"] = json!({"type": "function", "name": "go"});
    let next = answer(&served, &asked).await;
    let call = &next["output"][0];
    let arguments = call["arguments"].as_str().expect("a text");
    assert!(call["name"] == "go" && fits("go", arguments), "{call}");
    // The same conversation in the other form.
    let result = json!({"role": "tool", "tool_call_id": expected["id"], "content": "bump"});
    body["messages"] = json!([{"role": "user", "content": "hello"}, {"role": "assistant", "tool_calls": [expected]}, result]);
    body["tool_choice"] = json!({"type": "function", "function": {"name": "go"}});
    let expected = chat(&served, &body).await;
    assert_eq!(
        expected["message"]["tool_calls"][0]["function"]["arguments"],
        call["arguments"]
    );

    let last = asked["input"].as_array().expect("items").len() - 1;
    asked["input"][last]["call_id"] = json!("another");
    let (status, refused) = ask(&served, &asked).await;
    let error = &refused["error"];
    assert_eq!((status, &error["param"]), (400, &json!("input")));
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|why| why.contains("another")),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_continues_and_other_responses_are_not_stored() {
    let served = Served::script("").await;
    let say = async |input: &str| {
        let body = json!({"instructions": "Be short.", "input": input, "ganglion": {"session": "kitchen"}});
        ask(&served, &body).await
    };
    let (status, first) = say("one two").await;
    assert_eq!(status, 200, "{first}");
    let (status, second) = say("three").await;
    assert_eq!(status, 200, "{second}");
    let cached = &second["usage"]["input_tokens_details"]["cached_tokens"];
    assert!(
        cached.as_u64() >= first["usage"]["input_tokens"].as_u64(),
        "{second}"
    );
    let body = json!({"input": "one", "previous_response_id": first["id"]});
    let (status, refused) = ask(&served, &body).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (404, &json!("response_not_found"))
    );
}

/// With a real model: a stored conversation has the answers of the same items.
#[tokio::test(flavor = "multi_thread")]
async fn stored_responses_continue_and_branch() {
    if !needs::smollm2() {
        return;
    }
    let served = Served::smollm2().await;
    let say = async |input: &str, previous: &Value| {
        let body = json!({"input": input, "temperature": 0, "max_output_tokens": 12, "store": true, "previous_response_id": previous});
        let (status, answer) = ask(&served, &body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let text = |answer: &Value| {
        answer["output"][0]["content"][0]["text"]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    let first = say("Name a colour.", &Value::Null).await;
    let second = say("Another one.", &first["id"]).await;
    let branch = say("Another one.", &first["id"]).await;
    assert_eq!(text(&branch), text(&second));
    let usage = &second["usage"];
    let cached = usage["input_tokens_details"]["cached_tokens"].as_u64();
    assert!(cached > first["usage"]["input_tokens"].as_u64(), "{usage}");
    let get = |method: &str, id: &Value| {
        let id = id.as_str().expect("an id");
        format!("{method} {PATH}/{id} HTTP/1.1\r\nHost: a\r\n\r\n")
    };
    let (status, found) = ask_at(served.socket(), &get("GET", &second["id"]))
        .await
        .expect("an answer");
    assert_eq!(
        (status, serde_json::from_str::<Value>(&found).expect("JSON")),
        (200, second.clone())
    );
    for expected in [200, 404] {
        let (status, _) = ask_at(served.socket(), &get("DELETE", &second["id"]))
            .await
            .expect("an answer");
        assert_eq!(status, expected);
    }
    let body = json!({"input": "And now?", "previous_response_id": second["id"]});
    let (status, refused) = ask(&served, &body).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (404, &json!("response_not_found"))
    );
}
