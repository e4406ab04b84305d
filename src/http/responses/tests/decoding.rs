//! Requests as they are decoded.

use serde_json::{Value as Json, json};

use super::super::super::error::Error;
use super::super::super::terms;
use super::super::request::Asked;
use crate::engine::Options;
use crate::front::{self, Config, GivenMessages};

fn asked(body: &Json) -> Result<Asked, Error> {
    Asked::read(body.to_string().as_bytes())
}

fn messages(input: &Json) -> Result<GivenMessages, Error> {
    let asked = asked(&json!({"input": input}))?;
    Ok(asked.question.messages)
}

/// Returns the options of a request with a text and these fields.
fn options(mut body: Json) -> Result<Options, Error> {
    body["input"] = json!("Hi");
    let config = Config {
        seed: Some(1),
        ..Config::default()
    };
    let options = asked(&body)?.question.options;
    let read = front::request(&options.given, &config);
    read.map_err(|error| Error::of_front(error, &terms::RESPONSES, &options.fields))
}

fn look() -> Json {
    json!([{"type": "function", "name": "look", "description": "Looks.", "strict": true, "parameters": {"type": "object",
        "properties": {}}}])
}

#[test]
fn items_become_messages() {
    let given = messages(&json!([
        {"role": "developer", "content": "Be short."},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "What "},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "low"},
            {"type": "input_text", "text": "is it?"}]},
        {"type": "reasoning", "id": "rs_0", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}],
            "encrypted_content": null},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}]},
        {"type": "function_call", "id": "fc_2", "call_id": "c1", "name": "look", "arguments": "{\"at\": 1}", "status": "completed"},
        {"type": "function_call", "call_id": "c2", "name": "stop", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "a cat"},
            {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
        {"type": "function_call_output", "call_id": "c2", "output": ""},
        {"role": "assistant", "content": "A cat."},
        {"role": "assistant", "content": "Really."},
        {"role": "user", "content": "Thanks."},
    ]))
    .expect("they are right");
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
        ("assistant", "A cat."),
        ("assistant", "Really."),
        ("user", "Thanks."),
    ];
    assert_eq!(said, expected);
    let call = &given.messages[2];
    assert_eq!((&*call.reasoning, call.calls.len()), ("Hm.", 2));
    assert_eq!((&*call.calls[0].name, &*call.calls[1].id), ("look", "c2"));
    let places: Vec<_> = given
        .images
        .iter()
        .map(|one| (one.message, one.at, one.given_as))
        .collect();
    // The message of the conversation, and the item and the part of the request.
    assert_eq!(places, [(1, 5, (1, 1)), (3, 5, (6, 1))]);
    let asked = asked(&json!({"input": "Hi", "instructions": "Be short."})).expect("it is right");
    let said = asked.question.messages.messages;
    let said: Vec<_> = said
        .iter()
        .map(|one| (one.role.name(), &*one.content))
        .collect();
    assert_eq!(said, [("system", "Be short."), ("user", "Hi")]);
}

