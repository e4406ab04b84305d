//! The marks of thoughts in the chat templates of families that think.

use std::fs;

use ganglion::model::Role;

use super::{load, path, qwen3_style, says};
use crate::support::needs;

/// A template, the tokens around its thoughts, the texts next to these tokens, and whether a prompt that asks for thoughts
/// begins them.
type Family = (&'static str, [&'static str; 2], [&'static str; 3], bool);

const THINK: [&str; 2] = ["<think>", "</think>"];
const CHANNEL: [&str; 2] = ["<|channel>", "<channel|>"];
const FAMILIES: [Family; 5] = [
    ("Qwen3.5-4B", THINK, ["", "\n", "\n\n"], true),
    (
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        THINK,
        ["", "\n", "\n"],
        true,
    ),
    ("LFM2.5-8B-A1B", THINK, ["", "", ""], false),
    (
        "google-gemma-4-31B-it",
        CHANNEL,
        ["thought\n", "\n", ""],
        false,
    ),
    ("HuggingFaceTB-SmolLM3-3B", THINK, ["", "\n", "\n\n"], false),
];

#[test]
fn thoughts_have_the_marks_of_their_family() {
    if !needs::templates() {
        return;
    }
    for (name, marks, texts, begins) in FAMILIES {
        let template = path(&format!("target/templates/{name}.jinja"));
        let mut vocabulary = qwen3_style();
        for token in &mut vocabulary.tokens {
            if let Some(at) = THINK.iter().position(|mark| token == mark) {
                marks[at].clone_into(token);
            }
        }
        let template = fs::read_to_string(template).expect("text");
        vocabulary.chat_template = Some(template.into());
        let language = load(vocabulary);
        let words = language.words();
        let found = words.thoughts();
        assert_eq!(
            [&*found.heading, &found.last, &found.apart],
            texts,
            "{name}"
        );
        for thinking in [true, false] {
            let prompt = language.prompt(&[says(Role::User, "Hello")], Some(thinking));
            let prompt = prompt.expect("it is rendered");
            let begun = words.ends_in_thought(&prompt.tokens);
            assert_eq!(begun, thinking && begins, "{name}: {}", prompt.text());
        }
    }
}
