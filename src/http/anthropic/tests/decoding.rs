//! Requests as they are decoded.

use serde_json::{Value as Json, json};

use super::super::super::error::Error;
use super::super::super::terms;
use super::super::request::Asked;
use crate::engine::Options;
use crate::front::{self, Config, GivenMessages, MOST_IMAGES};

fn asked(body: &Json) -> Result<Asked, Error> {
    Asked::read(body.to_string().as_bytes())
}

fn messages(messages: &Json) -> Result<GivenMessages, Error> {
    let asked = asked(&json!({"max_tokens": 9, "messages": messages}))?;
    Ok(asked.question.messages)
}

/// Returns the options of a request with a text and these fields.
fn options(mut body: Json) -> Result<Options, Error> {
    body["messages"] = json!([{"role": "user", "content": "Hi"}]);
    if body["max_tokens"].is_null() {
        body["max_tokens"] = json!(9);
    }
    let config = Config {
        seed: Some(1),
        ..Config::default()
    };
    let options = asked(&body)?.question.options;
    let read = front::request(&options.given, &config);
    read.map_err(|error| Error::of_front(error, &terms::MESSAGES, &options.fields))
}

fn look() -> Json {
    json!([{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}, "cache_control": {}}])
}

fn image() -> Json {
    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}})
}

#[test]
fn blocks_become_messages() {
    let body = json!({"max_tokens": 9, "system": [{"type": "text", "text": "Be ", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "short."}], "messages": [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image()]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": ""}, {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}}, {"type": "tool_use", "id": "c2", "name": "stop",
            "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a cat"}, image()]},
            {"type": "tool_result", "tool_use_id": "c2", "is_error": true}, {"type": "text", "text": "And now?"}, image()]},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Thanks."}]});
    let given = asked(&body).expect("they are right").question.messages;
    let said: Vec<_> = given
        .messages
        .iter()
        .map(|one| (one.role.name(), &*one.content))
        .collect();
    let expected = [
        ("system", "Be short."),
        ("user", "What is it?"),
        ("assistant", "I look."),
        ("tool", "a cat"),
        ("tool", ""),
        ("user", "And now?"),
        ("assistant", "A cat."),
        ("user", "Thanks."),
    ];
    assert_eq!(said, expected);
    let call = &given.messages[2];
    assert_eq!((&*call.reasoning, call.calls.len()), ("Hm.", 2));
    assert_eq!(
        (&*call.calls[0].arguments, &*call.calls[1].id),
        ("{\"at\":1}", "c2")
    );
    assert_eq!(given.messages[4].call_id.as_deref(), Some("c2"));
    let places: Vec<_> = given
        .images
        .iter()
        .map(|one| (one.message, one.at, one.given_as))
        .collect();
    // The message of the conversation, and the message and the block of the request.
    assert_eq!(places, [(1, 11, (0, 1)), (3, 5, (2, 0)), (5, 8, (2, 3))]);
}

#[test]
fn consecutive_messages_of_a_role_are_one_turn() {
    let given = messages(&json!([
        {"role": "user", "content": "What"},
        {"role": "user", "content": [{"type": "text", "text": "is it?"}, image()]},
        {"role": "user", "content": []},
        {"role": "user", "content": [image()]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "I look."}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "Both."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {}}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I stop."},
            {"type": "tool_use", "id": "c2", "name": "stop", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [image()]}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c2"}, {"type": "text", "text": "And"}]},
        {"role": "user", "content": [image(), {"type": "text", "text": "now?"}]},
    ]));
    let given = given.expect("they are right");
    let said: Vec<_> = given
        .messages
        .iter()
        .map(|one| (one.role.name(), &*one.content))
        .collect();
    let expected = [
        ("user", "What\nis it?"),
        ("assistant", "I look.\nI stop."),
        ("tool", ""),
        ("tool", ""),
        ("user", "And\nnow?"),
    ];
    assert_eq!(said, expected);
    let turn = &given.messages[1];
    let calls: Vec<_> = turn.calls.iter().map(|call| &*call.id).collect();
    assert_eq!(
        (&*turn.reasoning, &calls[..]),
        ("Hm.\nBoth.", &["c1", "c2"][..])
    );
    let places: Vec<_> = given
        .images
        .iter()
        .map(|one| (one.message, one.at, one.given_as))
        .collect();
    // The message of the conversation, and the message and the block of the request.
    let expected = [
        (0, 11, (1, 1)),
        (0, 11, (3, 0)),
        (2, 0, (7, 0)),
        (4, 4, (9, 0)),
    ];
    assert_eq!(places, expected);

    // System messages stay apart.
    let given =
        messages(&json!([{"role": "system", "content": "a"}, {"role": "system", "content": "b"}]));
    assert_eq!(given.expect("they are right").messages.len(), 2);
}

