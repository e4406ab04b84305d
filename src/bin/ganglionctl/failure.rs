//! Exit codes, and failures with their messages.

use std::fmt::Display;

use clap::ValueEnum;

/// The exit codes of sysexits.h where one fits, so that scripts can react. `--help` and the manual show the comment of
/// each code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Exit {
    /// ok
    Ok = 0,
    /// an answer failed or is incomplete, or in chat through a pipe anything failed; the comparison, a step of setup,
    /// use or models, or a disk failed; doctor found a problem
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

/// Returns the table of exit codes for `--help` and the manual.
pub(crate) fn exit_codes() -> String {
    let lines = Exit::value_variants().iter().filter_map(|exit| {
        let value = exit.to_possible_value()?;
        Some(format!("\n  {:3}  {}", *exit as u8, value.get_help()?))
    });
    format!("Exit codes:{}", lines.collect::<String>())
}

/// The result of a verb, or of a part of one.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// The reason why a verb failed, or ends with another code than 0.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Empty if there is nothing to print.
    pub(crate) message: String,
}

/// Builds a failure with an exit code, and a message as `format!` takes it.
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

/// Returns such a failure if the condition is false.
macro_rules! ensure {
    ($holds:expr, $($failure:tt)+) => {
        if !$holds {
            $crate::failure::bail!($($failure)+);
        }
    };
}

pub(crate) use {bail, ensure, failure};

/// Adds its subject to an error.
pub(crate) trait OrFail<T> {
    /// # Errors
    /// `exit`, with "what: error".
    fn or_fail(self, exit: Exit, what: impl Display) -> Outcome<T>;

    /// # Errors
    /// `exit`, with the text of the error, which names its subject.
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

    /// Appends to the message.
    pub(crate) fn and(self, more: impl Display) -> Self {
        Self::new(self.exit, format_args!("{}; {more}", self.message))
    }

    /// Builds a failure without a message: the reader left, the user pressed Ctrl-C, or the output already shows the
    /// reason.
    pub(crate) fn quiet(exit: Exit) -> Self {
        Self::new(exit, "")
    }
}
