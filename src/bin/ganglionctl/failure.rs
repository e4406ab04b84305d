//! Exit codes, and what is printed with them.

use std::fmt::Display;

use clap::ValueEnum;

/// The exit codes of sysexits.h where one fits, so that scripts can tell what to do next. What is written above each is what
/// `--help` and the manual tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Exit {
    /// ok
    Ok = 0,
    /// an answer failed or is incomplete, or through a pipe anything in chat failed; the comparison or a step of setup, use or
    /// models failed, or a disk; doctor found what must be mended
    Failed = 1,
    /// the command line is wrong
    Usage = 2,
    /// a file or a text is wrong
    Data = 65,
    /// no bus, no daemon, or one that cannot do this; no server, or not the file; too little memory
    Unavailable = 69,
    /// busy, or still loading: try again
    Busy = 75,
    /// not permitted, or not the owner
    Forbidden = 77,
    /// the daemon's configuration or model is wrong
    Config = 78,
    /// interrupted
    Interrupted = 130,
}

/// The table that `--help` and the manual show.
pub(crate) fn exit_codes() -> String {
    let lines = Exit::value_variants().iter().filter_map(|exit| {
        let value = exit.to_possible_value()?;
        Some(format!("\n  {:3}  {}", *exit as u8, value.get_help()?))
    });
    format!("Exit codes:{}", lines.collect::<String>())
}

/// What a verb, or a part of one, leads to.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Why a verb could not do its work, or ends with another code than 0.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Empty where nobody needs to be told.
    pub(crate) message: String,
}

/// A failure with that exit code, and a message as `format!` takes it.
macro_rules! failure {
    ($exit:ident: $($message:tt)+) => {
        $crate::failure::Failure::new($crate::failure::Exit::$exit, format_args!($($message)+))
    };
}

/// Returns such a failure.
macro_rules! bail {
    ($($failure:tt)+) => {
        return Err($crate::failure::failure!($($failure)+))
    };
}

/// Returns such a failure where what comes first does not hold.
macro_rules! ensure {
    ($holds:expr, $($failure:tt)+) => {
        if !$holds {
            $crate::failure::bail!($($failure)+);
        }
    };
}

pub(crate) use {bail, ensure, failure};

/// Says of an error what it was about.
pub(crate) trait OrFail<T> {
    /// # Errors
    /// `exit`, with "what: error".
    fn or_fail(self, exit: Exit, what: impl Display) -> Outcome<T>;

    /// # Errors
    /// `exit`, with the error alone, which says what it was about.
    fn or_exit(self, exit: Exit) -> Outcome<T>;
}

impl<T, E: Display> OrFail<T> for Result<T, E> {
    fn or_fail(self, exit: Exit, what: impl Display) -> Outcome<T> {
        self.map_err(|error| Failure::new(exit, format_args!("{what}: {error}")))
    }

    fn or_exit(self, exit: Exit) -> Outcome<T> {
        self.map_err(|error| Failure::new(exit, error))
    }
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Display) -> Self {
        let message = message.to_string();
        Self { exit, message }
    }

    /// The same, with more to say of it.
    pub(crate) fn and(self, more: impl Display) -> Self {
        Self::new(self.exit, format_args!("{}; {more}", self.message))
    }

    /// Nobody needs to be told: the reader left, the user pressed Ctrl-C, or what was printed says it.
    pub(crate) fn quiet(exit: Exit) -> Self {
        Self::new(exit, "")
    }
}
