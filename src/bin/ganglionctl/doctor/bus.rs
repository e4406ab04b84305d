//! Checks of the bus: the installed policy, and a call by the present user.

use std::collections::HashMap;

use ganglion::bus;
use ganglion::bus::proxy::ManagerProxy;
use ganglion::kv::KvType;
use ganglion::runner::KEY_BOUND;
use serde_json::{Map, Value};
use zbus::Connection;

use super::account::Account;
use super::finding::Findings;
use super::tree::Tree;
use crate::client::{self, MANAGER, text};
use crate::failure::{Exit, Failure, Outcome};

const CHECK: &str = "bus";
const POLICY: [&str; 2] = [
    "/usr/share/dbus-1/system.d/org.ganglion.Llm1.conf",
    "/etc/dbus-1/system.d/org.ganglion.Llm1.conf",
];
const ACTIVATION: &str = "/usr/share/dbus-1/system-services/org.ganglion.Llm1.service";

/// Checks the installed files.
pub(super) fn files(tree: &Tree, found: &mut Findings) {
    match POLICY.iter().find(|path| tree.read(path).is_ok()) {
        Some(path) => found.ok(CHECK, format!("policy {path}")),
        None => found.fail(
            CHECK,
            format!("no policy: {} is missing", POLICY[0]),
            "reinstall the package; without the policy no program may own or call the daemon's name",
        ),
    }
    if tree.read(ACTIVATION).is_err() {
        let what = format!("{ACTIVATION} is missing: calls do not start the daemon");
        found.warn(CHECK, what, "reinstall the package");
    }
}

/// Asks a running daemon for its state, and checks that the caller may use it. Returns the bytes of a loaded model.
pub(super) fn call(address: Option<String>, caller: &Account, found: &mut Findings) -> Option<u64> {
    let asked = client::block_on(async {
        let connection = client::connect(address).await?;
        client::at_once(ask(&connection, caller, found)).await
    });
    asked.unwrap_or_else(|failure| {
        refused(caller, "", failure, found);
        None
    })
}

/// Reports a call that failed.
fn refused(caller: &Account, asked: &str, failure: Failure, found: &mut Findings) {
    let Failure { exit, message } = failure;
    let user = &caller.user;
    let denied = format!("{user} may not call the daemon");
    if exit != Exit::Forbidden {
        found.error(CHECK, format!("{asked}{message}"));
    } else if caller.groups.contains("ganglion") || user == "root" {
        found.fail(CHECK, denied, message);
    } else {
        // A user without a group may have no access on purpose.
        found.warn(CHECK, denied, message);
    }
}

/// Reports the types of the cache, and warns if q8_0 for K changes the model's answers.
fn check_kv(memory: &Value, found: &mut Findings) {
    const CHECK: &str = "kv";
    let [k, v, reason] = ["kv_type_k", "kv_type_v", "kv_reason"].map(|key| memory[key].as_str());
    let (Some(k), Some(v), Some(reason)) = (k, v, reason) else {
        return;
    };
    let types = format!("the cache stores K as {k} and V as {v} ({reason})");
    let Some(delta) = memory["kv_key_delta"].as_f64() else {
        return found.ok(CHECK, types);
    };
    let what = format!("{types}; q8_0 for K changes a short text by {delta:.3}");
    if k != KvType::Q8_0.name() || delta <= KEY_BOUND {
        return found.ok(CHECK, what);
    }
    let what = format!("{what}, more than {KEY_BOUND} (mean |delta logprob|)");
    found.warn(CHECK, what, "set kv.type_k to \"auto\" or \"f16\"");
}

async fn ask(bus: &Connection, caller: &Account, found: &mut Findings) -> Outcome<Option<u64>> {
    if !client::is_there(bus).await? {
        let what = format!("the daemon is not running: {} has no owner", bus::NAME);
        found.warn(CHECK, what, "sudo systemctl start gangliond");
        return Ok(None);
    }
    let properties = client::properties(bus, MANAGER).await?;
    let [state, detail, version] =
        ["State", "StateDetail", "Version"].map(|key| text(&properties[key]));
    let colon = if detail.is_empty() { "" } else { ": " };
    let what = format!("gangliond {version} is {state}{colon}{detail}");
    match state {
        "ready" | "idle" => found.ok(CHECK, what),
        "failed" => {
            let remedy = "fix that, then sudo systemctl restart gangliond";
            found.fail(CHECK, what, remedy);
        }
        _ => found.warn(CHECK, what, "wait, then run this again"),
    }
    let ours = env!("CARGO_PKG_VERSION");
    if version != ours {
        let what = format!("ganglionctl is {ours}");
        found.warn(CHECK, what, "sudo systemctl restart gangliond");
    }
    // The daemon always refuses this call, once the bus has passed it on.
    let options = HashMap::from([("doctor", true.into())]);
    let manager = ManagerProxy::new(bus).await?;
    match manager.open_session(options).await {
        Err(bus::Error::Bus(error)) => refused(caller, "a call fails: ", error.into(), found),
        _ => found.ok(CHECK, format!("{} may call it", caller.user)),
    }
    check_kv(&properties["Memory"], found);
    let memory = properties["Memory"].as_object().into_iter();
    let bytes = memory.flat_map(Map::values).filter_map(Value::as_u64);
    // An unloaded model has no memory, and needs as much as one that is not loaded yet.
    Ok((state == "ready").then(|| bytes.sum()))
}
