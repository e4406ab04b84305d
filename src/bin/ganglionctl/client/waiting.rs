//! What a person sees while nothing comes: what is waited for, on standard error.
//!
//! In a terminal it is one line that turns and vanishes, elsewhere a line of its own once a second has passed, and again
//! only for something else. It never delays what is waited for, and asks the daemon no more than twice a second.

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
use super::{MANAGER, Options, is_there, membership, properties};
use crate::output;

/// What comes sooner needs no word; a line that flashed by would only disturb.
const PATIENCE: Duration = Duration::from_millis(300);
/// The patience of whoever reads a log is longer.
const PATIENCE_OF_LOGS: Duration = Duration::from_millis(500);
const TURN: Duration = Duration::from_millis(100);
/// So long passes between two questions to the daemon.
const LOOK: Duration = Duration::from_millis(500);

/// Whom to ask what takes the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    /// Nobody yet: nothing was accepted.
    Nobody,
    Daemon(&'a Connection),
    /// It is asked also how far its prompt is read: a long one takes a CPU minutes.
    Request(&'a RequestProxy<'static>),
}

impl Ask<'_> {
    /// Where a request stands in the queue; nothing if it is being answered, or may be the next.
    async fn behind(self) -> Option<String> {
        let Self::Request(request) = self else {
            return None;
        };
        let before = match request.queue_position().await.ok()? {
            0 => "the next to be answered".to_owned(),
            1 => "one request comes before".to_owned(),
            many => format!("{many} requests come before"),
        };
        let seconds = request.estimated_wait().await.ok()?.ceil();
        (seconds > 0.0).then(|| format!("{before}, about {seconds} s"))
    }

    /// Returns the kind of thing that is waited for, and what is said of it. A hold of `background` requests matters only to
    /// those.
    async fn situation(self, is_background: bool) -> Option<(&'static str, String)> {
        let told = |kind, what: &str| Some((kind, what.to_owned()));
        let connection = match self {
            Self::Nobody => return told("acceptance", "waiting for gangliond to take the request"),
            Self::Daemon(connection) => connection,
            Self::Request(request) => request.inner().connection(),
        };
        // A look must not start it.
        if !is_there(connection).await.ok()? {
            return told("no daemon", "waiting for gangliond, which does not run");
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
            return told("reading", &format!("reading: {read} of {of} tokens"));
        }
        let waiting = manager["QueueLength"].as_u64();
        let detail = text(&manager["StateDetail"]);
        if waiting > Some(1)
            && detail.is_empty()
            && let Some(behind) = self.behind().await
        {
            return told("behind", &behind);
        }
        match (text(&manager["State"]), detail) {
            ("loading", "") => told("loading", "the model is being loaded"),
            ("loading", detail) => told("loading", &format!("the model is being loaded: {detail}")),
            ("ready", "") => match waiting.unwrap_or_default() {
                0 | 1 => told("reading", "the prompt is being read"),
                2 => told("others", "another request is under way"),
                more => {
                    let what = format!("{} other requests wait or are under way", more - 1);
                    told("others", &what)
                }
            },
            // A daemon that is ready and has something to tell is reloading.
            ("ready", detail) => told("state", &format!("gangliond: {detail}")),
            (state, _) => told("state", &format!("gangliond: {state}")),
        }
    }
}

/// Describes the hold that keeps a request off the device for the longest time, if there is one.
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

/// The line, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    quiet: bool,
    is_background: bool,
    spinner: Option<ProgressBar>,
    /// The kind of thing that was told last.
    told: &'static str,
}

impl Waiting {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            is_background: false,
            spinner: None,
            told: "",
        }
    }

    /// Describes the waiting of a request with these options.
    pub(crate) fn with(self, options: &Options) -> Self {
        let is_background = options.is_background();
        Self {
            is_background,
            ..self
        }
    }

    /// Awaits `future`, and says meanwhile what takes its time.
    pub(crate) async fn during<T>(&mut self, ask: Ask<'_>, future: impl Future<Output = T>) -> T {
        let result = tokio::select! {
            biased;
            result = future => result,
            never = self.say(ask) => match never {},
        };
        // Dropped, it vanishes.
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
                Some((kind, what)) if kind != self.told => {
                    output::tell(&format!("ganglionctl: {what}"));
                    self.told = kind;
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
