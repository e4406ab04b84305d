//! Reads the options of a call. Nothing is ignored: what is unknown, mistyped or out of range is an
//! error that names it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value as Json};

use super::argument::{Value, shortened};
use super::entries::{ENTRIES, Entries, Entry};
use super::error::carried;
use super::option_table::{Allowed, OPTIONS, Of, OptionKey, STOP_BYTES, STOPS, whole};
use super::{BusConfig, Error, messages};
use crate::engine::{Message, Name, Options, Overflow, Priority, Role};
use crate::guide::Grammar;
use crate::sampler::Parameters;
use crate::sampler::Partial;
use crate::tools::Tools;

/// What `OpenSession` was given for the turns that give none.
#[derive(Clone, Debug)]
pub(super) struct Beginnings {
    pub(super) defaults: Entries,
    pub(super) tools: Option<Arc<Tools>>,
    pub(super) priority: Priority,
}

/// How the text reaches the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Pipe,
    Signals,
}

/// Options of a request that streams.
pub(super) fn streamed(given: &Entries, config: &BusConfig) -> Result<(Options, Stream), Error> {
    let Read {
        request, stream, ..
    } = read(given, config, &[Of::Requests, Of::Streams])?;
    Ok((request, stream))
}

/// Options of a request whose text is read by calls, and whether it also comes by signals.
pub(super) fn submitted(given: &Entries, config: &BusConfig) -> Result<(Options, bool), Error> {
    let Read {
        request, signals, ..
    } = read(given, config, &[Of::Requests, Of::Submissions])?;
    Ok((request, signals))
}

/// Options of a request that answers in its reply: what it starts from, and its system message and other messages.
pub(super) fn complete(
    given: &Entries,
    config: &BusConfig,
) -> Result<(Options, Option<String>, Vec<Message>), Error> {
    let of = [Of::Requests, Of::Beginnings, Of::Completions];
    let Read {
        request,
        system,
        messages,
        ..
    } = read(given, config, &of)?;
    Ok((request, system, messages))
}

/// What `OpenSession` is asked for.
pub(super) struct Opening {
    pub(super) name: Option<Name>,
    pub(super) persistent: Option<bool>,
    pub(super) take: bool,
    /// What it begins with.
    pub(super) messages: Vec<Message>,
    /// What its turns start from, as JSON: it is kept with a session that is.
    pub(super) options: Map<String, Json>,
}

/// Options of `OpenSession`.
pub(super) fn session(given: &Entries, config: &BusConfig) -> Result<Opening, Error> {
    let Read {
        system,
        messages,
        name,
        persistent,
        take,
        ..
    } = read(given, &unseeded(config), &[Of::Beginnings, Of::Sessions])?;
    let without_name = [
        ("persistent", persistent.is_some()),
        ("take", take.is_some()),
    ];
    if let (None, Some((option, _))) = (&name, without_name.iter().find(|(_, given)| *given)) {
        return Err(Error::InvalidOption(format!(
            "option {option:?} is of a session with a name: give the option \"name\", or leave it out"
        )));
    }
    let system = system.map(|content| Message::new(Role::System, content));
    let lasting = given.kept.iter().filter(|entry| is_lasting(&entry.name));
    let options = lasting.filter_map(|Entry { name, value, .. }| {
        let value = match value {
            Value::Bool(truth) => Json::from(*truth),
            Value::Whole(n) => u64::try_from(*n).ok()?.into(),
            Value::Number(number) => Json::from(*number),
            Value::Text(text) => Json::from(text.as_str()),
            _ => return None,
        };
        Some((name.clone(), value))
    });
    Ok(Opening {
        name,
        persistent,
        take: take.unwrap_or(false),
        messages: system.into_iter().chain(messages).collect(),
        options: options.collect(),
    })
}

/// Whether an option of `OpenSession` is of each of its turns.
fn is_lasting(name: &str) -> bool {
    !["name", "persistent", "take", "system", "messages"].contains(&name)
}

