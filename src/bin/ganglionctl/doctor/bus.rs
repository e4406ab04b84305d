//! The bus: the policy that is installed, and a call as whoever runs this.

use std::collections::HashMap;

use ganglion::bus;
use zbus::names::BusName;
use zbus::{Connection, fdo};

use super::account::Account;
use super::finding::{Finding, Mark};
use super::tree::Tree;
use crate::client;
use crate::failure::Failure;

const CHECK: &str = "bus";
const POLICY: &[&str] = &[
    "/usr/share/dbus-1/system.d/org.ganglion.Llm1.conf",
    "/etc/dbus-1/system.d/org.ganglion.Llm1.conf",
];
const ACTIVATION: &str = "/usr/share/dbus-1/system-services/org.ganglion.Llm1.service";

/// The installed files.
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    match POLICY.iter().find(|path| tree.read(path).is_ok()) {
        Some(path) => findings.push(Finding::ok(CHECK, format!("policy {path}"))),
        None => findings.push(Finding::fail(
            CHECK,
            format!("no policy: {} is missing", POLICY[0]),
            "install the package again; without it nobody may own or call the daemon's name",
        )),
    }
    if tree.read(ACTIVATION).is_err() {
        let what = format!("{ACTIVATION} is missing: a call does not start the daemon");
        findings.push(Finding::warn(CHECK, what, "install the package again"));
    }
    findings
}

/// What the daemon answers.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) findings: Vec<Finding>,
    /// Bytes that its model takes, once it is loaded.
    pub(super) loaded: Option<u64>,
}

/// Asks the daemon how it is and whether the caller may use it; never starts it.
pub(super) fn call(address: Option<String>, caller: &Account) -> Answer {
    let asked = client::block_on(async {
        let connection = client::connect(address).await?;
        client::at_once(async { Ok(ask(&connection, caller).await) }).await
    });
    match asked {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => refused(&error, caller),
        Err(Failure { message, .. }) => {
            let what = message.unwrap_or_default();
            Answer {
                findings: vec![Finding::new(Mark::Fail, CHECK, what)],
                loaded: None,
            }
        }
    }
}

fn refused(error: &bus::Error, caller: &Account) -> Answer {
    let finding = if is_denied(error) {
        denied(caller)
    } else {
        let what = format!("the daemon's properties cannot be read: {error}");
        Finding::fail(CHECK, what, "journalctl -xeu gangliond says why")
    };
    Answer {
        findings: vec![finding],
        loaded: None,
    }
}

/// Whether the bus itself has refused.
fn is_denied(error: &bus::Error) -> bool {
    matches!(error, bus::Error::Bus(zbus::Error::FDO(error)) if matches!(**error, fdo::Error::AccessDenied(_)))
}

fn denied(caller: &Account) -> Finding {
    let user = &caller.user;
    let what = format!("{user} may not ask the daemon");
    if caller.is_in("ganglion") || user == "root" {
        let remedy = "the policy is not in force: sudo systemctl reload dbus";
        return Finding::fail(CHECK, what, remedy);
    }
    let remedy = format!("sudo usermod -aG ganglion {user}, and a new login");
    Finding::warn(CHECK, what, remedy)
}

async fn ask(connection: &Connection, caller: &Account) -> Result<Answer, bus::Error> {
    let is_owned = async {
        let name = BusName::try_from(bus::NAME)?;
        let driver = fdo::DBusProxy::new(connection).await?;
        driver.name_has_owner(name).await.map_err(zbus::Error::from)
    };
    if !is_owned.await.map_err(bus::Error::Bus)? {
        let what = format!("nobody owns {}: the daemon does not run", bus::NAME);
        let findings = vec![Finding::warn(CHECK, what, "sudo systemctl start gangliond")];
        return Ok(Answer {
            findings,
            loaded: None,
        });
    }
    let manager = bus::proxy::ManagerProxy::new(connection).await?;
    let (state, detail) = (manager.state().await?, manager.state_detail().await?);
    let version = manager.version().await?;
    let mut what = format!("gangliond {version} is {state}");
    if !detail.is_empty() {
        what = format!("{what}: {detail}");
    }
    let mut findings = vec![match state.as_str() {
        "ready" => Finding::ok(CHECK, what),
        "failed" => Finding::fail(
            CHECK,
            what,
            "mend that, then sudo systemctl restart gangliond",
        ),
        _ => Finding::warn(CHECK, what, "wait, then look again"),
    }];
    if version != env!("CARGO_PKG_VERSION") {
        let what = format!("ganglionctl is {}", env!("CARGO_PKG_VERSION"));
        findings.push(Finding::warn(
            CHECK,
            what,
            "sudo systemctl restart gangliond",
        ));
    }
    findings.push(may_generate(&manager, caller).await);
    let memory = manager.memory().await?;
    let bytes = memory
        .values()
        .filter_map(|bytes| u64::try_from(&**bytes).ok());
    let loaded = (state == "ready").then(|| bytes.sum());
    Ok(Answer { findings, loaded })
}

/// A call that the daemon refuses whatever its state, once the bus has let it through.
async fn may_generate(manager: &bus::proxy::ManagerProxy<'_>, caller: &Account) -> Finding {
    let options = HashMap::from([("doctor", true.into())]);
    match manager.open_session(options).await {
        Err(error) if is_denied(&error) => denied(caller),
        Err(bus::Error::Bus(error)) => Finding::fail(
            CHECK,
            format!("a call fails: {error}"),
            "journalctl -xeu gangliond says why",
        ),
        _ => Finding::ok(CHECK, format!("{} may ask it", caller.user)),
    }
}
