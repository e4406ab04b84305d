//! Options of sessions: the session itself, and the defaults of its turns.

use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::given::{GivenOption, GivenOptions, Value};
use super::read::{Read, read};
use super::table::Scope;
use super::tools;
use crate::engine::{Name, Priority};
use crate::front::config::Config;
use crate::front::error::{Error, OptionError};
use crate::front::messages::GivenMessages;
use crate::tools::Tools;

/// The options that are about the session itself. All others are defaults of its turns.
const OF_SESSION: [&str; 5] = ["name", "persistent", "take", "system", "messages"];

/// A session to open.
#[derive(Debug)]
pub struct NewSession {
    pub name: Option<Name>,
    pub persistent: Option<bool>,
    pub take: bool,
    /// The messages before the first turn.
    pub messages: GivenMessages,
    /// The defaults of its turns, as JSON: a persistent session stores them.
    pub options: Map<String, Json>,
}

/// The defaults of a session's turns.
#[derive(Clone, Debug)]
pub struct SessionDefaults {
    options: GivenOptions,
    pub tools: Option<Arc<Tools>>,
    pub priority: Priority,
}

/// Reads the options of a new session.
pub fn new_session(given: &GivenOptions, config: &Config) -> Result<NewSession, Error> {
    let scopes = [Scope::Conversation, Scope::Session];
    let Read {
        system,
        mut messages,
        name,
        persistent,
        take,
        keep_pictures,
        ..
    } = read(given, &with_seed(config), &scopes)?;
    let of_name = [
        ("persistent", persistent.is_some()),
        ("take", take.is_some()),
        ("keep_pictures", keep_pictures.is_some()),
    ];
    if name.is_none()
        && let Some((option, _)) = of_name.into_iter().find(|(_, given)| *given)
    {
        let why = format!(
            "option {option:?} is for a session with a name: give the option \"name\", or leave it out"
        );
        return Err(OptionError::Unusable { option, why }.into());
    }
    if let Some(content) = system {
        messages.insert_system(content);
    }
    let kept = given.kept.iter();
    let defaults = kept.filter(|option| !OF_SESSION.contains(&option.name.as_str()));
    let options = defaults.filter_map(|option| Some((option.name.clone(), json(&option.value)?)));
    Ok(NewSession {
        name,
        persistent,
        take: take.unwrap_or(false),
        messages,
        options: options.collect(),
    })
}

impl SessionDefaults {
    /// Reads the stored options of a session.
    ///
    /// # Errors
    /// If the configuration does not allow one of them.
    pub fn read(stored: &Map<String, Json>, config: &Config) -> Result<Self, Error> {
        let text = stored.get("tools").and_then(Json::as_str);
        let has_tools = text.is_some_and(|text| !text.is_empty());
        // Without tools, the options about their calls mean nothing.
        let applied = stored
            .iter()
            .filter(|(name, _)| has_tools || !tools::NAMES.contains(&name.as_str()));
        let mut options = GivenOptions {
            kept: applied.map(|(name, value)| option(name, value)).collect(),
            more: false,
        };
        let read = read(&options, &with_seed(config), &[Scope::Session])?;
        // `tools` holds the parsed form; their text is long.
        options
            .kept
            .retain(|option| !tools::NAMES.contains(&&*option.name));
        Ok(Self {
            options,
            tools: read.request.tools,
            priority: read.request.priority,
        })
    }

    /// Returns the configuration with these defaults, for a turn.
    ///
    /// # Errors
    /// If the configuration does not allow one of them any more.
    pub fn over(&self, config: &Config) -> Result<Config, Error> {
        let Read {
            request,
            sampling,
            guess,
            ..
        } = read(&self.options, &with_seed(config), &[Scope::Session])?;
        let has_seed = self.options.kept.iter().any(|option| option.name == "seed");
        Ok(Config {
            max_tokens: request.max_tokens,
            sampling,
            logprobs: request.sampling.logprobs,
            seed: if has_seed {
                Some(request.sampling.seed)
            } else {
                config.seed
            },
            thinking: request.thinking,
            thinking_tokens: request.thinking_tokens,
            priority: request.priority,
            overflow: request.overflow,
            guess_asked: guess,
            tools: self.tools.clone(),
            ..config.clone()
        })
    }
}

/// Returns a configuration with a seed, so that reading options does not make one.
fn with_seed(config: &Config) -> Config {
    Config {
        seed: Some(0),
        ..config.clone()
    }
}

fn json(value: &Value) -> Option<Json> {
    Some(match value {
        Value::Bool(truth) => Json::from(*truth),
        Value::Whole(n) => u64::try_from(*n).ok()?.into(),
        Value::Number(number) => Json::from(*number),
        Value::Text(text) => Json::from(text.as_str()),
        _ => return None,
    })
}

fn option(name: &str, value: &Json) -> GivenOption {
    let value = match value {
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_u64() {
            Some(n) => Value::Whole(n.into()),
            None => Value::Number(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::Text(text.clone()),
        _ => Value::Other,
    };
    GivenOption {
        name: name.to_owned(),
        value,
        type_name: String::new(),
    }
}