/// What the turns of a session start from, by its options.
///
/// # Errors
/// If they are not, or no more, what the configuration allows.
pub(super) fn given(options: &Map<String, Json>, config: &BusConfig) -> Result<Beginnings, Error> {
    let tools = options.get("tools").and_then(Json::as_str);
    let offers = tools.is_some_and(|tools| !tools.is_empty());
    // How tools are called is of no account as long as there are none.
    let told = options
        .iter()
        .filter(|(name, _)| offers || !OFFER.contains(&name.as_str()));
    let entries = told.map(|(name, value)| {
        let (value, kind) = match value {
            Json::Bool(truth) => (Value::Bool(*truth), "b"),
            Json::Number(number) => match number.as_u64() {
                Some(n) => (Value::Whole(n.into()), "t"),
                None => (Value::Number(number.as_f64().unwrap_or_default()), "d"),
            },
            Json::String(text) => (Value::Text(text.clone()), "s"),
            _ => (Value::Other, "v"),
        };
        Entry {
            name: name.clone(),
            value,
            kind: kind.to_owned(),
            messages: None,
        }
    });
    let mut defaults = Entries {
        kept: entries.collect(),
        more: false,
    };
    let read = read(&defaults, &unseeded(config), &[Of::Sessions])?;
    // They are long, and have been read.
    defaults.kept.retain(|entry| !OFFER.contains(&&*entry.name));
    Ok(Beginnings {
        defaults,
        tools: read.request.tools,
        priority: read.request.priority,
    })
}

/// What the turns of a session start from where they give nothing.
///
/// # Errors
/// If that is no more what the configuration allows.
pub(super) fn turns(given: &Beginnings, config: &BusConfig) -> Result<BusConfig, Error> {
    let Beginnings {
        defaults, tools, ..
    } = given;
    let Read {
        request, sampling, ..
    } = read(defaults, &unseeded(config), &[Of::Sessions])?;
    let seeded = defaults.kept.iter().any(|entry| entry.name == "seed");
    Ok(BusConfig {
        max_tokens: request.max_tokens,
        sampling,
        logprobs: request.sampling.logprobs,
        seed: if seeded {
            Some(request.sampling.seed)
        } else {
            config.seed
        },
        thinking: request.thinking,
        thinking_tokens: request.thinking_tokens,
        priority: request.priority,
        overflow: request.overflow,
        tools: tools.clone(),
        ..config.clone()
    })
}

/// It is for those who need no seed: one is not made in vain.
fn unseeded(config: &BusConfig) -> BusConfig {
    BusConfig {
        seed: Some(0),
        ..config.clone()
    }
}

struct Read {
    request: Options,
    /// The sampling that the request and the configuration set.
    sampling: Partial,
    stream: Stream,
    signals: bool,
    system: Option<String>,
    messages: Vec<Message>,
    name: Option<Name>,
    persistent: Option<bool>,
    take: Option<bool>,
}

