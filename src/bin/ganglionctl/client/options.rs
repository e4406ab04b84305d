//! The options of one answer, as `ask` and `chat` take them.

use clap::Args;
use ganglion::bus::proxy::Fields;
use zbus::Variant;

/// What is not given is left to the daemon's configuration; the daemon checks every value.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// End the answer after this many tokens
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,
    /// 0 always takes the most probable token; higher is more varied
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Choose among the K most probable tokens
    #[arg(long, value_name = "K")]
    top_k: Option<u32>,
    /// Choose among the most probable tokens that together reach P
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Leave out tokens less probable than P times the most probable one
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    min_p: Option<f64>,
    /// Make recent tokens less likely; 1 changes nothing
    #[arg(long, value_name = "R", allow_negative_numbers = true)]
    repetition_penalty: Option<f64>,
    /// The same seed, options and text give the same answer
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// End the answer before this text; may be given again
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Let a model that can think do so before it answers
    #[arg(long, overrides_with = "no_thinking")]
    thinking: bool,
    /// Let it answer at once
    #[arg(long, overrides_with = "thinking")]
    no_thinking: bool,
}

impl Options {
    /// The options as D-Bus carries them.
    pub(crate) fn fields(&self) -> Fields<'_> {
        let thinking = match (self.thinking, self.no_thinking) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        };
        let stop: Vec<&str> = self.stop.iter().map(String::as_str).collect();
        [
            ("max_tokens", self.max_tokens.map(Variant::from)),
            ("temperature", self.temperature.map(Variant::from)),
            ("top_k", self.top_k.map(Variant::from)),
            ("top_p", self.top_p.map(Variant::from)),
            ("min_p", self.min_p.map(Variant::from)),
            (
                "repetition_penalty",
                self.repetition_penalty.map(Variant::from),
            ),
            ("seed", self.seed.map(Variant::from)),
            ("stop", (!stop.is_empty()).then(|| Variant::from(stop))),
            ("thinking", thinking.map(Variant::from)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}
