//! Chat templates against Jinja2, set up as Hugging Face transformers does.

use ganglion::model::language::LanguageError;
use ganglion::model::{Message, Role};
use serde_json::{Value, json};

use super::{load, python, qwen3_style, says, smollm2};

use crate::support::needs;

const FEATURES: &str = include_str!("../data/features.jinja");

fn conversations() -> Vec<(Vec<Message>, Option<bool>)> {
    let thought = "<think>\nIs it?\n</think>\n\nIt is.";
    let question = || says(Role::User, "Hello  there, a.b. ");
    let with = |more: Vec<Message>| [vec![question()], more].concat();
    vec![
        (with(vec![]), None),
        (with(vec![]), Some(false)),
        (with(vec![]), Some(true)),
        (
            vec![says(Role::System, "Be brief."), question()],
            Some(false),
        ),
        (with(vec![says(Role::Assistant, thought)]), None),
        (
            with(vec![
                says(Role::Assistant, thought),
                says(Role::User, "again é🤖"),
            ]),
            None,
        ),
        (
            with(vec![
                says(Role::Assistant, "plain"),
                says(Role::User, "\n again\t"),
            ]),
            None,
        ),
        (
            with(vec![
                says(Role::Assistant, thought),
                says(Role::Tool, "{\"a\": 1}"),
                says(Role::Tool, "12"),
            ]),
            None,
        ),
        (with(vec![question()]), None),
    ]
}

#[test]
fn templates_render_as_jinja2_renders_them() {
    if !(needs::python() && needs::smollm2()) {
        return;
    }
    let mut jobs = Vec::new();
    let mut ours = Vec::new();
    let smollm2 = smollm2();
    let mut features = qwen3_style();
    features.chat_template = Some(FEATURES.into());
    for vocabulary in [qwen3_style(), features, smollm2] {
        let template = vocabulary.chat_template.clone().unwrap();
        let named = |id: Option<u32>| vocabulary.tokens[id.unwrap() as usize].clone();
        let tokens = [
            named(vocabulary.bos),
            named(vocabulary.eos),
            named(vocabulary.pad),
        ];
        let language = load(vocabulary);
        for (messages, thinking) in conversations() {
            let rows = messages
                .iter()
                .map(|Message { role, content, .. }| json!([role.name(), content]));
            let mut variables = json!({
                "add_generation_prompt": true,
                "tools": null, "documents": null,
                "bos_token": tokens[0], "eos_token": tokens[1], "pad_token": tokens[2],
            });
            if let Some(thinking) = thinking {
                variables["enable_thinking"] = json!(thinking);
            }
            jobs.push(json!({
                "template": template, "variables": variables, "messages": rows.collect::<Value>(),
            }));
            ours.push(match language.prompt(&messages, thinking) {
                Ok(prompt) => prompt.text(),
                Err(LanguageError::Refused(message)) => format!("error: {message}"),
                Err(other) => panic!("{other}"),
            });
        }
    }
    let theirs = python("template.py", &Value::from(jobs));
    assert!(
        ours.iter()
            .any(|text| text.starts_with("error: roles must")),
        "one is refused"
    );
    for (ours, theirs) in ours.iter().zip(theirs.as_array().unwrap()) {
        assert_eq!(ours, theirs.as_str().unwrap());
    }
}

#[test]
fn a_model_without_a_template_still_encodes_text() {
    let mut vocabulary = qwen3_style();
    vocabulary.chat_template = None;
    let language = load(vocabulary);
    assert_eq!(language.encode_plain(" the"), [258]);
    let error = language.prompt(&[says(Role::User, "x")], None).unwrap_err();
    assert!(error.to_string().contains("chat_template.jinja"), "{error}");
}

#[test]
fn the_token_that_begins_a_text_comes_first_and_once() {
    let mut vocabulary = qwen3_style();
    vocabulary.add_bos = true;
    let begin = vocabulary.bos.unwrap();
    for template in [
        "{{ messages[0].content }}",
        "{{ bos_token }}{{ messages[0].content }}",
    ] {
        vocabulary.chat_template = Some(template.into());
        let language = load(vocabulary.clone());
        let prompt = language.prompt(&[says(Role::User, "the")], None).unwrap();
        assert_eq!(prompt.tokens, [begin, 257]);
        assert_eq!(language.encode_plain("the"), [257], "plain text has none");
    }
}

#[test]
fn a_model_can_think_if_its_template_asks_whether_it_is_to() {
    if !needs::smollm2() {
        return;
    }
    assert!(load(qwen3_style()).can_think());
    assert!(!load(smollm2()).can_think());
}

/// transformers has templates mark what is learnt from; here that changes nothing.
#[test]
fn what_is_marked_for_training_is_rendered() {
    let mut vocabulary = qwen3_style();
    vocabulary.chat_template = Some(
        "{% for m in messages %}\n{%- generation -%} {{ m.content }} {%- endgeneration -%}\n{% endfor %}."
            .into(),
    );
    let prompt = load(vocabulary)
        .prompt(&[says(Role::User, "x")], None)
        .unwrap();
    assert_eq!(prompt.text(), "x.");
}
