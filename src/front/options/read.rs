//! Reads the options of a call into the engine's options.

use std::time::Duration;

use super::allowed::{Allowed, whole};
use super::check::Check;
use super::constraint::{lenient, only, replace_tools};
use super::given::GivenOptions;
use super::table::{Scope, known, names};
use super::tools::ToolOptions;
use crate::engine::{Name, Options};
use crate::front::config::Config;
use crate::front::error::{Error, OptionError};
use crate::front::messages::GivenMessages;
use crate::guide::Grammar;
use crate::sampler::{Parameters, Partial};

/// The options of a call, of all scopes.
pub(super) struct Read {
    pub(super) request: Options,
    /// The sampling options that the call and the configuration set.
    pub(super) sampling: Partial,
    /// Whether guesses were asked for.
    pub(super) guess: Option<bool>,
    pub(super) system: Option<String>,
    pub(super) messages: GivenMessages,
    pub(super) name: Option<Name>,
    pub(super) persistent: Option<bool>,
    pub(super) take: Option<bool>,
    pub(super) keep_pictures: Option<bool>,
}

/// Reads the options of a call; `scopes` are those of its options.
pub(super) fn read(given: &GivenOptions, config: &Config, scopes: &[Scope]) -> Result<Read, Error> {
    let mut read = Read::defaults(config);
    let (mut seed, mut guess) = (config.seed, config.guess_asked);
    let mut grammars = Vec::new();
    let mut tools = ToolOptions::default();
    let unknown = |name: &str| OptionError::Unknown {
        name: name.to_owned(),
        known: names(scopes),
    };
    for option in &given.kept {
        let Some(key) = known(scopes).find(|key| key.name == option.name) else {
            return Err(unknown(&option.name).into());
        };
        let allowed = match key.allowed {
            Allowed::Tokens => whole(1, config.max_tokens_limit as u64),
            allowed => allowed,
        };
        let check = Check { option, allowed };
        let sampling = &mut read.sampling;
        match key.name {
            "max_tokens" => read.request.max_tokens = check.whole()?,
            "temperature" => sampling.temperature = Some(check.number()?),
            "top_k" => sampling.top_k = Some(check.whole()?),
            "top_p" => sampling.top_p = Some(check.number()?),
            "min_p" => sampling.min_p = Some(check.number()?),
            "repetition_penalty" => sampling.repetition_penalty = Some(check.number()?),
            "seed" => seed = Some(check.whole()?),
            "stop" => read.request.stop = check.stops()?,
            "json_schema" => grammars.push(Grammar::JsonSchema(check.text()?)),
            "schema_lenient" => read.request.schema_lenient = check.truth()?,
            "json" => grammars.extend(check.truth()?.then_some(Grammar::Json)),
            "regex" => grammars.push(Grammar::Regex(check.text()?)),
            "grammar" => grammars.push(Grammar::Lark(check.text()?)),
            "choice" => grammars.push(Grammar::Choice(check.choices()?)),
            "tools" => tools.tools = Some(check.tools(config.tools_bytes)?),
            "tool_choice" => tools.choice = Some(check.text()?),
            "parallel_tool_calls" => tools.parallel = Some(check.truth()?),
            "max_calls" => tools.max_calls = Some(check.whole()?),
            "thinking_tokens" => read.request.thinking_tokens = Some(check.whole()?),
            "thinking" => read.request.thinking = Some(check.truth()?),
            "priority" => read.request.priority = check.priority()?,
            "deadline_ms" => {
                read.request.deadline = Some(Duration::from_millis(check.whole()?));
            }
            "guess" => guess = Some(check.truth()?),
            "logprobs" => read.request.sampling.logprobs = Some(check.whole()?),
            "system" => read.system = Some(check.text()?),
            "name" => read.name = Some(check.name()?),
            "persistent" => read.persistent = Some(check.truth()?),
            "context_overflow" => read.request.overflow = check.overflow()?,
            "take" => read.take = Some(check.truth()?),
            "keep_pictures" => read.keep_pictures = Some(check.truth()?),
            "messages" => read.messages = check.messages()?,
            _ => return Err(unknown(&option.name).into()),
        }
    }
    if given.more {
        let known = names(scopes);
        return Err(OptionError::TooMany { known }.into());
    }
    // A session with a name may have tools from an earlier call.
    if read.name.is_none() || tools.tools.is_some() {
        read.request.tools = tools.read(config.tools.as_ref())?;
    }
    let own = tools.tools.is_some() || tools.choice.is_some();
    replace_tools(&mut read.request, own, grammars.first())?;
    let grammar = only(grammars, &read.request.stop)?;
    read.request.grammar = grammar.map(|grammar| lenient(grammar, read.request.schema_lenient));
    read.request.sampling.seed = match seed {
        Some(seed) => seed,
        None => fresh_seed()?,
    };
    read.request.sampling = read.sampling.over(&read.request.sampling);
    read.request.guess = config.guess.guess(guess, config.guess_tokens);
    read.guess = guess;
    read.request.open = config.sampling_from_model.then_some(read.sampling);
    Ok(read)
}

