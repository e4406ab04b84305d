//! The files next to a safetensors model: first tokens, end tokens and visible tokens.

use std::fs;

use ganglion::model::checkpoint::{HuggingFaceFiles, LanguageSource};
use ganglion::model::{Language, Role};
use serde_json::{Value, json};

use super::{decode, load, qwen3_style, says, spelled};

#[test]
fn roles_of_tokens_are_read_from_the_other_files() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, json: Value| {
        let path = directory.path().join(name);
        fs::write(&path, json.to_string()).unwrap();
        path
    };
    let special = |id: u32, content: &str, special: bool| json!({"id": id, "content": content, "special": special});
    let letters = (0_u8..=255).map(|byte| (spelled(&[byte]), json!(byte)));
    let tokenizer = json!({
        "version": "1.0",
        "model": {"type": "BPE", "vocab": letters.collect::<Value>(), "merges": []},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
        "post_processor": {"type": "Sequence", "processors": [
            {"type": "ByteLevel", "trim_offsets": false},
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}},
            },
        ]},
        "added_tokens": [
            special(256, "<s>", true), special(257, "</s>", true), special(258, "<|eot_id|>", true),
            special(259, "<stop>", true), special(260, "<think>", false), special(261, "<|user|>", false),
        ],
    });
    let language = Language::load(&LanguageSource::HuggingFace(HuggingFaceFiles {
        tokenizer: write("tokenizer.json", tokenizer),
        tokenizer_config: Some(write("a.json", json!({"eos_token": {"content": "</s>"}}))),
        generation_config: Some(write("b.json", json!({"eos_token_id": [257, 259]}))),
        chat_template: Some("<|user|>{{ messages[0].content }}{{ eos_token }}<think>".into()),
        vocabulary: 300,
    }))
    .unwrap();
    assert_eq!(
        (256..262)
            .filter(|&id| language.is_end(id))
            .collect::<Vec<_>>(),
        [257, 258, 259]
    );
    let prompt = language.prompt(&[says(Role::User, "A</s>")], None).unwrap();
    let user = language.encode_plain("A</s>");
    assert_eq!(user.len(), 5);
    assert_eq!(
        prompt.tokens,
        [&[256, 261], user.as_slice(), &[257, 260]].concat()
    );
    assert_eq!(
        decode(&language, &prompt.tokens),
        "A</s><think>",
        "control tokens are not shown"
    );
    assert_eq!(language.vocabulary(), 262);
}

/// A folder with a vocabulary of bytes, of `th` and of `<|x|>`, both of which are merges.
fn folder(added: &Value, others: &[(&str, Value)]) -> (tempfile::TempDir, HuggingFaceFiles) {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, json: &Value| {
        let path = directory.path().join(name);
        fs::write(&path, json.to_string()).unwrap();
        path
    };
    let letters = (0_u8..=255).map(|byte| (spelled(&[byte]), json!(byte)));
    let made = ["th", "<|", "<|x", "<|x|", "<|x|>"];
    let made = made
        .iter()
        .zip(256..)
        .map(|(text, id)| (text.to_string(), json!(id)));
    let merges = [
        ["t", "h"],
        ["<", "|"],
        ["<|", "x"],
        ["<|x", "|"],
        ["<|x|", ">"],
    ];
    let tokenizer = json!({
        "version": "1.0",
        "model": {"type": "BPE", "vocab": letters.chain(made).collect::<Value>(), "merges": merges},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
        "added_tokens": added,
    });
    let files = HuggingFaceFiles {
        tokenizer: write("tokenizer.json", &tokenizer),
        tokenizer_config: None,
        generation_config: None,
        chat_template: None,
        vocabulary: 300,
    };
    for (name, json) in others {
        write(name, json);
    }
    (directory, files)
}

#[test]
fn a_special_token_that_text_consists_of_is_text() {
    let special = |id: u32, content: &str| json!({"id": id, "content": content, "special": true});
    let added = json!([
        special(33, "!"),
        special(256, "th"),
        special(260, "<|x|>"),
        special(261, "\n\n")
    ]);
    let (_directory, mut files) = folder(&added, &[]);
    files.chat_template = Some("{{ messages[0].content }}<|x|>".into());
    let language = Language::load(&LanguageSource::HuggingFace(files)).unwrap();
    let text = "th!!\n\n<|x|>";
    let ids = language.encode_plain(text);
    assert_eq!(ids, [256, 33, 33, 261, 259, u32::from(b'>')]);
    assert_eq!(decode(&language, &ids), text, "answers show it");
    let prompt = language.prompt(&[says(Role::User, text)], None).unwrap();
    assert_eq!(prompt.tokens, [ids.as_slice(), &[260]].concat());
}

