//! Finds the texts that a template writes around thoughts, in a rendered conversation.

use crate::model::message::{Message, Role};

/// The texts around a model's thoughts, besides the tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThoughtTexts {
    /// The text at the beginning of the thoughts; it is not a thought.
    pub heading: String,
    /// The text at the end of the thoughts.
    pub last: String,
    /// The text between thoughts and answer.
    pub apart: String,
}

/// The names of a message's thoughts in templates.
const REASONING: &str = "reasoning_content";
pub(super) const THINKING: &str = "thinking";

/// Returns the name by which a template reads a message's thoughts, if it does.
#[must_use]
pub fn name(template: &str) -> Option<&'static str> {
    if template.contains(REASONING) {
        Some(REASONING)
    } else if template.contains("message.thinking") {
        Some(THINKING)
    } else {
        None
    }
}

/// Thoughts and an answer that occur nowhere else.
const THOUGHTS: &str = "ganglionthinks";
const ANSWER: &str = "ganglionanswers";

/// The most bytes of a text between them.
const LONGEST: usize = 32;

/// Returns a conversation with thoughts.
pub(super) fn conversation() -> [Message; 2] {
    let answer = Message {
        reasoning: THOUGHTS.into(),
        ..Message::new(Role::Assistant, ANSWER)
    };
    [Message::new(Role::User, "Hello"), answer]
}

/// Returns the texts around the thoughts, which are between the spellings of two tokens.
pub(super) fn texts(rendered: &str, [begin, end]: [&str; 2]) -> Option<ThoughtTexts> {
    let (before, after) = rendered.split_once(THOUGHTS)?;
    let (_, heading) = before.rsplit_once(begin)?;
    let (last, rest) = after.split_once(end)?;
    let (apart, _) = rest.split_once(ANSWER)?;
    let is_space = |text: &str| text.trim().is_empty();
    let known = heading.len() <= LONGEST && is_space(last) && is_space(apart);
    known.then(|| ThoughtTexts {
        heading: heading.trim_start().into(),
        last: last.into(),
        apart: apart.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_around_thoughts_are_those_of_the_template() {
        for (rendered, marks, expected) in [
            (
                "<think>\nganglionthinks\n</think>\n\nganglionanswers<|im_end|>",
                ["<think>", "</think>"],
                Some(["", "\n", "\n\n"]),
            ),
            (
                "<|channel>thought\nganglionthinks\n<channel|>ganglionanswers<turn|>",
                ["<|channel>", "<channel|>"],
                Some(["thought\n", "\n", ""]),
            ),
            ("ganglionanswers", ["<think>", "</think>"], None),
        ] {
            let found =
                texts(rendered, marks).map(|texts| [texts.heading, texts.last, texts.apart]);
            assert_eq!(
                found,
                expected.map(|all| all.map(str::to_owned)),
                "{rendered}"
            );
        }
    }
}
