//! Inconsistent tokenizers are refused with the reason, without a panic.

use std::collections::HashSet;

use ganglion::model::Language;
use ganglion::model::checkpoint::{GgufVocabulary, HuggingFaceFiles, LanguageSource};
use serde_json::{Value, json};

use super::qwen3_style;

fn refusal(vocabulary: GgufVocabulary) -> String {
    Language::load(&LanguageSource::Gguf(vocabulary))
        .unwrap_err()
        .to_string()
}

#[test]
fn an_inconsistent_gguf_vocabulary_is_refused() {
    type Damage = fn(&mut GgufVocabulary);
    let cases: [(&str, Damage); 10] = [
        ("the tokenizer is bert; supported: gpt2", |v| {
            v.model = "bert".into();
        }),
        ("supported: default, gpt-2", |v| v.pre = Some("new".into())),
        ("it has 0 tokens", |v| {
            v.tokens.clear();
            v.token_types.clear();
        }),
        ("272 tokens and 271 token types", |v| {
            v.token_types.truncate(271);
        }),
        ("tokens 65 and 66 are both spelled \"A\"", |v| {
            v.tokens[66] = "A".into();
        }),
        ("merge 7 names \"zq\"", |v| v.merges.push("z q".into())),
        ("merge 7 names \"nothing\"", |v| {
            v.merges.push("nothing t".into());
        }),
        ("merge 7 is \"th\"", |v| v.merges.push("th".into())),
        ("no token for any byte", |v| v.token_types.fill(5)),
        ("token 0 is 70000 bytes long", |v| {
            v.tokens[0] = "x".repeat(70_000);
        }),
    ];
    for (reason, damage) in cases {
        let mut vocabulary = qwen3_style();
        damage(&mut vocabulary);
        let error = refusal(vocabulary);
        assert!(error.contains(reason), "{error:?} should say {reason:?}");
    }
    let mut vocabulary = qwen3_style();
    vocabulary.chat_template = Some("{% for %}".into());
    assert!(refusal(vocabulary).contains("chat template"));
}

/// A table of the `tokenizers` crate has room for 65,535 of these merges, and asserts it.
#[test]
fn merges_beyond_the_tables_are_refused() {
    let mut vocabulary = qwen3_style();
    let letters: Vec<String> = (0_u8..=255).map(|byte| super::spelled(&[byte])).collect();
    vocabulary.merges.clear();
    let known: HashSet<String> = vocabulary.tokens.iter().cloned().collect();
    for left in &letters {
        for right in &letters {
            vocabulary.merges.push(format!("{left} {right}"));
            let product = format!("{left}{right}");
            if !known.contains(&product) {
                vocabulary.tokens.push(product);
                vocabulary.token_types.push(1);
            }
        }
    }
    let error = refusal(vocabulary);
    assert!(error.contains("65536 merges"), "{error}");
}

#[test]
fn an_inconsistent_tokenizer_json_is_refused() {
    let good = || {
        let letters = (0_u8..=255).map(|byte| (super::spelled(&[byte]), json!(byte)));
        json!({
            "version": "1.0", "normalizer": null,
            "model": {"type": "BPE", "vocab": letters.collect::<Value>(), "merges": []},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
            "added_tokens": [{"id": 256, "content": "<s>", "special": true}],
        })
    };
    let directory = tempfile::tempdir().unwrap();
    let load = |text: &str| {
        let tokenizer = directory.path().join("tokenizer.json");
        std::fs::write(&tokenizer, text).unwrap();
        Language::load(&LanguageSource::HuggingFace(HuggingFaceFiles {
            tokenizer,
            tokenizer_config: None,
            generation_config: None,
            chat_template: None,
            vocabulary: 257,
        }))
    };
    load(&good().to_string()).unwrap();
    for (reason, place, lie) in [
        ("the model has 257 rows", "/model/vocab/A", json!(257)),
        (
            "the model has 257 rows",
            "/added_tokens/0/id",
            json!(u64::MAX),
        ),
        ("have the same id 66", "/model/vocab/A", json!(66)),
        ("have the same id 65", "/added_tokens/0/id", json!(65)),
        ("merge 0 names \"AB\"", "/model/merges", json!(["A B"])),
        ("the tokenizer is Unigram", "/model/type", json!("Unigram")),
        ("BPE over characters", "/pre_tokenizer", json!(null)),
        (
            "the normalizer is Prepend",
            "/normalizer",
            json!({"type": "Prepend"}),
        ),
    ] {
        let mut json = good();
        *json.pointer_mut(place).unwrap() = lie;
        let error = load(&json.to_string()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error:?} should say {reason:?}");
    }
    assert!(
        load("{\"model\": ")
            .unwrap_err()
            .to_string()
            .contains("not JSON")
    );
    std::fs::remove_file(directory.path().join("tokenizer.json")).unwrap();
    let missing = LanguageSource::HuggingFace(HuggingFaceFiles {
        tokenizer: directory.path().join("tokenizer.json"),
        tokenizer_config: None,
        generation_config: None,
        chat_template: None,
        vocabulary: 257,
    });
    let error = Language::load(&missing).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}