impl Read {
    /// The configured defaults.
    fn defaults(config: &Config) -> Self {
        let parameters = Parameters {
            logprobs: config.logprobs,
            ..Parameters::default()
        };
        Self {
            request: Options {
                thinking: config.thinking,
                thinking_tokens: config.thinking_tokens,
                priority: config.priority,
                overflow: config.overflow,
                ..Options::new(config.max_tokens, parameters)
            },
            sampling: config.sampling,
            guess: None,
            system: None,
            messages: GivenMessages::default(),
            name: None,
            persistent: None,
            take: None,
            keep_pictures: None,
        }
    }
}

/// Returns a random seed of 53 bits: JSON readers take numbers for doubles, which hold these exactly.
fn fresh_seed() -> Result<u64, Error> {
    let random = getrandom::u64().map_err(|error| Error::NoRandomness(error.to_string()))?;
    Ok(random >> 11)
}

#[cfg(test)]
mod tests {
    use super::super::given::{GivenOption, Value};
    use super::super::table::{OPTIONS, OptionKey};
    use super::*;

    fn one(name: &str, value: Value, type_name: &str) -> GivenOptions {
        GivenOptions {
            kept: vec![GivenOption {
                name: name.to_owned(),
                value,
                type_name: type_name.to_owned(),
            }],
            more: false,
        }
    }

    #[test]
    fn every_option_of_the_table_is_read() {
        for key in OPTIONS {
            let given = one(key.name, Value::Other, "o");
            let refused = read(&given, &Config::default(), &[key.scope]).map(drop);
            let Err(Error::Option(error)) = refused else {
                panic!("{}: {refused:?}", key.name);
            };
            assert_eq!(error.option(), Some(key.name));
            let why = error.to_string();
            let start = format!("option {:?} is of type o; allowed is ", key.name);
            assert!(why.starts_with(&start), "{why}");
        }
    }

    /// The bounds are those of the description, and values beyond them are refused.
    #[test]
    fn every_option_takes_its_bounds_as_they_are_described() {
        let takes = |key: &OptionKey, value: Value| {
            let given = one(key.name, value, "x");
            read(&given, &Config::default(), &[key.scope]).is_ok()
        };
        let mut bounds = 0;
        for key in OPTIONS {
            let shown = key.allowed.describe("");
            let Some((_, range)) = shown.split_once(" from ") else {
                continue;
            };
            let range = range.replace("limits.max_tokens", "4096");
            let (least, most) = range.split_once(" to ").expect("two bounds");
            for (bound, beyond) in [(least, -1_i32), (most, 1)] {
                bounds += 1;
                let name = key.name;
                if let Ok(whole) = bound.parse::<i128>() {
                    assert!(takes(key, Value::Whole(whole)), "{name} {bound}");
                    let beyond = Value::Whole(whole + i128::from(beyond));
                    assert!(!takes(key, beyond), "{name} beyond {bound}");
                }
                if matches!(key.allowed, Allowed::Number { .. }) {
                    let number: f64 = bound.parse().expect("a number");
                    assert!(takes(key, Value::Number(number)), "{name} {bound}");
                    let beyond = Value::Number(number + f64::from(beyond) / 1e3);
                    assert!(!takes(key, beyond), "{name} beyond {bound}");
                }
            }
        }
        assert!(bounds > 40, "{bounds}");
    }

    #[test]
    fn errors_quote_long_values_in_part() {
        let long = "x".repeat(5000);
        for value in [Value::Text(long.clone()), Value::Texts(vec![long.clone()])] {
            let given = one("seed", value, &long);
            let refused = read(&given, &Config::default(), &[Scope::Request]).map(drop);
            let why = refused.expect_err("it is not a number").to_string();
            assert!(why.len() < 500, "{why}");
        }
    }
}
