//! Reloads: reads the configuration again, and applies all of it or nothing. One reload runs at a time. The engine
//! itself decides what a new model or device needs.

use std::sync::Arc;
use std::time::Instant;

use tokio::signal::unix::Signal;
use tokio::sync::mpsc;

use super::derived::{bus_config, front_config, heat_rules, http_config, limits};
use super::origin::{Origin, Read};
use super::pressure::Pressure;
use super::source::{self, TokenSource};
use super::watchdog::Watchdog;
use super::{extension, sessions};
use crate::bus::{self, Bus, ReloadCall};
use crate::config::{Config, ConfigError};
use crate::engine::{Handle, ReplaceError, Replaced};
use crate::front::Front;
use crate::http::{Http, Keys};
use crate::journal::{self, Journal};

/// The active configuration, and its source.
#[derive(Debug)]
pub(super) struct Reloader {
    pub(super) origin: Origin,
    pub(super) front: Front,
    pub(super) http: Arc<Http>,
    pub(super) journal: Journal,
    pub(super) watchdog: Arc<Watchdog>,
    pub(super) pressure: Pressure,
    pub(super) config: Config,
    /// The active keys of callers over TCP.
    pub(super) keys: Option<Keys>,
}

/// The reason why the previous configuration stays active.
#[derive(Debug, thiserror::Error)]
enum ReloadError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Engine(#[from] ReplaceError),
    #[error("the configuration cannot be read: {0}")]
    Read(#[from] tokio::task::JoinError),
}

impl Reloader {
    /// Applies all of `config` that needs no new model or device.
    pub(super) fn apply(&mut self, config: Config, keys: Option<Keys>, engine: &Handle, bus: &Bus) {
        self.journal.set_level(config.log.level);
        self.watchdog.set_stall(config.watchdog.stall);
        engine.set_limits(limits(&config));
        engine.board().set_rules(heat_rules(&config));
        engine.keep_sessions(config.sessions.durability, sessions::quota(&config));
        engine.keep_pages(sessions::page_rules(&config));
        engine.keep_in_host(sessions::host_rules(&config));
        engine.unload_after(config.idle.unload);
        self.pressure.keep_free(config.memory.keep_free_mib << 20);
        self.front.configure(front_config(&config));
        bus.configure(bus_config(&config));
        self.http.configure(http_config(&config, keys.clone()));
        self.config = config;
        self.keys = keys;
    }

    /// Serves reload calls and SIGHUPs in order, until it is dropped.
    pub(super) async fn serve(
        &mut self,
        engine: &Handle,
        bus: &Bus,
        mut calls: mpsc::Receiver<ReloadCall>,
        hangups: &mut Signal,
    ) {
        loop {
            let call = tokio::select! {
                Some(call) = calls.recv() => Some(call),
                Some(()) = hangups.recv() => None,
                else => return std::future::pending().await,
            };
            let result = self.reload(engine, bus).await;
            if let Some(call) = call {
                call.answer(result.map_err(Into::into));
            }
        }
    }

    async fn reload(&mut self, engine: &Handle, bus: &Bus) -> Result<(), ReloadError> {
        let begun = Instant::now();
        let result = self.read_and_apply(engine, bus).await;
        match &result {
            Ok(what) => {
                let model = engine.status().borrow().model.name.clone();
                journal::reloaded(what, &model, begun.elapsed().as_secs_f64());
            }
            Err(error) => journal::reload_failed(&error.to_string()),
        }
        result.map(drop)
    }

    /// Reads and applies the configuration, and returns what changed.
    async fn read_and_apply(
        &mut self,
        engine: &Handle,
        bus: &Bus,
    ) -> Result<&'static str, ReloadError> {
        let origin = self.origin.clone();
        let Read {
            config,
            source,
            formats,
            keys,
        } = tokio::task::spawn_blocking(move || origin.read()).await??;
        let replaced = match source {
            TokenSource::Model(path) => {
                let settings = source::settings(&path, &config);
                let (stall, drain) = (self.config.watchdog.stall, config.reload.drain);
                tokio::select! {
                    replaced = engine.replace(settings, drain) => replaced?,
                    never = extension::of_load(engine, stall, drain) => match never {},
                }
            }
            TokenSource::Script(_) => Replaced::Nothing,
        };
        let same = self.config == config && self.keys == keys;
        engine.set_formats(formats);
        self.apply(config, keys, engine, bus);
        Ok(match replaced {
            Replaced::Nothing if same => "nothing has changed",
            Replaced::Nothing | Replaced::GraphMode => "the model stays",
            Replaced::Model => "another model, or another way to run it, was loaded",
        })
    }
}

impl From<ReloadError> for bus::Error {
    fn from(error: ReloadError) -> Self {
        let message = error.to_string();
        match error {
            ReloadError::Engine(ReplaceError::Refused(refusal)) => refusal.into(),
            ReloadError::Engine(ReplaceError::NotSupported(_)) => Self::NotSupported(message),
            ReloadError::Engine(ReplaceError::NeedsRestart { .. } | ReplaceError::Memory(_)) => {
                Self::OutOfMemory(message)
            }
            ReloadError::Engine(ReplaceError::Model { error, .. }) if error.is_of_machine() => {
                Self::EngineFailed(message)
            }
            ReloadError::Config(_) | ReloadError::Engine(ReplaceError::Model { .. }) => {
                Self::InvalidOption(message)
            }
            ReloadError::Engine(ReplaceError::Device(_) | ReplaceError::Loader(_))
            | ReloadError::Read(_) => Self::EngineFailed(message),
        }
    }
}
