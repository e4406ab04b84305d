//! The settings of a request that its response repeats, as they were given.

use serde_json::value::RawValue;

use super::super::chain::Chain;
use super::super::request::given::Given;

/// JSON that is repeated; `None` if it was not given.
type Kept = Option<Box<RawValue>>;

/// The settings of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    pub(super) store: bool,
    pub(super) previous_response_id: Option<String>,
    pub(super) instructions: Kept,
    pub(super) max_output_tokens: Kept,
    pub(super) parallel_tool_calls: Kept,
    pub(super) reasoning: Kept,
    pub(super) temperature: Kept,
    pub(super) text: Kept,
    pub(super) tool_choice: Kept,
    pub(super) tools: Kept,
    pub(super) top_logprobs: Kept,
    pub(super) top_p: Kept,
}

impl Settings {
    /// Returns those of a request.
    pub(super) fn of(request: &Given<'_>, chain: &Chain) -> Self {
        let kept = |name: &str| request.get(name).map(ToOwned::to_owned);
        Self {
            store: chain.store,
            previous_response_id: chain.previous.clone(),
            instructions: kept("instructions"),
            max_output_tokens: kept("max_output_tokens"),
            parallel_tool_calls: kept("parallel_tool_calls"),
            reasoning: kept("reasoning"),
            temperature: kept("temperature"),
            text: kept("text"),
            tool_choice: kept("tool_choice"),
            tools: kept("tools"),
            top_logprobs: kept("top_logprobs"),
            top_p: kept("top_p"),
        }
    }
}
