//! More time for a load as long as it gets on: one that is stuck runs into the unit's timeout.

use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::notify;
use crate::engine::{Handle, State};

/// How often it is looked whether the load got on.
const LOOK: Duration = Duration::from_secs(1);

/// Follows the load at start to its end.
pub(super) async fn of_start(engine: Handle, stall: Duration) {
    let mut status = engine.status();
    tokio::select! {
        biased;
        _ = status.wait_for(|status| status.state != State::Loading) => {}
        never = of_load(&engine, stall, Duration::ZERO) => match never {},
    }
}

/// Asks for more time after each step of a load, at start or by a reload, of which the last may have to wait so long for those who
/// are answered; never returns.
pub(super) async fn of_load(engine: &Handle, stall: Duration, drain: Duration) -> Infallible {
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = engine.progress().pulse().loaded;
    loop {
        looks.tick().await;
        let loaded = engine.progress().pulse().loaded;
        if loaded != seen {
            seen = loaded;
            // The watchdog's thread, which names what stands still, comes first.
            notify::extend(stall + stall / 2 + drain);
        }
    }
}
