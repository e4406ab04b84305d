//! What a person sees while nothing comes: what is waited for, on standard error.
//!
//! In a terminal it is one line that turns and vanishes, elsewhere a line of its own once a second has passed, and again
//! only for something else. It never delays what is waited for, and asks the daemon no more than twice a second.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::io::{self, IsTerminal as _};
use std::mem::discriminant;
use std::time::Duration;

use ganglion::bus;
use ganglion::bus::proxy::RequestProxy;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::sleep;
use zbus::Connection;
use zbus::fdo::PropertiesProxy;
use zbus::names::InterfaceName;

use super::info::{Object, object, plain};
use super::{is_there, reading};
use crate::output;

/// What comes sooner needs no word; a line that flashed by would only disturb.
const PATIENCE: Duration = Duration::from_millis(300);
/// Of whoever reads a log.
const PATIENCE_OF_LOGS: Duration = Duration::from_secs(1);
const TURN: Duration = Duration::from_millis(100);
/// Between two questions to the daemon.
const TURNS: usize = 5;

/// Whom to ask what takes the time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ask<'a> {
    /// Nobody yet: nothing was accepted.
    Nobody,
    Daemon(&'a Connection),
    /// Also how far its prompt is read.
    Request(&'a RequestProxy<'static>),
}

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Situation {
    Acceptance,
    NoDaemon,
    Loading(String),
    Others(u64),
    /// The prompt is being read; how far, where that is known.
    Reading(Option<String>),
    State(String),
}

impl Situation {
    async fn now(ask: Ask<'_>) -> Option<Self> {
        let connection = match ask {
            Ask::Nobody => return Some(Self::Acceptance),
            Ask::Daemon(connection) => connection,
            Ask::Request(request) => request.inner().connection(),
        };
        // A look must not start it.
        if !is_there(connection).await.ok()? {
            return Some(Self::NoDaemon);
        }
        if let Ask::Request(request) = ask
            && let Some(line) = reading::line(request).await
        {
            return Some(Self::Reading(Some(line)));
        }
        let properties = PropertiesProxy::new(connection, bus::NAME, bus::PATH).await;
        let interface = InterfaceName::from_static_str_unchecked("org.ganglion.Llm1.Manager");
        let manager = properties.ok()?.get_all(interface).await.ok()?;
        Some(Self::of(&object(&manager)))
    }

    fn of(manager: &Object) -> Self {
        let text = |key: &str| manager.get(key).map(plain).unwrap_or_default();
        let waiting = manager
            .get("QueueLength")
            .and_then(serde_json::Value::as_u64);
        match text("State").as_str() {
            "loading" => Self::Loading(text("StateDetail")),
            // A reload.
            "ready" if !text("StateDetail").is_empty() => Self::State(text("StateDetail")),
            "ready" => match waiting.unwrap_or_default() {
                0 | 1 => Self::Reading(None),
                requests => Self::Others(requests - 1),
            },
            state => Self::State(state.into()),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Acceptance => "waiting for gangliond to take the request".into(),
            Self::NoDaemon => "waiting for gangliond, which does not run".into(),
            Self::Loading(detail) if detail.is_empty() => "the model is being loaded".into(),
            Self::Loading(detail) => format!("the model is being loaded: {detail}"),
            Self::Others(1) => "another request is under way".into(),
            Self::Others(requests) => format!("{requests} other requests wait or are under way"),
            Self::Reading(Some(line)) => line.clone(),
            Self::Reading(None) => "the prompt is being read".into(),
            Self::State(state) => format!("gangliond: {state}"),
        }
    }
}

/// The line, until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    quiet: bool,
    spinner: Option<ProgressBar>,
    told: Option<Situation>,
}

impl Waiting {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            spinner: None,
            told: None,
        }
    }

    /// Awaits `future`, and says meanwhile what takes its time.
    pub(crate) async fn during<T>(&mut self, ask: Ask<'_>, future: impl Future<Output = T>) -> T {
        let result = tokio::select! {
            biased;
            result = future => result,
            never = self.say(ask) => match never {},
        };
        self.clear();
        result
    }

    async fn say(&mut self, ask: Ask<'_>) -> Infallible {
        if self.quiet {
            return pending().await;
        }
        let turns = io::stderr().is_terminal();
        sleep(if turns { PATIENCE } else { PATIENCE_OF_LOGS }).await;
        loop {
            let situation = Situation::now(ask).await;
            match situation {
                Some(situation) if turns => self.turn(&situation),
                Some(situation) => self.log(situation),
                None => {}
            }
            for _ in 0..TURNS {
                if let Some(spinner) = &self.spinner {
                    spinner.tick();
                }
                sleep(TURN).await;
            }
        }
    }

    fn turn(&mut self, situation: &Situation) {
        let spinner = self.spinner.get_or_insert_with(|| {
            let spinner = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                spinner.set_style(style);
            }
            spinner
        });
        spinner.set_message(output::harmless(&situation.text()));
    }

    fn log(&mut self, situation: Situation) {
        let is_alike = |told: &Situation| discriminant(told) == discriminant(&situation);
        if !self.told.as_ref().is_some_and(is_alike) {
            output::tell(&format!("ganglionctl: {}", situation.text()));
            self.told = Some(situation);
        }
    }

    fn clear(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.clear();
    }
}
