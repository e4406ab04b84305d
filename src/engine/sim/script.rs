//! The script of the scripted engine, in the format of `--sim`: `key=value`, separated by commas.

use std::str::FromStr;
use std::time::Duration;

/// What the scripted engine does. `Script::default()` has no delays and no faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// `load`: how long the model takes to load.
    pub load: Duration,
    /// `load_error`: loading ends with this message.
    pub load_error: Option<String>,
    /// `first`: time to the first token.
    pub first_token: Duration,
    /// `delay`: time to each later token.
    pub per_token: Duration,
    /// `tokens`: length of each answer; 0 is the length of the question.
    pub tokens: usize,
    /// `fail_after`: each answer fails after this many tokens.
    pub fail_after: Option<u32>,
    /// `lost_after`: the device and the engine are lost after this many tokens of an answer.
    pub lost_after: Option<u32>,
    /// `freeze_load`: the load stops for ever after this time.
    pub freeze_load: Option<Duration>,
    /// `freeze_after`: the engine thread stops for ever after this many tokens of an answer, and ignores cancelling.
    pub freeze_after: Option<u32>,
    /// `freeze_reactor_after`: every worker of the tokio runtime that the thread has entered stops for ever.
    pub freeze_reactor_after: Option<u32>,
    /// `panic_after`: the engine thread panics after this many tokens of an answer.
    pub panic_after: Option<u32>,
    /// `library`: while it loads, a library reports a warning and an error with this text.
    pub library: Option<String>,
    /// `rows`: requests that are answered at once.
    pub rows: usize,
    /// `context`: the most tokens of prompt and answer together.
    pub context: usize,
    /// `images`: whether it takes images, of which it sees nothing.
    pub images: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            load: Duration::ZERO,
            load_error: None,
            first_token: Duration::ZERO,
            per_token: Duration::ZERO,
            tokens: 0,
            fail_after: None,
            lost_after: None,
            freeze_load: None,
            freeze_after: None,
            freeze_reactor_after: None,
            panic_after: None,
            library: None,
            rows: 1,
            context: 4096,
            images: false,
        }
    }
}

/// Why a script could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("{0:?} is not of the form key=value")]
    NoValue(String),
    #[error(
        "unknown key {0:?}; known are load, load_error, first, delay, tokens, fail_after, lost_after, freeze_load, \
         freeze_after, freeze_reactor_after, panic_after, library, rows, context and images"
    )]
    UnknownKey(String),
    #[error("{key}={value}: expected a whole number")]
    Number { key: String, value: String },
    #[error("{key}={value}: expected a time such as 5ms or 2s")]
    Time { key: String, value: String },
}

impl FromStr for Script {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::default();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (key, value) = item
                .split_once('=')
                .ok_or_else(|| ScriptError::NoValue(item.to_owned()))?;
            match key {
                "load" => script.load = time(key, value)?,
                "load_error" => script.load_error = Some(value.to_owned()),
                "first" => script.first_token = time(key, value)?,
                "delay" => script.per_token = time(key, value)?,
                "tokens" => script.tokens = number(key, value)?,
                "fail_after" => script.fail_after = Some(number(key, value)?),
                "lost_after" => script.lost_after = Some(number(key, value)?),
                "freeze_load" => script.freeze_load = Some(time(key, value)?),
                "freeze_after" => script.freeze_after = Some(number(key, value)?),
                "freeze_reactor_after" => {
                    script.freeze_reactor_after = Some(number(key, value)?);
                }
                "panic_after" => script.panic_after = Some(number(key, value)?),
                "library" => script.library = Some(value.to_owned()),
                "rows" => script.rows = number(key, value)?,
                "context" => script.context = number(key, value)?,
                "images" => script.images = number::<u8>(key, value)? > 0,
                _ => return Err(ScriptError::UnknownKey(key.to_owned())),
            }
        }
        Ok(script)
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, ScriptError> {
    value.parse().map_err(|_| ScriptError::Number {
        key: key.to_owned(),
        value: value.to_owned(),
    })
}

fn time(key: &str, value: &str) -> Result<Duration, ScriptError> {
    let parsed = match value.strip_suffix("ms") {
        Some(digits) => digits.parse().ok().map(Duration::from_millis),
        None => value
            .strip_suffix('s')
            .and_then(|digits| digits.parse().ok())
            .map(Duration::from_secs),
    };
    parsed.ok_or_else(|| ScriptError::Time {
        key: key.to_owned(),
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read_and_mistakes_are_named() {
        let script = "load=2s, first=7ms,tokens=64,fail_after=10".parse::<Script>();
        assert_eq!(
            script,
            Ok(Script {
                load: Duration::from_secs(2),
                first_token: Duration::from_millis(7),
                tokens: 64,
                fail_after: Some(10),
                ..Script::default()
            })
        );
        assert_eq!("".parse(), Ok(Script::default()));
        for (text, mistake) in [
            ("tokens", "form key=value"),
            ("speed=9", "unknown key \"speed\""),
            ("delay=5", "delay=5: expected a time"),
            ("tokens=-1", "tokens=-1: expected a whole number"),
        ] {
            let error = text.parse::<Script>().map_err(|error| error.to_string());
            assert!(error.is_err_and(|error| error.contains(mistake)), "{text}");
        }
    }
}
