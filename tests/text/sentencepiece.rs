//! Vocabularies whose tokens are text with marks of spaces: those with scores compared with llama.cpp, and BPE with
//! `byte_fallback` compared with the Python package `tokenizers`.

use std::collections::{HashMap, HashSet};
use std::fs;

use ganglion::model::checkpoint::{GgufVocabulary, HuggingFaceFiles, LanguageSource};
use ganglion::model::{Language, LanguageError, Role};
use serde_json::{Value, json};

use super::{decode, load, python, says};

use crate::support::needs;

/// The vocabulary and llama.cpp's results, which tests/reference/sentencepiece.py writes.
fn reference() -> Value {
    serde_json::from_str(include_str!("../data/sentencepiece.json")).unwrap()
}

fn of<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// Returns the small vocabulary as llama.cpp reads it.
pub(crate) fn sentence_piece(add_space_prefix: bool) -> GgufVocabulary {
    let reference = reference();
    GgufVocabulary {
        model: "llama".into(),
        pre: Some("default".into()),
        tokens: of(&reference["tokens"]),
        token_types: of(&reference["types"]),
        merges: Vec::new(),
        scores: of(&reference["scores"]),
        add_space_prefix,
        bos: Some(1),
        eos: Some(2),
        eot: None,
        eom: None,
        pad: None,
        add_bos: true,
        add_eos: false,
        strips: false,
        chat_template: None,
    }
}

#[test]
fn scores_give_the_ids_and_texts_of_llama_cpp() {
    let reference = reference();
    let languages = [false, true].map(|prefix| load(sentence_piece(prefix)));
    for case in reference["cases"].as_array().unwrap() {
        let language = &languages[usize::from(case["prefix"] == json!(true))];
        let ids: Vec<u32> = of(&case["ids"]);
        let text = case["text"].as_str().unwrap();
        assert_eq!(language.encode_plain(text), ids, "{case}");
        assert_eq!(decode(language, &ids), case["decoded"], "{case}");
    }
}

#[test]
fn special_tokens_of_phi_3_take_the_white_space_after_them() {
    let reference = reference();
    let text = serde_json::to_string(&reference["stripped"]["text"]).unwrap();
    let language = load(GgufVocabulary {
        strips: true,
        chat_template: Some(format!("{{{{ {text} }}}}").into()),
        ..sentence_piece(true)
    });
    let prompt = language.prompt(&[], None).unwrap();
    assert_eq!(prompt.tokens, of::<Vec<u32>>(&reference["stripped"]["ids"]));
    let known = language.recognize(
        &prompt.tokens,
        language
            .render(&[], ganglion::model::Manner::default())
            .unwrap(),
    );
    assert_eq!(known, Some(prompt), "its tokens mean the same text");
}

/// An answer continues a prompt: no space is put before its forced text, and the next turn keeps its tokens.
#[test]
fn only_the_beginning_of_a_text_has_a_space_before_it() {
    let language = load(GgufVocabulary {
        chat_template: Some(
            "{% for m in messages %}<|{{ m.role if m.role == 'user' else 'end' }}|>{{ m.content }}{% endfor %}".into(),
        ),
        ..sentence_piece(true)
    });
    let words = language.words();
    let spelled = |ids: &[u32]| -> Vec<u8> {
        let bytes = ids.iter().flat_map(|id| words.bytes(*id));
        bytes.copied().collect()
    };
    for text in ["{\"a\": \"the\"}", " the", "a\n\n ☃", "▁"] {
        let within = text.replace('▁', " ");
        assert_eq!(spelled(&words.encode(text)), within.as_bytes());
        assert_ne!(language.encode_plain(text), words.encode(text));
    }
    let [beginning, guided] =
        [language.decoder(), language.decoder().whole()].map(|mut decoder| {
            let ids = language.encode_plain("the");
            ids.into_iter()
                .map(|id| decoder.push(id))
                .collect::<String>()
        });
    assert_eq!((&*beginning, &*guided), ("the", " the"));
    let mut messages = vec![says(Role::User, "the here")];
    let first = language.prompt(&messages, None).unwrap();
    let answer = [&[337], language.encode_plain("a b").as_slice()].concat();
    messages.push(says(Role::Assistant, "a b"));
    messages.push(says(Role::User, "her"));
    let next = language
        .continue_prompt(&first, &answer, &messages, None)
        .unwrap();
    assert_eq!(next, language.prompt(&messages, None).unwrap());
    assert!(next.tokens.starts_with(&[first.tokens, answer].concat()));
}

