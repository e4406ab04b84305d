//! Encoding of conversations and decoding of tokens, compared with the models' reference programs.

mod damaged;
mod huggingface;
pub(crate) mod images;
mod injection;
mod jinja;
mod merges;
mod reference;
pub(crate) mod sentencepiece;
mod smollm2;
mod template;
mod thoughts;
mod tools;
mod turns;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ganglion::model::checkpoint::{GgufVocabulary, LanguageSource};
use ganglion::model::{Checkpoint, Language, Message, Role};
use serde_json::Value;

fn path(relative: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(relative);
    assert!(path.exists(), "{relative} is missing: run `make deps`");
    path
}

/// Returns the language of SmolLM2-135M-Instruct.
fn smollm2() -> GgufVocabulary {
    let path = path("target/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let checkpoint = Checkpoint::open(&path).unwrap();
    match checkpoint.language_source().unwrap() {
        LanguageSource::Gguf(vocabulary) => vocabulary.clone(),
        LanguageSource::HuggingFace(_) => unreachable!("a GGUF file"),
    }
}

/// Returns a vocabulary of bytes and a few words, with Qwen3's special tokens and a template like Qwen3's.
pub(crate) fn qwen3_style() -> GgufVocabulary {
    let mut tokens: Vec<String> = (0_u8..=255).map(|byte| spelled(&[byte])).collect();
    let merges = ["t h", "th e", "Ġ the", "h i", "i n", "in k", "th ink"];
    tokens.extend(["th", "the", "Ġthe", "hi", "in", "ink", "think"].map(String::from));
    let ordinary = tokens.len();
    let control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
    let shown = [
        "<tool_call>",
        "</tool_call>",
        "<tool_response>",
        "</tool_response>",
        "<think>",
    ];
    tokens.extend(
        control
            .into_iter()
            .chain(shown)
            .chain(["</think>"])
            .map(String::from),
    );
    let kind = |id| match id {
        id if id < ordinary => 1,
        id if id < ordinary + control.len() => 3,
        _ => 4,
    };
    let id = |spelling: &str| {
        let position = tokens.iter().position(|token| token == spelling);
        Some(u32::try_from(position.unwrap()).unwrap())
    };
    GgufVocabulary {
        model: "gpt2".into(),
        pre: Some("qwen2".into()),
        token_types: (0..tokens.len()).map(kind).collect(),
        merges: merges.map(String::from).to_vec(),
        bos: id("<|endoftext|>"),
        eos: id("<|im_end|>"),
        eot: None,
        eom: None,
        pad: id("<|endoftext|>"),
        scores: Vec::new(),
        add_space_prefix: false,
        add_bos: false,
        add_eos: false,
        strips: false,
        chat_template: Some(include_str!("data/qwen3-style.jinja").into()),
        tokens,
    }
}

pub(crate) fn load(vocabulary: GgufVocabulary) -> Language {
    Language::load(&LanguageSource::Gguf(vocabulary)).unwrap()
}

/// Spells bytes in the byte-level alphabet of GPT-2.
fn spelled(bytes: &[u8]) -> String {
    let is_kept = |byte: u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF);
    let letter = |byte: u8| {
        let others = (0..byte).filter(|&other| !is_kept(other)).count();
        let code = if is_kept(byte) {
            u32::from(byte)
        } else {
            256 + u32::try_from(others).unwrap()
        };
        char::from_u32(code).unwrap()
    };
    bytes.iter().map(|&byte| letter(byte)).collect()
}

fn says(role: Role, content: &str) -> Message {
    Message::new(role, content)
}

/// Decodes all tokens at once.
fn decode(language: &Language, tokens: &[u32]) -> String {
    let mut decoder = language.decoder();
    let text: String = tokens.iter().map(|&token| decoder.push(token)).collect();
    text + &decoder.finish()
}

/// Returns the output of a reference program of tests/reference for `job`.
pub(crate) fn python(program: &str, job: &Value) -> Value {
    let mut child = Command::new(path("target/venv/bin/python"))
        .arg(path(&format!("tests/reference/{program}")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(job.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{program} failed: run `make deps` if a package is missing"
    );
    serde_json::from_slice(&output.stdout).unwrap()
}
