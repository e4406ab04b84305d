//! Extends systemd's start timeout as long as a load makes progress. A stuck load runs into the unit's timeout.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::notify;
use crate::engine::{Handle, State};

/// The interval at which progress is checked.
const LOOK: Duration = Duration::from_secs(1);

/// Follows the load at the start to its end.
pub(super) async fn of_start(engine: Handle, stall: Duration) {
    let mut status = engine.status();
    tokio::select! {
        biased;
        _ = status.wait_for(|status| status.state != State::Loading) => {}
        never = of_load(&engine, stall, Duration::ZERO) => match never {},
    }
}

/// Extends the timeout after each step of a load, at the start or in a reload; never returns. The last step may wait
/// for `drain` until active requests have finished.
pub(super) async fn of_load(engine: &Handle, stall: Duration, drain: Duration) -> Infallible {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = engine.progress().pulse().loaded;
    loop {
        looks.tick().await;
        let loaded = engine.progress().pulse().loaded;
        if loaded != seen {
            seen = loaded;
            // The watchdog reacts first, because it names the stalled part.
            notify::extend(stall + stall / 2 + drain);
        }
    }
}