/// Returns a `tokenizer.json` of the small vocabulary.
fn tokenizer(normalizer: &Value, pre_tokenizer: &Value, decoder: &Value) -> Value {
    let reference = reference();
    let (tokens, types): (Vec<String>, Vec<i32>) =
        (of(&reference["tokens"]), of(&reference["types"]));
    let scores: Vec<f64> = of(&reference["scores"]);
    let is_piece = |id: &usize| [1, 6].contains(&types[*id]);
    let ids: HashMap<&str, usize> = tokens.iter().map(String::as_str).zip(0..).collect();
    let mut merges = Vec::new();
    for id in (0..tokens.len()).filter(is_piece) {
        let token = tokens[id].as_str();
        for (at, _) in token.char_indices().skip(1) {
            let (left, right) = token.split_at(at);
            if types[id] == 1 && ids.contains_key(left) && ids.contains_key(right) {
                merges.push((scores[id], [left, right]));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0));
    let merges: Vec<_> = merges.into_iter().map(|(_, pair)| pair).collect();
    let added = |id: usize, special: bool, normalized: bool| {
        json!({"id": id, "content": tokens[id], "special": special, "normalized": normalized,
               "single_word": false, "lstrip": false, "rstrip": false})
    };
    let mut all: Vec<_> = [0, 1, 2, 336, 337].map(|id| added(id, true, false)).into();
    all.extend([333, 334].map(|id| added(id, false, false)));
    all.push(added(335, false, true));
    json!({
        "version": "1.0",
        "model": {"type": "BPE", "vocab": ids, "merges": merges, "byte_fallback": true, "fuse_unk": true,
                  "unk_token": "<unk>"},
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder, "added_tokens": all,
    })
}

/// Returns a tokenizer as each family of models has it.
fn forms() -> Vec<Value> {
    let sequence = |key: &str, members: &[&Value]| json!({"type": "Sequence", key: members});
    let replace = |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let (marks, unmarks) = (replace(" ", "▁"), replace("▁", " "));
    let prepend = json!({"type": "Prepend", "prepend": "▁"});
    let split = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    let (bytes, fuse) = (json!({"type": "ByteFallback"}), json!({"type": "Fuse"}));
    let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
    let gemma = sequence("decoders", &[&unmarks, &bytes, &fuse]);
    let llama = sequence("decoders", &[&unmarks, &bytes, &fuse, &strip]);
    let llama_marks = sequence("normalizers", &[&prepend, &marks]);
    let mut forms = vec![
        tokenizer(&llama_marks, &Value::Null, &llama),
        tokenizer(&marks, &split, &gemma),
        tokenizer(
            &sequence("normalizers", &[&json!({"type": "NFKC"}), &marks, &prepend]),
            &Value::Null,
            &llama,
        ),
    ];
    for scheme in ["always", "first", "never"] {
        for split in [true, false] {
            let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
            forms.push(tokenizer(&Value::Null, &metaspace, &metaspace));
            forms.push(tokenizer(&json!({"type": "NFC"}), &metaspace, &llama));
        }
    }
    let legacy = json!({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true});
    let decoder = sequence("decoders", &[&legacy, &bytes, &fuse]);
    forms.push(tokenizer(&Value::Null, &legacy, &decoder));
    forms
}

fn from_files(
    folder: &std::path::Path,
    tokenizer: &Value,
    template: Option<String>,
) -> Result<Language, LanguageError> {
    let path = folder.join("tokenizer.json");
    fs::write(&path, tokenizer.to_string()).unwrap();
    Language::load(&LanguageSource::HuggingFace(HuggingFaceFiles {
        tokenizer: path,
        tokenizer_config: None,
        generation_config: None,
        chat_template: template.map(Into::into),
        vocabulary: 400,
    }))
}

#[test]
fn byte_fallback_gives_the_ids_and_texts_of_the_python_package() {
    if !needs::python() {
        return;
    }
    let reference = reference();
    let cases = reference["cases"].as_array().unwrap().iter();
    let texts: HashSet<_> = cases.map(|case| case["text"].as_str().unwrap()).collect();
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_unstable();
    // Each prompt is a text with special tokens, which a template writes.
    let prompts = [
        "<|user|>the here<|end|> a<b>b",
        "a <|user|>  b\n\nthe<s>here",
        "<s>a<b> a",
        "ab</s> ab",
    ];
    let (folder, forms) = (tempfile::tempdir().unwrap(), forms());
    let theirs = python(
        "characters.py",
        &json!({"files": forms, "texts": texts.iter().chain(&prompts).collect::<Vec<_>>()}),
    );
    for (form, theirs) in forms.iter().zip(theirs.as_array().unwrap()) {
        let theirs: Vec<(Vec<u32>, String)> = of(theirs);
        let about = format!(
            "{}, {}, {}",
            form["normalizer"], form["pre_tokenizer"], form["decoder"]
        );
        let language = from_files(folder.path(), form, None).unwrap();
        for (text, (ids, decoded)) in texts.iter().zip(&theirs) {
            assert_eq!(language.encode_plain(text), *ids, "{text:?}: {about}");
            assert_eq!(
                decode(&language, ids),
                *decoded,
                "{text:?} {ids:?}: {about}"
            );
        }
        for (prompt, (ids, _)) in prompts.iter().zip(&theirs[texts.len()..]) {
            let template = format!("{{% raw %}}{prompt}{{% endraw %}}");
            let language = from_files(folder.path(), form, Some(template)).unwrap();
            let tokens = language.prompt(&[], None).unwrap().tokens;
            assert_eq!(tokens, *ids, "{prompt:?}: {about}");
        }
    }
}

#[test]
fn a_form_that_is_not_reproduced_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let form = forms().swap_remove(0);
    let refused = |at: &str, value: Value, named: &str| {
        let mut form = form.clone();
        *form.pointer_mut(at).unwrap() = value;
        let error = from_files(folder.path(), &form, None)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(named) && error.contains("supported: "),
            "{error}"
        );
    };
    let strip = |start: u32, stop: u32| json!({"type": "Strip", "content": " ", "start": start, "stop": stop});
    refused("/decoder", Value::Null, "the decoder is none");
    refused("/decoder", json!({"type": "WordPiece"}), "WordPiece");
    refused("/decoder/decoders/3", strip(1, 1), "Strip");
    refused("/decoder/decoders/0", strip(1, 0), "Strip");
    refused("/normalizer", json!({"type": "Lowercase"}), "Lowercase");
    refused(
        "/normalizer/normalizers/1/pattern",
        json!({"Regex": " +"}),
        "Regex",
    );
    refused("/model/byte_fallback", json!(false), "over characters");
    refused(
        "/added_tokens/1/normalized",
        json!(true),
        "<s> with normalized",
    );
}

#[test]
fn a_vocabulary_of_another_kind_is_refused() {
    let gguf = GgufVocabulary {
        model: "t5".into(),
        ..sentence_piece(true)
    };
    let mut byteless = sentence_piece(true);
    byteless.tokens[3 + 0xE2] = "x".into();
    let mut scoreless = sentence_piece(true);
    scoreless.scores[7] = f32::NAN;
    for (vocabulary, named) in [
        (gguf, "is t5; supported: "),
        (byteless, "byte 0xE2; supported: "),
        (scoreless, "score of token 7"),
    ] {
        let error = Language::load(&LanguageSource::Gguf(vocabulary)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(named), "{error}");
    }
}
