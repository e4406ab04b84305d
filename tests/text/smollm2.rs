//! `SmolLM2` against what Hugging Face transformers made of it.

use ganglion::model::Role;
use serde_json::Value;

use super::{decode, load, path, says, smollm2};

fn cases() -> Vec<Value> {
    let file = path("tests/golden/SmolLM2-135M-Instruct.Q4_1.gguf.golden.json");
    let golden: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    golden["cases"].as_array().unwrap().clone()
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn smollm2_ids_and_prompts_equal_the_reference() {
    let language = load(smollm2());
    for case in cases() {
        let user = case["user"].as_str().unwrap();
        assert_eq!(
            language.encode_plain(user),
            ids(&case["plain_ids"]),
            "{user}"
        );
        let prompt = language.prompt(&[says(Role::User, user)], None).unwrap();
        assert_eq!(prompt.text(), case["prompt"].as_str().unwrap());
        assert_eq!(prompt.tokens, ids(&case["input_ids"]), "{user}");
    }
    assert_eq!(language.vocabulary(), 49152);
    for (spelling, id) in [("<|endoftext|>", 0), ("<|im_end|>", 2)] {
        assert!(language.is_end(id), "{spelling} ends a turn");
    }
    assert!(!language.is_end(1), "<|im_start|> ends nothing");
}

#[test]
fn greedy_tokens_decode_to_the_reference_text() {
    let language = load(smollm2());
    for case in cases() {
        // The reference shows control tokens, and we do not; they occur nowhere else in these texts.
        let shown = case["greedy_text"].as_str().unwrap();
        let expected = shown.replace("<|im_start|>", "").replace("<|im_end|>", "");
        assert_eq!(decode(&language, &ids(&case["greedy"])), expected);
    }
}

#[test]
fn a_character_comes_with_its_last_token() {
    let language = load(smollm2());
    let tokens = language.encode_plain("a🤖é");
    assert!(
        tokens.len() > 4,
        "the robot must need several tokens: {tokens:?}"
    );
    let mut decoder = language.decoder();
    let pieces: Vec<String> = tokens.iter().map(|&token| decoder.push(token)).collect();
    assert_eq!(pieces.concat(), "a🤖é");
    assert!(pieces.iter().any(String::is_empty), "{pieces:?}");
    assert_eq!(decoder.finish(), "");

    let robot = language.encode_plain("🤖");
    let (last, begin) = robot.split_last().unwrap();
    let letter = language.encode_plain("x");
    assert_eq!(
        decode(&language, begin),
        "\u{FFFD}",
        "an end within a character"
    );
    assert_eq!(decode(&language, &[begin, &letter].concat()), "\u{FFFD}x");
    assert_eq!(
        decode(&language, &[&[1, u32::MAX], begin, &[2, *last]].concat()),
        "🤖"
    );
}
