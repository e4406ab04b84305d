//! Completions on a socket: a text that is written as the chat template renders a conversation has the same answer.

use serde_json::{Value, json};

use super::served::Served;
use crate::support::tiny_gguf;

const PATH: &str = "/v1/completions";

/// What the template of the tiny model renders of the question "a robot".
const RENDERED: &str = "<|start|>user: a robot<|end|><|start|>";

async fn ask(served: &Served, path: &str, body: &Value) -> Value {
    let (status, body) = served.ask(path, body).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

/// The body of a completion.
fn completion(prompt: &str) -> Value {
    json!({"prompt": prompt, "max_tokens": 20, "temperature": 0.8, "seed": 5, "logprobs": 2})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_is_continued_as_it_is_written() {
    let served = Served::tiny(&tiny_gguf::with_vocabulary(), "kv.context = 256\n").await;
    let mut chat = completion("");
    let fields = chat.as_object_mut().expect("an object");
    fields.remove("prompt");
    fields.insert("logprobs".into(), true.into());
    fields.insert("top_logprobs".into(), 2.into());
    fields.insert(
        "messages".into(),
        json!([{"role": "user", "content": "a robot"}]),
    );
    let chat = ask(&served, "/v1/chat/completions", &chat).await;
    let whole = ask(&served, PATH, &completion(RENDERED)).await;
    let [of_chat, of_text] = [&chat, &whole].map(|answer| &answer["choices"][0]);
    assert_eq!(of_text["text"], of_chat["message"]["content"]);
    assert_eq!(of_text["finish_reason"], of_chat["finish_reason"]);
    assert_eq!(
        whole["usage"]["prompt_tokens"],
        chat["usage"]["prompt_tokens"]
    );
    let tokens = of_chat["logprobs"]["content"].as_array().expect("tokens");
    for (at, token) in tokens.iter().enumerate() {
        let logprobs = &of_text["logprobs"];
        assert_eq!(logprobs["tokens"][at], token["token"]);
        assert_eq!(logprobs["token_logprobs"][at], token["logprob"]);
        let best = &token["top_logprobs"][0];
        let text = best["token"].as_str().expect("a text");
        assert_eq!(logprobs["top_logprobs"][at][text], best["logprob"]);
    }

    // Another text, and that of a user who writes special tokens into a message, have other tokens.
    let plain = ask(&served, PATH, &completion("a robot")).await;
    assert!(plain["usage"]["prompt_tokens"].as_u64() < whole["usage"]["prompt_tokens"].as_u64());

    let mut streamed = completion(RENDERED);
    streamed["stream"] = true.into();
    streamed["stream_options"] = json!({"include_usage": true});
    let (status, events) = served.ask(PATH, &streamed).await;
    assert_eq!(status, 200, "{events}");
    let (mut text, mut tokens, mut last) = (String::new(), Vec::new(), Value::Null);
    for event in events.split_terminator("\n\n") {
        let data = event.strip_prefix("data: ").expect("data");
        if data == "[DONE]" {
            break;
        }
        last = serde_json::from_str(data).expect("JSON");
        let choice = &last["choices"][0];
        text += choice["text"].as_str().unwrap_or_default();
        let of_choice = choice["logprobs"]["tokens"].as_array();
        tokens.extend(of_choice.into_iter().flatten().cloned());
    }
    assert_eq!(text, of_text["text"]);
    assert_eq!(Value::Array(tokens), of_text["logprobs"]["tokens"]);
    let counts = |usage: &Value| usage["completion_tokens"].clone();
    assert_eq!(counts(&last["usage"]), counts(&whole["usage"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_conversation_has_is_refused() {
    let served = Served::script("").await;
    for (name, value, param) in [
        ("prompt", json!(["a", "b"]), "prompt"),
        ("prompt", json!([1, 2]), "prompt"),
        ("prompt", json!([1]), "prompt"),
        ("prompt", json!(null), "prompt"),
        ("echo", json!(true), "echo"),
        ("suffix", json!("b"), "suffix"),
        ("n", json!(2), "n"),
        ("messages", json!([]), "messages"),
        ("logprobs", json!(50), "logprobs"),
        ("ganglion", json!({"session": "a"}), "ganglion.session"),
        ("ganglion", json!({"thinking": true}), "ganglion.thinking"),
    ] {
        let mut body = json!({"prompt": "a"});
        body[name] = value;
        let (status, answer) = served.ask(PATH, &body).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(param)));
    }
    let one = json!({"prompt": ["one two"], "suffix": "", "best_of": 1});
    let answer = ask(&served, PATH, &one).await;
    assert_eq!(answer["choices"][0]["text"], "sim: one two");
    assert_eq!(answer["object"], "text_completion");
}