#[test]
fn errors_of_items_name_the_field() {
    let user = |content: Json| json!([{"role": "user", "content": content}]);
    #[rustfmt::skip] // a table
    let cases = [
        (json!(7), "input", "an array"),
        (json!([7]), "input[0]", "invalid type"),
        (json!([{"type": "web_search_call"}]), "input[0].type", "\"web_search_call\""),
        (json!([{"content": "x"}]), "input[0].role", "missing"),
        (json!([{"role": "tool", "content": "x"}]), "input[0].role", "function_call_output"),
        (json!([{"role": "critic", "content": "x"}]), "input[0].role", "unknown role"),
        (json!([{"role": "user"}]), "input[0].content", "missing"),
        (user(json!([{"type": "text", "text": "x"}])), "input[0].content[0]", "\"text\""),
        (user(json!([{"type": "input_text"}])), "input[0].content[0].text", "missing"),
        (user(json!([{"type": "output_text", "text": "x"}])), "input[0].content[0]", "output_text"),
        (user(json!([{"type": "input_image", "image_url": "http://x"}])), "input[0].content[0].image_url", "no network"),
        (user(json!([{"type": "input_image", "file_id": "f"}])), "input[0].content[0].file_id", "not stored"),
        (json!([{"type": "function_call", "call_id": "1", "name": "x"}]), "input[0].arguments", "missing"),
        (json!([{"type": "function_call_output", "call_id": "1"}]), "input[0].output", "missing"),
        (json!([{"type": "reasoning", "encrypted_content": "x"}]), "input[0].encrypted_content", "another service"),
        (json!([{"type": "function_call", "call_id": "1", "name": "x", "arguments": "1"}, {"role": "user", "content": "x"}]),
            "input[1]", "a JSON object"),
    ];
    for (input, param, why) in cases {
        let error = messages(&input).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
    let error = asked(&json!({"instructions": "x"})).expect_err("no input");
    assert_eq!(error.code, Some("missing_required_parameter"));
}

#[test]
fn options_reach_the_engine() {
    let read = options(json!({"max_output_tokens": 9, "temperature": 0, "include": ["message.output_text.logprobs",
        "reasoning.encrypted_content"], "top_logprobs": 3, "reasoning": {"effort": "minimal", "summary": "auto"},
        "ganglion": {"priority": "background", "seed": 8, "top_k": 5}}))
    .expect("they are right");
    assert_eq!((read.max_tokens, read.sampling.logprobs), (9, Some(3)));
    assert_eq!((read.sampling.seed, read.sampling.top_k), (8, 5));
    assert_eq!(
        (read.thinking, read.priority.name()),
        (Some(false), "background")
    );
    let format = |strict: Json| {
        let format = json!({"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": strict});
        let read = options(json!({"text": {"format": format, "verbosity": "medium"}}));
        format!("{:?}", read.expect("a format").grammar)
    };
    assert!(format(json!(true)).starts_with("Some(JsonSchema("));
    assert!(format(json!(null)).starts_with("Some(LenientSchema("));
    let json = options(json!({"text": {"format": {"type": "json_object"}}})).expect("a format");
    assert_eq!(format!("{:?}", json.grammar), "Some(Json)");
    let read = options(
        json!({"tools": look(), "tool_choice": {"type": "function", "name": "look"},
        "parallel_tool_calls": false}),
    );
    let tools = read.expect("tools").tools.expect("tools");
    assert_eq!((tools.choice(), tools.parallel()), ("look", false));
    let offered: Json = serde_json::from_str(tools.given()).expect("JSON");
    assert_eq!(offered[0]["function"]["description"], "Looks.");
    assert_eq!(options(json!({"tools": []})).expect("none").tools, None);
}

#[test]
fn errors_of_options_name_the_field() {
    let format = |format: Json| json!({"text": {"format": format}});
    #[rustfmt::skip] // a table
    let cases = [
        (json!({"max_output_tokens": 0}), "max_output_tokens", "\"max_output_tokens\" is 0"),
        (json!({"stream": 1}), "stream", "true or false"),
        (json!({"store": 1}), "store", "true or false"),
        (json!({"previous_response_id": 1}), "previous_response_id", "a text"),
        (json!({"conversation": "x"}), "conversation", "ganglion.session"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0]", "\"web_search\""),
        (json!({"tools": [{"type": "function"}]}), "tools[0].name", "missing"),
        (json!({"tools": [{"type": "function", "function": {}}]}), "tools[0].function", "unknown field"),
        (json!({"tool_choice": "required"}), "tool_choice", "tools"),
        (json!({"tools": look(), "tool_choice": "look"}), "tool_choice", "\"look\""),
        (json!({"tools": look(), "tool_choice": {"type": "allowed_tools"}}), "tool_choice", "allowed_tools"),
        (format(json!({"type": "xml"})), "text.format", "\"xml\""),
        (format(json!({"type": "json_schema"})), "text.format", "no \"schema\""),
        (json!({"text": {"format": {"type": "json_object"}}, "ganglion": {"regex": "a"}}), "text.format", "\"ganglion.regex\""),
        (json!({"include": ["file_search_call.results"]}), "include", "file_search_call"),
        (json!({"top_logprobs": 2}), "top_logprobs", "include"),
        (json!({"reasoning": {"effort": "huge"}}), "reasoning.effort", "\"huge\""),
        (json!({"reasoning": {"effort": "low"}, "ganglion": {"thinking": true}}), "reasoning.effort", "ganglion.thinking"),
        (json!({"ganglion": {"seed": -1}}), "ganglion.seed", "is -1"),
    ];
    for (body, param, why) in cases {
        let error = options(body).expect_err(param);
        assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        assert!(error.message.contains(why), "{error:?}");
    }
}
