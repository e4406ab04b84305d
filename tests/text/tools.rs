//! The chat templates of well-known models with tools: the rendering equals jinja2's, and calls in it have the format
//! of their family.

use std::fs;
use std::path::{Path, PathBuf};

use ganglion::model::Manner;
use ganglion::model::language_error::LanguageError;
use ganglion::model::{Call, Message, Role};
use ganglion::tools::{Formats, Tools};
use serde_json::{Value, json};

use super::{load, python, qwen3_style, says};
use crate::support::needs;
use crate::tools::{TOOLS, as_parsers_have_it};

/// Templates that must be among them, with their formats.
const KNOWN: [(&str, &str); 17] = [
    ("Qwen3.5-4B", "qwen3-xml"),
    ("Qwen3-Coder", "qwen3-xml"),
    ("google-gemma-4-31B-it", "gemma4"),
    ("LFM2-8B-A1B", "lfm2"),
    ("LFM2.5-8B-A1B", "lfm2"),
    ("ibm-granite-granite-4.0", "hermes"),
    ("ibm-granite-granite-3.3-2B-Instruct", "granite3"),
    ("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron3"),
    ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"),
    ("Qwen-QwQ-32B", "hermes"),
    ("Qwen-Qwen2.5-7B-Instruct", "hermes"),
    ("Qwen-Qwen3-0.6B", "hermes"),
    ("Mistral-Small-3.2-24B-Instruct-2506", "mistral-small"),
    ("meta-llama-Llama-3.1-8B-Instruct", "llama3"),
    ("meta-llama-Llama-3.2-3B-Instruct", "llama3"),
    ("mistralai-Mistral-Nemo-Instruct-2407", "mistral-nemo"),
    ("unsloth-mistral-Devstral-Small-2507", "ministral"),
];

/// A conversation with a call of difficult texts, and its result.
fn conversations() -> Vec<Vec<Message>> {
    let called = |content: &str, reasoning: &str| Message {
        reasoning: reasoning.into(),
        calls: vec![Call {
            id: "aB3dE6gH9".into(),
            name: "go".into(),
            arguments: r#"{"metres": -3, "how": "slow \"and\" }{é"}"#.into(),
        }],
        ..says(Role::Assistant, content)
    };
    let result = Message {
        call_id: Some("aB3dE6gH9".into()),
        ..says(Role::Tool, "bump <|im_end|>\n'é'")
    };
    let user = || says(Role::User, "Go to the wall.");
    let system = || says(Role::System, "You are a robot.");
    vec![
        vec![user()],
        vec![system(), user()],
        vec![user(), called("", ""), result.clone()],
        vec![system(), user(), called("", "Which way?"), result.clone()],
        vec![
            user(),
            called("", ""),
            result,
            says(Role::Assistant, "It hurts."),
            user(),
        ],
    ]
}

