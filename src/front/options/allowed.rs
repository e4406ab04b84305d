//! The values that options may have, and their description for people.

/// Texts that may end an answer, and bytes of each.
pub(super) const STOPS: usize = 16;
pub(super) const STOP_BYTES: usize = 1024;

/// Options of one call that are kept: many more than there are options.
pub const MOST_OPTIONS: usize = 64;

/// The most texts of one array: choices.
pub const TEXTS: usize = 256;

/// The values that an option may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// A number of tokens, up to the configured limit.
    Tokens,
    Whole {
        least: u64,
        most: u64,
    },
    Number {
        least: f32,
        most: f32,
    },
    Truth,
    Stops,
    Priority,
    Text,
    Name,
    Overflow,
    Schema,
    Choices,
    Tools,
    ToolChoice,
    Messages,
}

pub(super) const fn whole(least: u64, most: u64) -> Allowed {
    Allowed::Whole { least, most }
}

pub(super) const fn number([least, most]: [f32; 2]) -> Allowed {
    Allowed::Number { least, most }
}

impl Allowed {
    /// Describes the values. `types` follows the noun in parentheses, unless it is empty: a front end's names of the types.
    #[must_use]
    pub fn describe(self, types: &str) -> String {
        let types = if types.is_empty() {
            String::new()
        } else {
            format!(" ({types})")
        };
        match self {
            Self::Tokens => format!("a whole number{types} from 1 to limits.max_tokens"),
            Self::Whole { least, most } => format!("a whole number{types} from {least} to {most}"),
            Self::Number { least, most } => format!("a number{types} from {least} to {most}"),
            Self::Truth => format!("true or false{types}"),
            Self::Stops => {
                format!("up to {STOPS} texts{types}, none empty or longer than {STOP_BYTES} bytes")
            }
            Self::Priority => format!("\"realtime\", \"normal\" or \"background\"{types}"),
            Self::Schema => format!(
                "a text{types} of at most limits.grammar_bytes, without stop and with no other of json_schema, json, regex, \
                 grammar and choice"
            ),
            Self::Choices => format!(
                "1 to {TEXTS} texts{types}, none empty, of at most limits.grammar_bytes together"
            ),
            Self::Tools => format!(
                "a JSON array{types} of {{\"type\": \"function\", \"function\": {{\"name\", \"description\", \"parameters\"}}}}, \
                 the parameters a JSON Schema, of at most limits.grammar_bytes"
            ),
            Self::ToolChoice => {
                format!("\"auto\", \"none\", \"required\" or the name of a tool{types}")
            }
            Self::Text => format!("a text{types}"),
            Self::Overflow => format!("\"error\" or \"truncate_oldest\"{types}"),
            Self::Name => format!(
                "1 to 64 letters (a to z, A to Z), digits, \"-\", \"_\" and \".\", the first not a dot{types}"
            ),
            Self::Messages => format!("messages{types}"),
        }
    }
}
