//! `SmolLM2` compared with Hugging Face transformers.

use ganglion::engine::{Codec, Limit, Refusal};
use ganglion::model::Manner;
use ganglion::model::Role;
use serde_json::Value;

use super::{decode, load, path, says, smollm2};

use crate::support::needs;

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
    if !needs::smollm2() {
        return;
    }
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
    if !needs::smollm2() {
        return;
    }
    let language = load(smollm2());
    for case in cases() {
        // The reference shows control tokens, which the daemon hides. Other texts here have none.
        let shown = case["greedy_text"].as_str().unwrap();
        let expected = shown.replace("<|im_start|>", "").replace("<|im_end|>", "");
        assert_eq!(decode(&language, &ids(&case["greedy"])), expected);
    }
}

#[test]
fn a_character_appears_with_its_last_token() {
    if !needs::smollm2() {
        return;
    }
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

/// A prompt is refused for its bytes only if its tokens could not fit either.
#[test]
fn a_prompt_with_too_many_bytes_has_too_many_tokens() {
    if !needs::smollm2() {
        return;
    }
    let language = load(smollm2());
    let longest = language.longest_token();
    let of_text = |id| decode(&language, &[id]);
    let mut all = (0..49152).map(of_text);
    let token = all.find(|text| text.len() == longest);
    // Line breaks, dashes or blanks: repeated, they are the fewest possible tokens for that many bytes.
    let token = token.expect("one token is the longest");
    let codec = Codec::Model(language);
    let encode = |text: &str, context| {
        codec.encode(&[says(Role::User, text)], None, Manner::default(), context)
    };
    let fits = token.repeat(40);
    let prompt = encode(&fits, 2047).expect("it is far from the limit");
    let needs = prompt.tokens.len() + 1;
    encode(&fits, needs).expect("it just fits");
    assert!(matches!(
        encode(&fits, needs - 1),
        Err(Refusal::ContextFull { .. })
    ));

    let most = 2047 * longest;
    codec.admit_bytes(most, 2047).expect("it could fit");
    let refused = encode(&"x".repeat(most + 1), 2047).expect_err("it cannot fit");
    let Refusal::PromptBytes { bytes, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(bytes, most + 1);
    assert_eq!(refused.limit(), Some(Limit::OfUser("kv.context")));
    // The template may drop an answer's reasoning, so the count is that of the rendered prompt.
    let talk = |said: &str| {
        [
            says(Role::User, "a"),
            says(Role::Assistant, said),
            says(Role::User, "b"),
        ]
    };
    let long = talk(&"x".repeat(most));
    codec
        .admit(&long, 2047)
        .expect("it has to be rendered first");
    let refused = codec.encode(&long, None, Manner::default(), 2047);
    assert!(
        matches!(refused, Err(Refusal::PromptBytes { .. })),
        "{refused:?}"
    );
}