fn read(given: &Entries, config: &BusConfig, of: &[Of]) -> Result<Read, Error> {
    let parameters = Parameters {
        logprobs: config.logprobs,
        ..Parameters::default()
    };
    let mut read = Read {
        request: Options {
            thinking: config.thinking,
            thinking_tokens: config.thinking_tokens,
            priority: config.priority,
            overflow: config.overflow,
            ..Options::new(config.max_tokens, parameters)
        },
        sampling: config.sampling,
        stream: Stream::Pipe,
        signals: false,
        system: None,
        messages: Vec::new(),
        name: None,
        persistent: None,
        take: None,
    };
    let mut chosen = config.seed;
    let mut grammars = Vec::new();
    let mut offer = Offer::default();
    let Partial {
        temperature,
        top_k,
        top_p,
        min_p,
        repetition_penalty,
    } = &mut read.sampling;
    for entry in &given.kept {
        let Some(key) = known(of).find(|key| key.name == entry.name) else {
            return Err(unknown(&entry.name, of));
        };
        let allowed = match key.allowed {
            Allowed::Tokens => whole(1, config.max_tokens_limit as u64),
            allowed => allowed,
        };
        let one = Given { entry, allowed };
        match key.name {
            "max_tokens" => read.request.max_tokens = one.whole()?,
            "temperature" => *temperature = Some(one.number()?),
            "top_k" => *top_k = Some(one.whole()?),
            "top_p" => *top_p = Some(one.number()?),
            "min_p" => *min_p = Some(one.number()?),
            "repetition_penalty" => *repetition_penalty = Some(one.number()?),
            "seed" => chosen = Some(one.whole()?),
            "stop" => read.request.stop = one.stops()?,
            "json_schema" => grammars.push(Grammar::JsonSchema(one.text()?)),
            "schema_lenient" => read.request.schema_lenient = one.truth()?,
            "json" => grammars.extend(one.truth()?.then_some(Grammar::Json)),
            "regex" => grammars.push(Grammar::Regex(one.text()?)),
            "grammar" => grammars.push(Grammar::Lark(one.text()?)),
            "choice" => grammars.push(Grammar::Choice(one.choices()?)),
            "tools" => offer.tools = Some(one.tools(config.tools_bytes)?),
            "tool_choice" => offer.choice = Some(one.text()?),
            "parallel_tool_calls" => offer.parallel = Some(one.truth()?),
            "max_calls" => offer.most = Some(one.whole()?),
            "thinking_tokens" => read.request.thinking_tokens = Some(one.whole()?),
            "thinking" => read.request.thinking = Some(one.truth()?),
            "priority" => read.request.priority = one.priority()?,
            "deadline_ms" => {
                read.request.deadline = Some(Duration::from_millis(one.whole()?));
            }
            "logprobs" => read.request.sampling.logprobs = Some(one.whole()?),
            "stream" => read.stream = one.stream()?,
            "signals" => read.signals = one.truth()?,
            "system" => read.system = Some(one.text()?),
            "name" => read.name = Some(one.name()?),
            "persistent" => read.persistent = Some(one.truth()?),
            "context_overflow" => read.request.overflow = one.overflow()?,
            "take" => read.take = Some(one.truth()?),
            "messages" => read.messages = one.messages()?,
            _ => return Err(unknown(&entry.name, of)),
        }
    }
    if given.more {
        return Err(Error::InvalidOption(format!(
            "there are more than {ENTRIES} options; known are {}",
            names(of)
        )));
    }
    // Of a session with a name the tools may be those that it had.
    if read.name.is_none() || offer.tools.is_some() {
        read.request.tools = offer.read(config.tools.as_ref())?;
    }
    let own = offer.tools.is_some() || offer.choice.is_some();
    make_way(&mut read.request, own, grammars.first())?;
    let grammar = only(grammars, &read.request.stop)?;
    read.request.grammar = grammar.map(|grammar| lenient(grammar, read.request.schema_lenient));
    read.request.sampling.seed = match chosen {
        Some(seed) => seed,
        None => fresh_seed()?,
    };
    read.request.sampling = read.sampling.over(&read.request.sampling);
    read.request.open = config.sampling_from_model.then_some(read.sampling);
    Ok(read)
}

/// A schema whose keywords may be left unchecked, if that is allowed.
fn lenient(grammar: Grammar, allowed: bool) -> Grammar {
    match grammar {
        Grammar::JsonSchema(text) if allowed => Grammar::LenientSchema(text),
        grammar => grammar,
    }
}

/// The options that say something of tools.
const OFFER: [&str; 4] = ["tools", "tool_choice", "parallel_tool_calls", "max_calls"];

/// What they say.
#[derive(Default)]
struct Offer {
    tools: Option<String>,
    choice: Option<String>,
    parallel: Option<bool>,
    most: Option<u32>,
}

impl Offer {
    /// The tools of a request; `before` are those that are offered without a word of them.
    fn read(&self, before: Option<&Arc<Tools>>) -> Result<Option<Arc<Tools>>, Error> {
        // An empty text says that there are none.
        let said = self.tools.as_deref();
        let before = before.filter(|_| said.is_none());
        let text = match (said.filter(|text| !text.is_empty()), before) {
            (Some(text), _) => text,
            (None, Some(before)) if self.says_nothing() => return Ok(Some(before.clone())),
            (None, Some(before)) => before.given(),
            (None, None) => {
                return match self.choice.as_deref() {
                    None | Some("auto" | "none") => Ok(None),
                    Some(choice) => Err(Error::InvalidOption(format!(
                        "option \"tool_choice\" is {:?}, and there are no tools: give the option \"tools\"",
                        shortened(choice)
                    ))),
                };
            }
        };
        let choice = self
            .choice
            .as_deref()
            .or(before.map(|tools| tools.choice()));
        let parallel = before.is_none_or(|tools| tools.parallel());
        let tools = Tools::read(text, choice, self.parallel.unwrap_or(parallel));
        let tools = tools.map_err(|error| Error::InvalidOption(carried(&error)))?;
        let most = self.most.or(before.and_then(|tools| tools.most()));
        Ok(Some(Arc::new(tools.at_most(most))))
    }

    /// Whether the tools, if there are any, are called as before.
    fn says_nothing(&self) -> bool {
        self.choice.is_none() && self.parallel.is_none() && self.most.is_none()
    }
}