#[test]
fn errors_of_turns_name_the_message_as_it_was_given() {
    let user = |content: Json| json!({"role": "user", "content": content});
    let assistant = |content: Json| json!({"role": "assistant", "content": content});
    let images = json!(vec![image(); MOST_IMAGES]);
    #[rustfmt::skip] // a table
    let cases = [
        (json!([user(json!("x")), user(json!([{"type": "text"}]))]), "messages[1].content[0].text", "missing"),
        (json!([user(images), user(json!("x")), user(json!([image()]))]), "messages[2]", "images"),
        (json!([assistant(json!("x")), assistant(json!([image()]))]), "messages[1].content[0]", "\"assistant\""),
    ];
    for (said, param, why) in cases {
        let error = messages(&said).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
}

#[test]
fn errors_of_messages_name_the_field() {
    let user = |content: Json| json!([{"role": "user", "content": content}]);
    let assistant = |content: Json| json!([{"role": "assistant", "content": content}]);
    let source = |source: Json| user(json!([{"type": "image", "source": source}]));
    #[rustfmt::skip] // a table
    let cases = [
        (json!("Hi"), "messages", "an array"),
        (json!([7]), "messages[0]", "wrong"),
        (json!([{"content": "x"}]), "messages[0].role", "missing"),
        (json!([{"role": "tool", "content": "x"}]), "messages[0].role", "\"tool\""),
        (json!([{"role": "user"}]), "messages[0].content", "missing"),
        (user(json!([{"type": "document"}])), "messages[0].content[0]", "\"document\""),
        (user(json!([{"type": "text", "txt": "x"}])), "messages[0].content[0].txt", "unknown field"),
        (user(json!([{"type": "thinking", "thinking": "x"}])), "messages[0].content[0]", "\"user\""),
        (assistant(json!([image()])), "messages[0].content[0]", "\"assistant\""),
        (assistant(json!([{"type": "tool_use", "id": "1", "name": "x", "input": 1}])), "messages[0].content[0].input", "an object"),
        (user(json!([{"type": "tool_result", "content": "x"}])), "messages[0].content[0].tool_use_id", "missing"),
        (source(json!({"type": "url", "url": "http://x"})), "messages[0].content[0].source", "no network"),
        (source(json!({"type": "base64", "media_type": "image/gif", "data": "AAAA"})), "messages[0].content[0].source", "image/gif"),
    ];
    for (said, param, why) in cases {
        let error = messages(&said).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
    let body = json!({"messages": [{"role": "user", "content": "x"}]});
    assert_eq!(
        asked(&body).expect_err("no length").param.as_deref(),
        Some("max_tokens")
    );
    assert!(Asked::to_count(body.to_string().as_bytes()).is_ok());
}

#[test]
fn options_reach_the_engine() {
    let read = options(
        json!({"max_tokens": 7, "temperature": 0, "top_k": 5, "stop_sequences": ["a", "b"],
        "thinking": {"type": "enabled", "budget_tokens": 4}, "metadata": {"user_id": "x"}}),
    )
    .expect("they are right");
    assert_eq!(
        (read.max_tokens, read.stop.len(), read.sampling.top_k),
        (7, 2, 5)
    );
    assert_eq!((read.thinking, read.thinking_tokens), (Some(true), Some(4)));
    let thinking = |body: Json| options(body).expect("thoughts").thinking;
    assert_eq!(thinking(json!({})), Some(false));
    assert_eq!(
        thinking(json!({"ganglion": {"thinking": true}})),
        Some(true)
    );
    assert_eq!(thinking(json!({"output_config": {"effort": "low"}})), None);
    assert_eq!(
        thinking(json!({"thinking": {"type": "disabled"}})),
        Some(false)
    );
    let format = json!({"type": "json_schema", "schema": {"type": "object"}});
    let read = options(json!({"output_config": {"format": format}})).expect("a format");
    assert!(format!("{:?}", read.grammar).starts_with("Some(LenientSchema("));
    let chosen = |choice: Json| {
        let read = options(json!({"tools": look(), "tool_choice": choice, "stop_sequences": []}));
        let tools = read.expect("tools").tools.expect("tools");
        (tools.choice().to_owned(), tools.parallel())
    };
    assert_eq!(chosen(json!(null)), ("auto".to_owned(), true));
    assert_eq!(
        chosen(json!({"type": "any", "disable_parallel_tool_use": true})),
        ("required".to_owned(), false)
    );
    assert_eq!(
        chosen(json!({"type": "tool", "name": "look"})),
        ("look".to_owned(), true)
    );
    assert_eq!(chosen(json!({"type": "none"})), ("none".to_owned(), true));
}

#[test]
fn errors_of_options_name_the_field() {
    #[rustfmt::skip] // a table
    let cases = [
        (json!({"max_tokens": 0}), "max_tokens", "\"max_tokens\" is 0"),
        (json!({"stop_sequences": [1]}), "stop_sequences", "an array"),
        (json!({"stop_sequences": ["x"], "tools": look()}), "stop_sequences", "\"tools\""),
        (json!({"top_k": -1}), "top_k", "\"top_k\" is -1"),
        (json!({"top_k": 1, "ganglion": {"top_k": 2}}), "ganglion.top_k", "the same"),
        (json!({"thinking": {"type": "deep"}}), "thinking.type", "\"deep\""),
        (json!({"thinking": {"type": "disabled", "budget_tokens": 1}}), "thinking.budget_tokens", "no thoughts"),
        (json!({"thinking": {"type": "enabled", "budget_tokens": -1}}), "thinking.budget_tokens", "is -1"),
        (json!({"thinking": {"type": "enabled"}, "ganglion": {"thinking": true}}), "thinking", "ganglion.thinking"),
        (json!({"tools": [{"type": "bash_20250124", "name": "bash"}]}), "tools[0]", "bash_20250124"),
        (json!({"tools": [{"input_schema": {}}]}), "tools[0].name", "missing"),
        (json!({"tool_choice": {"type": "any"}}), "tool_choice", "tools"),
        (json!({"tools": look(), "tool_choice": {"type": "required"}}), "tool_choice.type", "\"required\""),
        (json!({"tools": look(), "tool_choice": {"type": "tool"}}), "tool_choice.name", "missing"),
        (json!({"output_config": {"effort": "huge"}}), "output_config.effort", "\"huge\""),
        (json!({"output_config": {"format": {"type": "xml"}}}), "output_config.format.type", "\"xml\""),
    ];
    for (body, param, why) in cases {
        let error = options(body).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
}
