//! The files beside a safetensors model: which tokens begin, end and are shown.

use std::fs;

use ganglion::model::checkpoint::{HuggingFaceFiles, LanguageSource};
use ganglion::model::{Language, Role};
use serde_json::{Value, json};

use super::{decode, says, spelled};

#[test]
fn roles_of_tokens_come_from_the_files_beside() {
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
