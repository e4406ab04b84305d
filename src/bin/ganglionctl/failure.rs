//! Exit codes, and what is printed with them.

use std::process::ExitCode;

use crate::output;

/// The exit codes of sysexits.h where one fits, so that scripts can tell what to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Ok = 0,
    /// What was asked for did not come off.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// A file or a text is wrong.
    Data = 65,
    /// No bus, no daemon, or one that cannot do this.
    Unavailable = 69,
    /// Too much at once; try again.
    Busy = 75,
    /// The bus's policy or the object's owner forbids it.
    Forbidden = 77,
    /// The daemon's configuration or model is wrong.
    Config = 78,
    Interrupted = 130,
}

/// For `--help`; the same table as `Exit`.
pub(crate) const EXIT_CODES: &str = "Exit codes:
    0  ok
    1  the answer, the comparison, the download or a step of setup, use or models failed; doctor found what must be mended
    2  the command line is wrong
   65  a file or a text is wrong
   69  no bus, no daemon, or one that cannot do this
   75  busy, or still loading: try again
   77  not permitted, or not the owner
   78  the daemon's configuration or model is wrong
  130  interrupted";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a verb could not do its work.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: Some(message.into()),
        }
    }

    /// Nobody needs to be told: the reader left, or the user pressed Ctrl-C.
    pub(crate) const fn quiet(exit: Exit) -> Self {
        Self {
            exit,
            message: None,
        }
    }

    /// Says it on standard error.
    pub(crate) fn tell(&self) {
        if let Some(message) = &self.message {
            output::tell(&format!("ganglionctl: {message}"));
        }
    }
}
