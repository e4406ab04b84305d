//! Exit codes, and what is printed with them.

use std::fmt::Display;

/// The exit codes of sysexits.h where one fits, so that scripts can tell what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    Failed = 1,
    Usage = 2,
    Data = 65,
    Unavailable = 69,
    Busy = 75,
    Forbidden = 77,
    Config = 78,
    Interrupted = 130,
}

impl Exit {
    /// All of them, and what they tell.
    const MEANINGS: [(Self, &str); 9] = [
        (Self::Ok, "ok"),
        (
            Self::Failed,
            "the answer, the comparison, the download or a step of setup, use or models failed; doctor found what must be mended",
        ),
        (Self::Usage, "the command line is wrong"),
        (Self::Data, "a file or a text is wrong"),
        (
            Self::Unavailable,
            "no bus, no daemon, or one that cannot do this",
        ),
        (Self::Busy, "busy, or still loading: try again"),
        (Self::Forbidden, "not permitted, or not the owner"),
        (Self::Config, "the daemon's configuration or model is wrong"),
        (Self::Interrupted, "interrupted"),
    ];
}

/// The table that `--help` and the manual show.
pub(crate) fn exit_codes() -> String {
    let lines = Exit::MEANINGS.map(|(exit, what)| format!("\n  {:3}  {what}", exit as u8));
    format!("Exit codes:{}", lines.concat())
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
    ($exit:ident, $($message:tt)+) => {
        $crate::failure::Failure {
            exit: $crate::failure::Exit::$exit,
            message: format!($($message)+),
        }
    };
}

/// Returns such a failure.
macro_rules! bail {
    ($($failure:tt)+) => {
        return Err($crate::failure::failure!($($failure)+))
    };
}

pub(crate) use {bail, failure};

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
        self.map_err(|error| Failure {
            exit,
            message: format!("{what}: {error}"),
        })
    }

    fn or_exit(self, exit: Exit) -> Outcome<T> {
        self.map_err(|error| Failure {
            exit,
            message: error.to_string(),
        })
    }
}

impl Failure {
    /// Nobody needs to be told: the reader left, the user pressed Ctrl-C, or what was printed says it.
    pub(crate) const fn quiet(exit: Exit) -> Self {
        Self {
            exit,
            message: String::new(),
        }
    }
}
