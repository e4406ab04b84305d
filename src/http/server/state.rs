//! State that all connections share.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use tokio::sync::{Semaphore, watch};

use super::bodies::Bodies;
use super::places::Places;
use super::times::Times;
use crate::front::{Front, Setting};
use crate::http::config::HttpConfig;
use crate::http::traffic::Traffic;

/// Connections that are being refused at once.
const REFUSALS: usize = 64;

#[derive(Debug)]
pub(super) struct State {
    pub(super) front: Front,
    pub(super) router: Router,
    /// Absent until the configuration has been read; connections wait for it.
    pub(super) config: Setting<HttpConfig>,
    pub(super) places: Places,
    pub(super) bodies: Bodies,
    pub(super) traffic: Traffic,
    pub(super) times: Times,
    /// Permits for the refusals of connections, which wait until the peer has read them.
    pub(super) refusing: Semaphore,
    /// Whether connections end after their current request.
    pub(super) stopping: watch::Sender<bool>,
    numbers: AtomicU64,
}

impl State {
    pub(super) fn new(front: Front, router: Router, traffic: Traffic, times: Times) -> Self {
        Self {
            front,
            router,
            config: Setting::default(),
            places: Places::default(),
            bodies: Bodies::default(),
            traffic,
            times,
            refusing: Semaphore::new(REFUSALS),
            stopping: watch::Sender::new(false),
            numbers: AtomicU64::new(1),
        }
    }

    /// Returns a number that no other connection has.
    pub(super) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}