/// A session's tools make way for what a turn must fit; a turn's `own` do not.
fn make_way(request: &mut Options, own: bool, grammar: Option<&Grammar>) -> Result<(), Error> {
    let stop = (!request.stop.is_empty()).then_some("stop");
    let other = grammar.map(Grammar::option).or(stop);
    let Some(other) = other.filter(|_| request.tools.is_some()) else {
        return Ok(());
    };
    if own {
        return Err(Error::InvalidOption(format!(
            "options {other:?} and \"tools\" cannot go together: leave one of them out"
        )));
    }
    if grammar.is_none() {
        // It may be meant to end an answer that calls as well.
        return Err(Error::InvalidOption(
            "option \"stop\" and the tools of this session cannot go together: leave it out, or open a session without tools"
                .to_owned(),
        ));
    }
    request.tools = None;
    Ok(())
}

/// What the answer must fit: one thing, which stop strings could cut.
fn only(mut grammars: Vec<Grammar>, stop: &[String]) -> Result<Option<Grammar>, Error> {
    let Some(grammar) = grammars.pop() else {
        return Ok(None);
    };
    let also = if stop.is_empty() {
        grammars.pop().map(|other| other.option())
    } else {
        Some("stop")
    };
    match also {
        None => Ok(Some(grammar)),
        Some(also) => Err(Error::InvalidOption(format!(
            "options {also:?} and {:?} cannot go together: leave one of them out",
            grammar.option()
        ))),
    }
}

/// A seed that nobody chose. JSON readers take numbers for doubles: of 53 bits they lose none.
fn fresh_seed() -> Result<u64, Error> {
    let random = getrandom::u64().map_err(|error| {
        Error::EngineFailed(format!(
            "the system has no random numbers ({error}); give a seed"
        ))
    })?;
    Ok(random >> 11)
}

/// An option as it was given, and what it may be.
struct Given<'a> {
    entry: &'a Entry,
    allowed: Allowed,
}

impl Given<'_> {
    fn whole<T: TryFrom<i128>>(&self) -> Result<T, Error> {
        match (&self.entry.value, self.allowed) {
            (Value::Whole(n), Allowed::Whole { least, most })
                if (i128::from(least)..=i128::from(most)).contains(n) =>
            {
                T::try_from(*n).map_err(|_| self.wrong())
            }
            _ => Err(self.wrong()),
        }
    }

    fn number(&self) -> Result<f32, Error> {
        let number = match self.entry.value {
            Value::Number(number) => Some(number),
            // In JSON and in many languages 1 is a number as 1.0 is.
            #[allow(clippy::cast_precision_loss)] // what loses any is far out of range
            Value::Whole(number) => Some(number as f64),
            _ => None,
        };
        // The sampler computes in f32, in which a bound such as 0.1 is as allowed as it looks.
        #[allow(clippy::cast_possible_truncation)]
        match (number.map(|number| number as f32), self.allowed) {
            (Some(n), Allowed::Number { least, most }) if (least..=most).contains(&n) => Ok(n),
            _ => Err(self.wrong()),
        }
    }

    fn messages(&self) -> Result<Vec<Message>, Error> {
        match &self.entry.messages {
            Some(messages) => messages.clone().read(),
            None => Err(self.wrong()),
        }
    }

    fn stops(&self) -> Result<Vec<String>, Error> {
        let stops = match &self.entry.value {
            Value::Text(text) => Some(vec![text.clone()]),
            Value::Texts(texts) => Some(texts.clone()),
            _ => None,
        };
        stops
            .filter(|stops| stops.len() <= STOPS)
            .filter(|stops| stops.iter().all(|s| (1..=STOP_BYTES).contains(&s.len())))
            .ok_or_else(|| self.wrong())
    }

    fn choices(&self) -> Result<Vec<String>, Error> {
        match &self.entry.value {
            Value::Texts(texts)
                if !texts.is_empty() && texts.iter().all(|text| !text.is_empty()) =>
            {
                Ok(texts.clone())
            }
            _ => Err(self.wrong()),
        }
    }

    fn truth(&self) -> Result<bool, Error> {
        match self.entry.value {
            Value::Bool(truth) => Ok(truth),
            _ => Err(self.wrong()),
        }
    }

    fn stream(&self) -> Result<Stream, Error> {
        match &self.entry.value {
            Value::Text(kind) if kind == "pipe" => Ok(Stream::Pipe),
            Value::Text(kind) if kind == "signals" => Ok(Stream::Signals),
            _ => Err(self.wrong()),
        }
    }

    fn priority(&self) -> Result<Priority, Error> {
        let Value::Text(name) = &self.entry.value else {
            return Err(self.wrong());
        };
        let named = Priority::ALL.into_iter().find(|one| one.name() == name);
        named.ok_or_else(|| self.wrong())
    }

    fn overflow(&self) -> Result<Overflow, Error> {
        let Value::Text(name) = &self.entry.value else {
            return Err(self.wrong());
        };
        let named = Overflow::ALL.into_iter().find(|one| one.name() == name);
        named.ok_or_else(|| self.wrong())
    }

    fn name(&self) -> Result<Name, Error> {
        Name::new(&self.text()?).map_err(|_| self.wrong())
    }

    fn text(&self) -> Result<String, Error> {
        match &self.entry.value {
            Value::Text(text) => Ok(text.clone()),
            Value::Long(bytes) => Err(messages::too_long(&self.entry.name, *bytes)),
            _ => Err(self.wrong()),
        }
    }

    /// It is not read yet: first it is known to be short.
    fn tools(&self, most: usize) -> Result<String, Error> {
        let bytes = match &self.entry.value {
            Value::Text(text) if text.len() <= most => return Ok(text.clone()),
            Value::Text(text) => text.len(),
            Value::Long(bytes) => *bytes,
            _ => return Err(self.wrong()),
        };
        Err(Error::InvalidOption(format!(
            "option \"tools\" has {bytes} bytes; {most} are allowed (limits.grammar_bytes)"
        )))
    }

    fn wrong(&self) -> Error {
        let Entry {
            name, value, kind, ..
        } = self.entry;
        let kind = shortened(kind);
        let given = match value {
            Value::Text(text) => format!("{:?} ({kind})", shortened(text)),
            Value::Long(bytes) => format!("a text of {bytes} bytes ({kind})"),
            Value::Bool(value) => format!("{value} ({kind})"),
            Value::Whole(value) => format!("{value} ({kind})"),
            Value::Number(value) => format!("{value} ({kind})"),
            Value::Many(texts) => format!("{texts} texts ({kind})"),
            Value::Texts(texts) if texts.len() > STOPS => {
                format!("{} texts ({kind})", texts.len())
            }
            Value::Texts(_) | Value::Other => format!("of type {kind}"),
        };
        let allowed = self.allowed;
        Error::InvalidOption(format!("option {name:?} is {given}; allowed is {allowed}"))
    }
}

