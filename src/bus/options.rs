//! Options of calls: the options of all front ends, and two of D-Bus alone, which say how text reaches the caller.

use super::error::{Error, option_error};
use super::options_argument::OptionsArgument;
use super::options_table::Allowed;
use crate::engine::Options;
use crate::front::{self, Config, GivenOption, OptionError, Value};

/// How text reaches the caller of a method that returns a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Pipe,
    Signals,
}

/// Reads the options of a method that returns a pipe.
pub(super) fn streamed(
    OptionsArgument(mut given): OptionsArgument,
    config: &Config,
) -> Result<(Options, Stream), Error> {
    let own = given.take("stream");
    let options = front::request(&given, config).map_err(|error| with_own(error, "stream"))?;
    let stream = match own.as_ref().map(|option| &option.value) {
        None => Stream::Pipe,
        Some(Value::Text(kind)) if kind == "pipe" => Stream::Pipe,
        Some(Value::Text(kind)) if kind == "signals" => Stream::Signals,
        Some(_) => return Err(wrong(own.as_ref(), Allowed::Stream)),
    };
    Ok((options, stream))
}

/// Reads the options of a request whose text is read by calls; also returns whether signals send it, too.
pub(super) fn submitted(
    OptionsArgument(mut given): OptionsArgument,
    config: &Config,
) -> Result<(Options, bool), Error> {
    let own = given.take("signals");
    let options = front::request(&given, config).map_err(|error| with_own(error, "signals"))?;
    let signals = match own.as_ref().map(|option| &option.value) {
        None => false,
        Some(Value::Bool(signals)) => *signals,
        Some(_) => return Err(wrong(own.as_ref(), Allowed::Signals)),
    };
    Ok((options, signals))
}

/// Adds an option of D-Bus alone to the known options that an error lists.
fn with_own(mut error: front::Error, own: &'static str) -> Error {
    if let front::Error::Option(
        OptionError::Unknown { known, .. } | OptionError::TooMany { known },
    ) = &mut error
    {
        known.push(own);
    }
    error.into()
}

fn wrong(option: Option<&GivenOption>, allowed: Allowed) -> Error {
    let (name, given) = option.map_or_else(Default::default, |option| {
        (option.name.as_str(), option.describe())
    });
    Error::InvalidOption(option_error(name, &given, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::GivenOptions;

    fn one(name: &str, value: Value) -> OptionsArgument {
        OptionsArgument(GivenOptions {
            kept: vec![GivenOption {
                name: name.to_owned(),
                value,
                type_name: "o".to_owned(),
            }],
            more: false,
        })
    }

    #[test]
    fn options_of_the_bus_alone_are_checked_and_listed() {
        let config = Config::default();
        let stream = streamed(one("stream", Value::Text("signals".into())), &config);
        assert_eq!(stream.expect("it is known").1, Stream::Signals);
        let signals = submitted(one("signals", Value::Bool(true)), &config);
        assert!(signals.expect("it is known").1);
        let wrong = [
            streamed(one("stream", Value::Other), &config).map(drop),
            submitted(one("signals", Value::Other), &config).map(drop),
        ];
        let allowed = ["\"pipe\" or \"signals\" (s)", "true or false (b)"];
        for (refused, allowed) in wrong.into_iter().zip(allowed) {
            let Err(Error::InvalidOption(why)) = refused else {
                panic!("{refused:?}");
            };
            assert!(
                why.ends_with(&format!("of type o; allowed is {allowed}")),
                "{why}"
            );
        }
        let unknown = submitted(one("stream", Value::Other), &config).map(drop);
        let Err(Error::InvalidOption(why)) = unknown else {
            panic!("{unknown:?}");
        };
        assert!(why.ends_with("logprobs, guess, signals"), "{why}");
    }
}