/// Returns a message as a caller of transformers gives it. `thoughts` is the template's name of thoughts.
fn as_transformers_has_it(message: &Message, thoughts: &str) -> Value {
    let mut row = json!({"role": message.role.name(), "content": message.content});
    if !message.reasoning.is_empty() {
        row[thoughts] = json!(message.reasoning);
    }
    let calls = message.calls.iter().map(|Call { id, name, arguments }| {
        let arguments: Value = serde_json::from_str(arguments).expect("JSON");
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    let calls: Vec<_> = calls.collect();
    if !calls.is_empty() {
        row["tool_calls"] = calls.into();
    }
    if let Some(id) = &message.call_id {
        row["tool_call_id"] = json!(id);
    }
    row
}

/// Templates of the models' makers, and those for which trl has parsers.
fn templates() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let of_makers = fs::read_dir(root.join("target/templates")).expect("templates");
    let of_makers = of_makers.map(|entry| entry.expect("an entry").path());
    let of_trl = root.join("target/parsers/trl/chat_templates");
    let parsed = [
        "qwen2_5",
        "qwen3",
        "qwen3_instruct_2507",
        "llama3_1",
        "llama3_2",
        "gemma4_v5",
        "lfm2_v2",
        "lfm2_2_5_v2",
        "nemotron_3_nano",
        "nemotron_3_ultra",
        "qwen3_5_think",
        "qwen3_6",
    ];
    let parsed = parsed.map(|name| of_trl.join(name).with_extension("jinja"));
    of_makers
        .chain(parsed.into_iter().filter(|file| file.exists()))
        .collect()
}

/// Public parsers also read the same calls.
#[test]
fn well_known_templates_render_tools_as_jinja2_renders_them() {
    if !(needs::python() && needs::templates()) {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let formats = Formats::read(&root.join("config/tools")).expect("they are right");
    let tools = Tools::read(TOOLS, None, true).expect("they are right");
    let tools: Value = serde_json::from_str(tools.given()).expect("JSON");
    let (mut jobs, mut ours, mut known) = (Vec::new(), Vec::new(), Vec::new());
    let (mut prompts, mut expected) = (Vec::new(), Vec::new());
    for file in templates() {
        let name = file
            .file_stem()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        if file.extension().is_none_or(|end| end != "jinja") {
            continue;
        }
        let template = fs::read_to_string(&file).expect("text");
        let Some(format) = formats.of(&template) else {
            println!("{name}: no format");
            continue;
        };
        println!("{name}: {}", format.name);
        known.push((name.clone(), format.name.clone()));
        let mut vocabulary = qwen3_style();
        vocabulary.chat_template = Some(template.clone().into());
        let language = load(vocabulary);
        for messages in conversations() {
            let variables = json!({
                "add_generation_prompt": true, "tools": tools, "documents": null,
                "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
            });
            let is_thinking = template.contains("message.thinking");
            let thoughts = if is_thinking && !template.contains("reasoning_content") {
                "thinking"
            } else {
                "reasoning_content"
            };
            let rows = messages.iter();
            let rows: Vec<_> = rows
                .map(|row| as_transformers_has_it(row, thoughts))
                .collect();
            jobs.push(json!({"template": template, "variables": variables, "messages": rows}));
            let manner = Manner {
                tools: Some(&tools),
                ..Manner::default()
            };
            let text = match language.render(&messages, manner) {
                Ok(rendered) => language.encode(rendered).text(),
                Err(LanguageError::Refused(message)) => format!("error: {message}"),
                Err(other) => panic!("{name}: {other}"),
            };
            let calls = messages.iter().flat_map(|message| &message.calls);
            let calls: Vec<_> = calls.cloned().collect();
            let writes_calls = template.contains("tool_calls");
            let written = (writes_calls && !calls.is_empty()).then(|| format.write(&calls));
            // The Hermes parser knows only turns with this mark, and some formats have no parser.
            let parsed = format.name != "hermes" || text.contains("<|im_start|>assistant");
            let parsed = parsed && !matches!(&*format.name, "granite3" | "phi4-mini");
            let parsed = parsed && (writes_calls || calls.is_empty());
            if parsed && !text.starts_with("error: ") {
                let calls: Value = calls.iter().map(as_parsers_have_it).collect();
                prompts.push(json!({"format": format.name, "prompt": text, "tools": tools}));
                expected.push((name.clone(), calls));
            }
            ours.push((name.clone(), text, written));
        }
    }
    for (name, format) in KNOWN {
        let pair = (name.to_owned(), format.to_owned());
        assert!(known.contains(&pair), "{name} is of {format}: {known:?}");
    }
    let theirs = python("template.py", &Value::from(jobs));
    let mut alike = 0;
    for ((name, ours, written), theirs) in ours.iter().zip(theirs.as_array().expect("texts")) {
        let theirs = theirs.as_str().expect("a text");
        assert_eq!(ours, theirs, "{name}");
        // Past calls of Mistral have ids, which it never generates; past calls of Reka are ASCII.
        let differs = ["Nemo", "Reka"].iter().any(|one| name.contains(one));
        if let Some(written) = written.as_ref().filter(|_| !differs) {
            assert!(ours.contains(written), "{name}: {written} in {ours}");
            alike += 1;
        }
    }
    assert!(alike > 20, "{alike}");
    if needs::parsers() {
        let read = python("calls.py", &prompts.into());
        for ((name, expected), read) in expected.iter().zip(read.as_array().expect("calls")) {
            assert_eq!(read, expected, "{name}");
        }
    }
}