#[test]
fn a_token_of_the_configuration_is_added() {
    let others = [(
        "special_tokens_map.json",
        json!({"pad_token": {"content": "th", "lstrip": true}}),
    )];
    let (directory, mut files) = folder(&json!([]), &others);
    let config = json!({
        "bos_token": "<s>",
        "additional_special_tokens": ["<end>"],
        "added_tokens_decoder": {"256": {"content": "th", "rstrip": true, "special": false, "normalized": false}},
    });
    let path = directory.path().join("tokenizer_config.json");
    fs::write(&path, config.to_string()).unwrap();
    files.tokenizer_config = Some(path);
    files.chat_template = Some("{{ bos_token }}th {{ messages[0].content }} th<end>".into());
    let language = Language::load(&LanguageSource::HuggingFace(files)).unwrap();
    let prompt = language.prompt(&[says(Role::User, "<s>")], None).unwrap();
    let user = language.encode_plain("<s> ");
    assert_eq!(user.len(), 4);
    assert_eq!(
        prompt.tokens,
        [&[261, 256], user.as_slice(), &[256, 262]].concat()
    );
}

#[test]
fn end_tokens_are_the_union_of_all_files() {
    let added: Vec<_> = (0..6)
        .map(|n| json!({"id": 270 + n, "content": format!("<e{n}>"), "special": true}))
        .collect();
    let others = [
        ("special_tokens_map.json", json!({"eos_token": "<e1>"})),
        (
            "config.json",
            json!({"eos_token_id": [272, 269, -1], "text_config": {"eos_token_id": 273}}),
        ),
        (
            "generation_config.json",
            json!({"eos_token_id": [274, 4_294_967_295_u32]}),
        ),
        ("tokenizer_config.json", json!({"eos_token": "<e0>"})),
    ];
    let (directory, mut files) = folder(&added.into(), &others);
    files.tokenizer_config = Some(directory.path().join("tokenizer_config.json"));
    files.generation_config = Some(directory.path().join("generation_config.json"));
    let language = Language::load(&LanguageSource::HuggingFace(files)).unwrap();
    let ends: Vec<_> = (0..300).filter(|&id| language.is_end(id)).collect();
    assert_eq!(ends, [270, 271, 272, 273, 274]);
    let notes = language.notes();
    for skipped in ["269", "-1", "4294967295"] {
        let named = format!("the end token {skipped} is skipped");
        assert!(
            notes.iter().any(|note| note.contains(&named)),
            "{skipped}: {notes:?}"
        );
    }
    assert_eq!(notes.len(), 3, "{notes:?}");
}

#[test]
fn end_tokens_of_gguf_are_found_by_id_and_by_spelling() {
    let with = |spellings: &[&str]| {
        let mut vocabulary = qwen3_style();
        for spelling in spellings {
            vocabulary.tokens.push((*spelling).into());
            vocabulary.token_types.push(1);
        }
        vocabulary
    };
    let mut vocabulary = with(&["<|eom_id|>", "<|end|>", "plain"]);
    let count = u32::try_from(vocabulary.tokens.len()).unwrap();
    let [eom, end, plain] = [3, 2, 1].map(|back| count - back);
    vocabulary.eom = Some(plain);
    vocabulary.eot = Some(count);
    vocabulary.pad = Some(u32::MAX);
    let language = load(vocabulary);
    for id in [eom, end, plain] {
        assert!(language.is_end(id), "{id}");
    }
    assert_eq!(decode(&language, &[eom, end]), "", "answers do not show it");
    assert_eq!(language.notes().len(), 1, "{:?}", language.notes());

    let language = load(with(&["<|end|>", "<|return|>", "<|call|>"]));
    let [end, last, call] = [3, 2, 1].map(|back| count - back);
    assert!(!language.is_end(end), "only a message ends");
    assert!(language.is_end(last) && language.is_end(call));
}
