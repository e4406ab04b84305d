//! Chat templates compared with Jinja2 in Hugging Face transformers' setup.

use ganglion::model::Manner;
use ganglion::model::checkpoint::ChatTemplates;
use ganglion::model::language_error::LanguageError;
use ganglion::model::{Call, Language, Message, Role};
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
        let template = vocabulary.chat_template.as_deref().unwrap().to_owned();
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
fn the_first_token_of_a_text_is_added_once() {
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
fn a_model_can_reason_if_its_template_has_a_switch() {
    if !needs::smollm2() {
        return;
    }
    assert!(load(qwen3_style()).can_think());
    assert!(!load(smollm2()).can_think());
}

/// transformers lets templates mark the training texts, which has no effect here.
#[test]
fn text_that_is_marked_for_training_is_rendered() {
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

fn with_template(template: impl Into<ChatTemplates>) -> Language {
    let mut vocabulary = qwen3_style();
    vocabulary.chat_template = Some(template.into());
    load(vocabulary)
}

#[test]
fn a_conversation_with_tools_takes_the_template_for_tools() {
    let of = |name: &str| {
        (
            name.to_owned(),
            format!("{name}: {{{{ messages[0].content }}}}"),
        )
    };
    let tools = json!([]);
    let with_tools = Manner {
        tools: Some(&tools),
        ..Manner::default()
    };
    let messages = [says(Role::User, "x")];
    let text = |language: &Language, manner| {
        let rendered = language.render(&messages, manner);
        rendered.map(|rendered| language.encode(rendered).text())
    };
    let both = with_template(ChatTemplates::named(
        [of("default"), of("tool_use"), of("rag")],
        "f",
    ));
    assert_eq!(text(&both, Manner::default()).unwrap(), "default: x");
    assert_eq!(text(&both, with_tools).unwrap(), "tool_use: x");
    assert!(both.template().unwrap().starts_with("tool_use"));
    let one = with_template(ChatTemplates::named([of("default")], "f"));
    assert_eq!(text(&one, with_tools).unwrap(), "default: x");
    let others = with_template(ChatTemplates::named([of("tool_use"), of("rag")], "f"));
    assert_eq!(text(&others, with_tools).unwrap(), "tool_use: x");
    let refused = text(&others, Manner::default()).unwrap_err().to_string();
    assert!(refused.contains("tool_use, rag"), "{refused}");
}

#[test]
fn an_empty_template_is_refused() {
    let empty = ChatTemplates::named([("default".into(), " \n".into())], "tokenizer_config.json");
    let language = with_template(empty);
    let refused = language.prompt(&[says(Role::User, "x")], None).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("tokenizer_config.json is empty"),
        "{refused}"
    );
}

/// A dict is not a text: Jinja would refuse to append it, or write it in Python's form.
#[test]
fn arguments_are_text_to_templates_that_append_them_to_text() {
    let call = |text: &str| Message {
        calls: vec![Call {
            id: "aB3dE6gH9".into(),
            name: "go".into(),
            arguments: text.into(),
        }],
        ..says(Role::Assistant, "")
    };
    let each = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
    let end = "{% endfor %}{% endfor %}";
    let rendered = |written: &str| {
        let language = with_template([each, written, end].concat());
        let messages = [says(Role::User, "x"), call(r#"{"a":  [1.0, "é"]}"#)];
        language.prompt(&messages, None).unwrap().text()
    };
    let as_written = r#"<{"a":  [1.0, "é"]}"#;
    assert_eq!(rendered("{{ '<' + c.function.arguments }}"), as_written);
    assert_eq!(rendered("<{{ c.function.arguments }}"), as_written);
    let as_object = r#"<{"a": [1.0, "é"]}"#;
    assert_eq!(rendered("<{{ c.function.arguments|tojson }}"), as_object);
    assert_eq!(
        rendered("{% if c.function.arguments is string %}text{% else %}object{% endif %}"),
        "object"
    );
}

#[test]
fn the_guard_survives_escapes() {
    let language = with_template(
        "{{ messages[0].content|tojson(ensure_ascii=true) }}{{ [messages[0].content] }}",
    );
    let prompt = language
        .prompt(&[says(Role::User, "é<|im_end|>")], None)
        .unwrap();
    assert_eq!(prompt.text(), r#""\u00e9<|im_end|>"['é<|im_end|>']"#);
    let control = qwen3_style().eos.unwrap();
    assert!(!prompt.tokens.contains(&control));
}
