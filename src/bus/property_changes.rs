//! Emits signals for changed properties of `Manager` and `Diagnostics`.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use zbus::names::InterfaceName;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, Variant, fdo};

use super::bus_statistics::held_from_daemon;
use super::manager::features;
use super::{PATH, info};
use crate::engine::{Status, StatusReceiver};

/// The most bytes of the daemon's messages that the bus may hold while signals are sent: subscribers that do not read would
/// fill it.
const HELD: usize = 48 << 20;
/// The time between two checks of that.
const CHECK: Duration = Duration::from_secs(10);

/// The least time between two signals, unless the state changes.
const PAUSE: Duration = Duration::from_millis(100);

const MANAGER: InterfaceName<'static> =
    InterfaceName::from_static_str_unchecked("org.ganglion.Llm1.Manager");
const DIAGNOSTICS: InterfaceName<'static> =
    InterfaceName::from_static_str_unchecked("org.ganglion.Llm1.Diagnostics");

/// Properties by name, with their new values.
type Changed = HashMap<&'static str, Variant<'static>>;

/// Emits `PropertiesChanged` for each change of `status`, until the connection is lost.
pub(super) async fn run(connection: Connection, mut status: StatusReceiver) {
    let emitter = SignalEmitter::from_parts(
        connection.clone(),
        zbus::ObjectPath::from_static_str_unchecked(PATH),
    );
    let mut reported = status.borrow_and_update();
    let mut next = Instant::now();
    let mut check = next;
    while status.changed().await.is_ok() {
        // A changed counter waits for its turn; a changed state does not.
        let news = status.wait_for(|status| status.state != reported.state);
        let _ = timeout_at(next, news).await;
        // Changes during the wait go with this signal.
        while Instant::now() >= check {
            check = Instant::now() + CHECK;
            if held_from_daemon(&connection).await > HELD {
                sleep(CHECK).await;
            }
        }
        let now = status.borrow_and_update();
        let changes = [
            (MANAGER, manager(&reported, &now)),
            (DIAGNOSTICS, diagnostics(&reported, &now)),
        ];
        reported = now;
        let mut silent = true;
        for (interface, changed) in changes {
            if changed.is_empty() {
                continue;
            }
            silent = false;
            let signal =
                fdo::Properties::properties_changed(&emitter, interface, changed, (&[][..]).into());
            if signal.await.is_err() {
                return;
            }
        }
        if !silent {
            next = Instant::now() + PAUSE;
        }
    }
}

fn manager(reported: &Status, now: &Status) -> Changed {
    let mut changed = HashMap::new();
    if reported.state != now.state {
        changed.insert("State", now.state.name().into());
    }
    if reported.detail != now.detail {
        changed.insert("StateDetail", now.detail.clone().into());
    }
    if reported.backend != now.backend {
        changed.insert("Backend", now.backend.clone().into());
    }
    if reported.model != now.model {
        changed.insert("Model", info::model(&now.model).into());
    }
    if reported.model.images != now.model.images {
        changed.insert("Features", features(&now.model).into());
    }
    if reported.memory != now.memory || reported.model.kv != now.model.kv {
        let memory = info::memory(&now.memory, now.model.kv.as_ref());
        changed.insert("Memory", memory.into());
    }
    if reported.queue_length != now.queue_length {
        changed.insert("QueueLength", now.queue_length.into());
    }
    if reported.sessions != now.sessions {
        changed.insert("Sessions", now.sessions.into());
    }
    changed
}

fn diagnostics(reported: &Status, now: &Status) -> Changed {
    let mut changed = HashMap::new();
    if reported.graph_state != now.graph_state {
        changed.insert("GraphState", now.graph_state.into());
    }
    changed
}
