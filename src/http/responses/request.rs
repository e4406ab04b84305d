//! The body of a request: decoded, and checked as far as the engine is not needed.

use super::super::chain::Chain;
use super::super::error::Error;
use super::super::raw;
use super::super::request::body;
use super::super::request::given::Given;
use super::super::request::question::Question;
use super::super::request::table::Object;
use super::fields::TABLE;
use super::input::messages;
use super::options::options;
use super::settings::Settings;

/// A decoded request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) stream: bool,
    pub(super) settings: Settings,
}

impl Asked {
    /// Decodes a body.
    ///
    /// # Errors
    /// An error names the field that is wrong.
    pub(super) fn read(body: &[u8]) -> Result<Self, Error> {
        let given = Given::read(&TABLE, Object::Request, "", body::text(body)?)?;
        if let Some(raw) = given.get("stream_options") {
            Given::read(&TABLE, Object::StreamOptions, "stream_options", raw.get())?;
        }
        let Some(input) = given.get("input") else {
            let why = "input is missing; give a text, or [{\"role\": \"user\", \"content\": ...}]";
            return Err(Error::invalid(Some("input"), why).with_code("missing_required_parameter"));
        };
        let chain = chain(&given)?;
        Ok(Self {
            stream: given.truth("", "stream")?,
            settings: Settings::of(&given, &chain),
            question: Question {
                is_as_written: false,
                chain,
                model: given.model()?,
                options: options(&given)?,
                messages: messages(given.get("instructions"), input)?,
            },
        })
    }
}

/// Returns what a request says about stored responses.
fn chain(given: &Given<'_>) -> Result<Chain, Error> {
    let text = |name: &str| {
        let text = given.get(name).map(raw::text).transpose();
        let text = text.map_err(|why| {
            Error::invalid(Some(name), format!("{name}: {why}")).with_code("invalid_type")
        })?;
        Ok::<_, Error>(text.map(std::borrow::Cow::into_owned))
    };
    let chain = Chain {
        store: given.truth("", "store")?,
        previous: text("previous_response_id")?,
        instructions: None,
    };
    // The text may be long.
    if !chain.has_session() {
        return Ok(chain);
    }
    Ok(Chain {
        instructions: text("instructions")?,
        ..chain
    })
}