/// The options of such calls.
fn known(of: &[Of]) -> impl Iterator<Item = &'static OptionKey> {
    OPTIONS.iter().filter(move |key| of.contains(&key.of))
}

fn names(of: &[Of]) -> String {
    let names: Vec<_> = known(of).map(|key| key.name).collect();
    names.join(", ")
}

fn unknown(name: &str, of: &[Of]) -> Error {
    let known = names(of);
    Error::InvalidOption(format!("unknown option {name:?}; known are {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, value: Value, kind: &str) -> Entries {
        Entries {
            kept: vec![Entry {
                name: name.to_owned(),
                value,
                messages: None,
                kind: kind.to_owned(),
            }],
            more: false,
        }
    }

    /// The table has no option that nobody reads.
    #[test]
    fn every_option_of_the_table_is_read() {
        for key in OPTIONS {
            let given = one(key.name, Value::Other, "o");
            let refused = read(&given, &BusConfig::default(), &[key.of]).map(drop);
            let Err(Error::InvalidOption(why)) = refused else {
                panic!("{}: {refused:?}", key.name);
            };
            let start = format!("option {:?} is of type o; allowed is ", key.name);
            assert!(why.starts_with(&start), "{why}");
        }
    }

    /// The bounds are those that the message names, and no value beyond them is taken.
    #[test]
    fn every_option_takes_its_bounds_as_they_are_written() {
        let takes = |key: &OptionKey, value: Value| {
            let given = one(key.name, value, "x");
            read(&given, &BusConfig::default(), &[key.of]).is_ok()
        };
        let mut bounds = 0;
        for key in OPTIONS {
            let shown = key.allowed.to_string();
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
    fn what_is_refused_is_never_quoted_at_length() {
        let long = "x".repeat(5000);
        for value in [Value::Text(long.clone()), Value::Texts(vec![long.clone()])] {
            let given = one("seed", value, &long);
            let refused = complete(&given, &BusConfig::default());
            let why = refused.expect_err("no number").to_string();
            assert!(why.len() < 500, "{why}");
        }
    }
}
