//! The options of one answer, as `ask` and `chat` take them.

use std::str::FromStr;

use clap::Args;
use ganglion::bus::proxy::Fields;
use zbus::Variant;

/// What is not given is left to the daemon's configuration; the daemon checks every value.
#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    /// End the answer after this many tokens
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>)]
    max_tokens: Option<u32>,
    /// 0 always takes the most probable token; higher is more varied
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Choose among the K most probable tokens
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = whole::<u32>)]
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
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u64>)]
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

    /// Whether the answer is to begin with thoughts.
    pub(crate) const fn wants_thinking(&self) -> bool {
        self.thinking
    }

    /// Those that were given, by their names on the bus.
    pub(crate) fn given(&self) -> Vec<(&'static str, String)> {
        fn shown<T: ToString>(value: Option<T>) -> Option<String> {
            value.map(|value| value.to_string())
        }
        let thinking = (self.thinking || self.no_thinking).then_some(self.thinking);
        let stop = (!self.stop.is_empty()).then(|| self.stop.join(", "));
        let all = [
            ("max_tokens", shown(self.max_tokens)),
            ("temperature", shown(self.temperature)),
            ("top_k", shown(self.top_k)),
            ("top_p", shown(self.top_p)),
            ("min_p", shown(self.min_p)),
            ("repetition_penalty", shown(self.repetition_penalty)),
            ("seed", shown(self.seed)),
            ("stop", stop),
            ("thinking", shown(thinking)),
        ];
        let given = all
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        given.collect()
    }

    /// Gives one by its name on the bus; without a value it is left to the configuration again.
    ///
    /// # Errors
    /// If there is no such option, or the value is of another kind.
    pub(crate) fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        match name {
            "max_tokens" => put(&mut self.max_tokens, value, whole),
            "temperature" => put(&mut self.temperature, value, number),
            "top_k" => put(&mut self.top_k, value, whole),
            "top_p" => put(&mut self.top_p, value, number),
            "min_p" => put(&mut self.min_p, value, number),
            "repetition_penalty" => put(&mut self.repetition_penalty, value, number),
            "seed" => put(&mut self.seed, value, whole),
            "stop" => {
                self.stop = value.map(str::to_owned).into_iter().collect();
                Ok(())
            }
            "thinking" => {
                let mut thinking = None;
                put(&mut thinking, value, truth)?;
                self.thinking = thinking == Some(true);
                self.no_thinking = thinking == Some(false);
                Ok(())
            }
            _ => Err(
                "it is none of max_tokens, temperature, top_k, top_p, min_p, repetition_penalty, seed, stop and \
                 thinking"
                    .into(),
            ),
        }
    }
}

fn put<T>(
    place: &mut Option<T>,
    value: Option<&str>,
    read: impl FnOnce(&str) -> Result<T, String>,
) -> Result<(), String> {
    *place = value.map(read).transpose()?;
    Ok(())
}

/// A negative one is a wrong value, not an option that nobody knows.
fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    let most = u128::MAX >> (128 - 8 * size_of::<T>());
    text.parse()
        .map_err(|_| format!("it must be a whole number from 0 to {most}"))
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "it must be a number".into())
}

fn truth(text: &str) -> Result<bool, String> {
    text.parse().map_err(|_| "it must be true or false".into())
}
