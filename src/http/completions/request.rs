//! The body of a request: decoded, and checked as far as the engine is not needed.

use super::super::chain::Chain;
use super::super::error::Error;
use super::super::raw::{self, Kind};
use super::super::request::body;
use super::super::request::given::Given;
use super::super::request::options::Options;
use super::super::request::question::Question;
use super::super::request::table::Object;
use super::fields::TABLE;
use crate::engine::{Message, Role};
use crate::front::GivenMessages;

/// Fields of a request that are options of the same name.
const SAME: [&str; 6] = [
    "temperature",
    "top_p",
    "seed",
    "stop",
    "max_tokens",
    "logprobs",
];

/// A decoded request.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) stream: bool,
    /// Whether a stream reports its usage.
    pub(super) include_usage: bool,
}

impl Asked {
    /// Decodes a body.
    ///
    /// # Errors
    /// An error names the field that is wrong.
    pub(super) fn read(body: &[u8]) -> Result<Self, Error> {
        let given = Given::read(&TABLE, Object::Request, "", body::text(body)?)?;
        let model = given.model()?;
        let include_usage = match given.get("stream_options") {
            None => false,
            Some(raw) => {
                const AT: &str = "stream_options";
                let options = Given::read(&TABLE, Object::StreamOptions, AT, raw.get())?;
                options.truth("stream_options.", "include_usage")?
            }
        };
        Ok(Self {
            stream: given.truth("", "stream")?,
            include_usage,
            question: Question {
                chain: Chain::default(),
                model,
                options: options(&given)?,
                messages: prompt(&given)?,
                is_as_written: true,
            },
        })
    }
}

/// Reads the prompt as a message, whose text is not rendered.
fn prompt(given: &Given<'_>) -> Result<GivenMessages, Error> {
    let wrong = |why: &str| {
        let why = format!("prompt: {why}");
        Error::invalid(Some("prompt"), why)
    };
    let Some(raw) = given.get("prompt") else {
        let why = "it is missing; give the text that the model continues";
        return Err(wrong(why).with_code("missing_required_parameter"));
    };
    let text = match raw::kind(raw) {
        // Some clients put the only prompt into an array.
        Kind::Array => match raw::array(raw, 1) {
            Ok(prompts) if prompts.len() == 1 => raw::text(prompts[0]),
            _ => Err("it is an array of several prompts or of tokens; send each text by a request of its own".into()),
        },
        _ => raw::text(raw),
    };
    let content = text.map_err(|why| wrong(&why).with_code("invalid_type"))?;
    let message = Message::new(Role::User, content);
    let mut given = GivenMessages::default();
    let pushed = given.push(message, Vec::new());
    pushed.map_err(|why| wrong(&why))?;
    Ok(given)
}

fn options(request: &Given<'_>) -> Result<Options, Error> {
    let mut options = Options::default();
    for name in SAME {
        if let Some(raw) = request.get(name) {
            options.add(name, raw);
        }
    }
    options.read_extensions(&TABLE, request)?;
    Ok(options)
}
