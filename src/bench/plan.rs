//! The measurements to make: command-line arguments, and the settings and work that follow from them.

use clap::builder::{PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{Args, value_parser};

use super::steps::Workload;
use crate::choice::Choice as _;
use crate::graph::Mode;
use crate::load::{KvMemory, Settings};
use crate::sampler::Parameters;

/// The measurements to make, as command-line arguments.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Plan {
    /// Tokens of the prompt; several numbers are measured one after another, with the model loaded once
    #[arg(long = "prompt", value_name = "P,...", value_delimiter = ',', default_value = "512", value_parser = count())]
    pub(super) prompts: Vec<usize>,
    /// Tokens to generate after it
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = count())]
    pub(super) generate: usize,
    /// How often to measure
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = count())]
    pub(super) reps: usize,
    /// Parts of the work that are recorded and replayed; several modes are measured one after another
    #[arg(long = "mode", value_name = "MODE,...", value_delimiter = ',', value_parser = mode(), default_value = Mode::default().name())]
    pub(super) modes: Vec<Mode>,
    /// Conversations that share a step, each after a prompt of its own; several numbers are measured one after another
    #[arg(long, value_name = "R,...", value_delimiter = ',', value_parser = value_parser!(u8).range(1..=8))]
    pub(super) rows: Vec<u8>,
    /// Temperature of the sampling; 0 takes the most probable token
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f32,
    /// Sample among the K most probable tokens; 0 is all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: u32,
    /// Sample among the most probable tokens that together reach this probability
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,
}

impl Plan {
    /// Returns the length of the longest prompt.
    pub(super) fn longest(&self) -> usize {
        self.prompts.iter().copied().max().unwrap_or(1)
    }

    /// Returns `settings` with room for the plan.
    pub(super) fn settings(&self, settings: &Settings) -> Settings {
        let conversations = self.rows.iter().max().map_or(1, |rows| usize::from(*rows));
        let mut settings = settings.clone();
        settings.context = self.longest().saturating_add(self.generate);
        settings.kv_memory = KvMemory::Conversations(conversations);
        settings.rows = conversations;
        settings.graph.mode = self.modes[0];
        settings
    }

    pub(super) fn workload<'a>(&self, prompt: &'a [u32]) -> Workload<'a> {
        Workload {
            prompt,
            generate: self.generate,
            parameters: Parameters {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                ..Parameters::default()
            },
        }
    }
}

/// Parses the name of a mode.
fn mode() -> impl TypedValueParser<Value = Mode> {
    let names = Mode::ALL.iter().map(|mode| mode.name());
    PossibleValuesParser::new(names)
        .try_map(|name| Mode::named(&name).ok_or("not one of the possible values"))
}

/// Parses a number of tokens or repetitions. Numbers above any model's positions are typing errors.
fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=1 << 20)
}
