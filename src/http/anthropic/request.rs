//! The body of a request: decoded, and checked as far as the engine is not needed.

use super::super::chain::Chain;
use super::super::error::Error;
use super::super::request::body;
use super::super::request::given::Given;
use super::super::request::question::Question;
use super::super::request::table::Object;
use super::fields::TABLE;
use super::messages::messages;
use super::options::options;

/// A decoded request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) stream: bool,
}

impl Asked {
    /// Decodes the body of a request for an answer.
    ///
    /// # Errors
    /// An error names the field that is wrong.
    pub(super) fn read(body: &[u8]) -> Result<Self, Error> {
        let given = given(body)?;
        if given.get("max_tokens").is_none() {
            return Err(missing("max_tokens", "give the most tokens of the answer"));
        }
        Self::of(&given)
    }

    /// Decodes the body of a request for the number of its tokens.
    ///
    /// # Errors
    /// An error names the field that is wrong.
    pub(super) fn to_count(body: &[u8]) -> Result<Self, Error> {
        Self::of(&given(body)?)
    }

    fn of(given: &Given<'_>) -> Result<Self, Error> {
        let Some(said) = given.get("messages") else {
            let form = "give [{\"role\": \"user\", \"content\": ...}]";
            return Err(missing("messages", form));
        };
        Ok(Self {
            stream: given.truth("", "stream")?,
            question: Question {
                is_as_written: false,
                chain: Chain::default(),
                model: given.model()?,
                options: options(given)?,
                messages: messages(given.get("system"), said)?,
            },
        })
    }
}

fn given(body: &[u8]) -> Result<Given<'_>, Error> {
    Given::read(&TABLE, Object::Request, "", body::text(body)?)
}

fn missing(field: &str, remedy: &str) -> Error {
    let why = format!("{field} is missing; {remedy}");
    Error::invalid(Some(field), why).with_code("missing_required_parameter")
}
