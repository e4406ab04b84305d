//! Shows on standard error what the program waits for.
//!
//! In a terminal it is a line with a spinner that disappears. Elsewhere it is an ordinary line after a delay, and
//! another line when the reason changes. It never delays the program, and queries the daemon at most twice a second.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use ganglion::bus::proxy::RequestProxy;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use tokio::time::sleep;
use zbus::Connection;

use super::info::text;
use super::options::Options;
use super::{MANAGER, is_there, membership, properties};
use crate::output;

/// Shorter waits show nothing, because a line would only flicker.
const PATIENCE: Duration = Duration::from_millis(300);
/// The delay before a line outside of a terminal.
const PATIENCE_OF_LOGS: Duration = Duration::from_millis(500);
const TURN: Duration = Duration::from_millis(100);
/// The interval of queries to the daemon.
const LOOK: Duration = Duration::from_millis(500);

/// The source of the reason for waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    /// The request is not accepted yet.
    Unaccepted,
    Daemon(&'a Connection),
    /// A request, whose progress of prefill is shown as well.
    Request(&'a RequestProxy<'static>),
}

impl Ask<'_> {
    /// Returns the request's place in the queue; `None` if it is active or next.
    async fn behind(self) -> Option<String> {
        let Self::Request(request) = self else {
            return None;
        };
        let before = match request.queue_position().await.ok()? {
            0 => "the next to be answered".to_owned(),
            1 => "one request is ahead".to_owned(),
            many => format!("{many} requests are ahead"),
        };
        let seconds = request.estimated_wait().await.ok()?.ceil();
        (seconds > 0.0).then(|| format!("{before}, about {seconds} s"))
    }

    /// Returns the kind of reason, and its description. A hold of `background` requests matters only to those.
    async fn situation(self, is_background: bool) -> Option<(&'static str, String)> {
        let reason = |kind, what: &str| Some((kind, what.to_owned()));
        let connection = match self {
            Self::Unaccepted => {
                return reason("acceptance", "waiting for gangliond to accept the request");
            }
            Self::Daemon(connection) => connection,
            Self::Request(request) => request.inner().connection(),
        };
        // A query must not start the daemon.
        if !is_there(connection).await.ok()? {
            return reason("no daemon", "waiting for gangliond, which is not running");
        }
        let manager = properties(connection, MANAGER).await.ok()?;
        if let Self::Request(_) = self
            && let Some(hold) = held(&manager, is_background)
        {
            return Some(("held", hold));
        }
        if let Self::Request(request) = self
            && let Ok((read, of)) = request.reading().await
            && read < of
        {
            return reason("reading", &format!("reading: {read} of {of} tokens"));
        }
        let waiting = manager["QueueLength"].as_u64();
        let detail = text(&manager["StateDetail"]);
        if waiting > Some(1)
            && detail.is_empty()
            && let Some(behind) = self.behind().await
        {
            return reason("behind", &behind);
        }
        match (text(&manager["State"]), detail) {
            ("loading", "") => reason("loading", "the model is being loaded"),
            ("loading", detail) => {
                reason("loading", &format!("the model is being loaded: {detail}"))
            }
            ("idle", _) => reason(
                "loading",
                "the model is unloaded, and loaded for this request",
            ),
            ("ready", "") => match waiting.unwrap_or_default() {
                0 | 1 => reason("reading", "the prompt is being read"),
                2 => reason("others", "another request is active"),
                more => {
                    let what = format!("{} other requests are queued or active", more - 1);
                    reason("others", &what)
                }
            },
            // A daemon that is ready and reports a detail is reloading.
            ("ready", detail) => reason("state", &format!("gangliond: {detail}")),
            (state, _) => reason("state", &format!("gangliond: {state}")),
        }
    }
}

/// Describes the longest hold that blocks a request, if there is one.
fn held(manager: &Value, is_background: bool) -> Option<String> {
    let holds = manager["Holds"].as_array().into_iter().flatten();
    let holds = holds.filter(|hold| is_background || text(&hold["held"]) == "all");
    let left = |hold: &Value| hold["seconds_left"].as_f64().unwrap_or_default();
    let hold = holds.max_by(|one, other| left(one).total_cmp(&left(other)))?;
    let user = hold["user"].as_u64().and_then(|id| u32::try_from(id).ok());
    let user = user.map_or_else(|| "another user".to_owned(), membership::account);
    let (what, reason) = match text(&hold["held"]) {
        "all" => ("all requests", text(&hold["reason"])),
        _ => ("background requests", text(&hold["reason"])),
    };
    let most = left(hold).ceil();
    Some(format!(
        "{user} holds {what}, for at most {most} s more: {reason}"
    ))
}

/// The line, which disappears when this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    quiet: bool,
    is_background: bool,
    spinner: Option<ProgressBar>,
    /// The kind of reason that was shown last.
    shown: &'static str,
}

impl Waiting {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            is_background: false,
            spinner: None,
            shown: "",
        }
    }

    /// Describes the wait of a request with these options.
    pub(crate) fn with(self, options: &Options) -> Self {
        let is_background = options.is_background();
        Self {
            is_background,
            ..self
        }
    }

    /// Awaits `future`, and shows the reason meanwhile.
    pub(crate) async fn during<T>(&mut self, ask: Ask<'_>, future: impl Future<Output = T>) -> T {
        let result = tokio::select! {
            biased;
            result = future => result,
            never = self.say(ask) => match never {},
        };
        // Dropping it removes the line.
        self.spinner = None;
        result
    }

    async fn say(&mut self, ask: Ask<'_>) -> Infallible {
        if self.quiet {
            return pending().await;
        }
        let turns = io::stderr().is_terminal();
        sleep(if turns { PATIENCE } else { PATIENCE_OF_LOGS }).await;
        loop {
            match ask.situation(self.is_background).await {
                Some((_, what)) if turns => {
                    let spinner = self.spinner.get_or_insert_with(spinner);
                    spinner.set_message(output::harmless(&what));
                }
                Some((kind, what)) if kind != self.shown => {
                    output::note(&format!("ganglionctl: {what}"));
                    self.shown = kind;
                }
                _ => {}
            }
            sleep(LOOK).await;
        }
    }
}

fn spinner() -> ProgressBar {
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
        spinner.set_style(style);
    }
    spinner.enable_steady_tick(TURN);
    spinner
}
