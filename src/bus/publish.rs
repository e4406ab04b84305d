//! Tells the bus when a property of `Manager` or `Diagnostics` has changed.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use zbus::names::InterfaceName;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, Variant, fdo};

use super::statistics::held_of_own;
use super::{PATH, info};
use crate::engine::{Status, StatusReceiver};

/// The most of the daemon's messages that the bus may hold for others while changes are told: subscribers that do not
/// read would fill it.
const HELD: usize = 48 << 20;
/// So long passes between two looks at that.
const LOOK: Duration = Duration::from_secs(10);

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
    let mut told = status.borrow_and_update();
    let mut next = Instant::now();
    let mut look = next;
    while status.changed().await.is_ok() {
        // Counters may wait, a new state does not.
        let news = status.wait_for(|status| status.state != told.state);
        let _ = timeout_at(next, news).await;
        // What changes meanwhile is told with this change.
        while Instant::now() >= look {
            look = Instant::now() + LOOK;
            if held_of_own(&connection).await > HELD {
                sleep(LOOK).await;
            }
        }
        let now = status.borrow_and_update();
        let changes = [
            (MANAGER, manager(&told, &now)),
            (DIAGNOSTICS, diagnostics(&told, &now)),
        ];
        told = now;
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

fn manager(told: &Status, now: &Status) -> Changed {
    let mut changed = HashMap::new();
    if told.state != now.state {
        changed.insert("State", now.state.name().into());
    }
    if told.detail != now.detail {
        changed.insert("StateDetail", now.detail.clone().into());
    }
    if told.backend != now.backend {
        changed.insert("Backend", now.backend.clone().into());
    }
    if told.model != now.model {
        changed.insert("Model", info::model(&now.model).into());
    }
    if told.memory != now.memory || told.model.kv != now.model.kv {
        let memory = info::memory(&now.memory, now.model.kv.as_ref());
        changed.insert("Memory", memory.into());
    }
    if told.queue_length != now.queue_length {
        changed.insert("QueueLength", now.queue_length.into());
    }
    if told.sessions != now.sessions {
        changed.insert("Sessions", now.sessions.into());
    }
    changed
}

fn diagnostics(told: &Status, now: &Status) -> Changed {
    let mut changed = HashMap::new();
    if told.graph_state != now.graph_state {
        changed.insert("GraphState", now.graph_state.into());
    }
    changed
}
