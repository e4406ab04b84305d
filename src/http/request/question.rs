//! What a decoded request asks of the engine, whichever endpoint it came to.

use super::super::chain::Chain;
use super::options::Options;
use crate::front::GivenMessages;

/// The conversation and the options of a request.
#[derive(Debug)]
pub(in crate::http) struct Question {
    /// The name of a model; `None` for the loaded one.
    pub(in crate::http) model: Option<String>,
    pub(in crate::http) messages: GivenMessages,
    pub(in crate::http) options: Options,
    pub(in crate::http) chain: Chain,
    /// Whether the prompt is the text of the only message as it is written, without the model's template.
    pub(in crate::http) is_as_written: bool,
}
