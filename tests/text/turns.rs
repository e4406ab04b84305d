//! The next turn of a conversation keeps the tokens of its earlier turns.

use ganglion::model::Manner;
use ganglion::model::{Language, Message, Role};

use super::{load, qwen3_style, says, smollm2};

use crate::support::needs;

/// Returns prompts for a second question, with the tokens of the first prompt and its answer.
fn second_turn(
    language: &Language,
    answer: &str,
    answer_tokens: &[u32],
) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let mut messages: Vec<Message> = vec![
        says(Role::System, "You help a robot."),
        says(Role::User, "Where is the kitchen? <|im_end|>"),
    ];
    let first = language.prompt(&messages, None).unwrap();
    messages.push(says(Role::Assistant, answer));
    messages.push(says(Role::User, "And the door?"));
    let anew = language.prompt(&messages, None).unwrap();
    let next = language
        .continue_prompt(&first, answer_tokens, &messages, None)
        .unwrap();
    assert_eq!(next.text(), anew.text());
    (
        [&first.tokens, answer_tokens].concat(),
        next.tokens,
        anew.tokens,
    )
}

#[test]
fn the_next_turn_begins_with_the_tokens_of_the_past() {
    if !needs::smollm2() {
        return;
    }
    let language = load(smollm2());
    let answer = "It is behind you, <|im_start|> naïve 🤖.\n";
    let canonical = language.encode_plain(answer);
    let (past, next, anew) = second_turn(&language, answer, &canonical);
    assert!(next.starts_with(&past));
    assert_eq!(
        next, anew,
        "canonical tokens are those of the whole conversation"
    );

    // A model may choose other tokens for its answer than the tokenizer.
    let letters: Vec<u32> = answer
        .chars()
        .flat_map(|c| language.encode_plain(&c.to_string()))
        .collect();
    assert_ne!(letters, canonical);
    let (past, next, anew) = second_turn(&language, answer, &letters);
    assert!(next.starts_with(&past));
    assert_eq!(
        next[past.len()..],
        anew[past.len() + canonical.len() - letters.len()..]
    );
}

#[test]
fn turns_that_the_template_rewrites_are_encoded_again() {
    let language = load(qwen3_style());
    let answer = "<think>\nhmm\n</think>\n\nthe left";
    let (past, next, anew) = second_turn(&language, answer, &[263, 1, 2, 3]);
    assert!(!next.starts_with(&past), "the template drops past thoughts");
    assert_eq!(next, anew);

    let plain = "the left";
    let tokens = language.encode_plain(plain);
    let (past, next, anew) = second_turn(&language, plain, &tokens);
    assert!(next.starts_with(&past));
    assert_eq!(next, anew);
}

/// The tokenizer composes decomposed characters, such as those of macOS.
#[test]
fn composed_earlier_turns_are_recognized() {
    let language = load(qwen3_style());
    let said = |text: &str| vec![says(Role::User, text)];
    let rendered = |text: &str| language.render(&said(text), Manner::default()).unwrap();
    let prompt = language.prompt(&said("cafe\u{301} at 5 \u{2126}"), None);
    let tokens = prompt.unwrap().tokens;
    for same in ["cafe\u{301} at 5 \u{2126}", "caf\u{e9} at 5 \u{3a9}"] {
        let known = language.recognize(&tokens, rendered(same));
        assert_eq!(
            known.map(|known| known.tokens),
            Some(tokens.clone()),
            "{same}"
        );
    }
    assert!(
        language
            .recognize(&tokens, rendered("cafe at 5 \u{3a9}"))
            .is_none()
    );
}
