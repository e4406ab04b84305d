//! Checks of the HTTP API: the socket's unit, who may use the socket, the daemon's answer on it, its ports, and the key file.

use std::net::SocketAddr;
use std::path::Path;

use ganglion::config::{Config, ConfigError};
use hyper::StatusCode;

use super::account::Account;
use super::finding::Findings;
use super::tree::{Rights, Tree};
use super::unit::Unit as Service;
use crate::client::{self, text};
use crate::openai::socket::{self, SOCKET, UNIT, Unit};

const CHECK: &str = "HTTP";
/// The group whose members may use the model.
const GROUP: &str = "ganglion";
/// The permission to connect that a socket gives to every user.
const WRITE_BY_OTHERS: u32 = 0o002;
const OTHERS: u32 = 0o077;

/// Checks the socket and what belongs to it. Only a running daemon is asked: a connection would start it.
pub(super) fn check(
    tree: &Tree,
    service: &Service,
    config: &Result<Config, ConfigError>,
    found: &mut Findings,
) {
    let shown = tree.command("systemctl-show-socket", &Unit::question());
    let unit = Unit::parse(shown.unwrap_or_default());
    if unit.is_empty() {
        return;
    }
    let active = unit.get("ActiveState");
    match (unit.get("LoadState"), active) {
        ("loaded", "active") => {}
        ("loaded", "failed") => {
            let what = format!("{UNIT} failed");
            return found.fail(CHECK, what, format!("systemctl status {UNIT} says why"));
        }
        ("loaded" | "masked", _) => {
            return found.ok(CHECK, format!("off; {} serves OpenAI's API", unit.remedy()));
        }
        (state, _) => {
            let what = format!("systemd does not know {UNIT} ({state})");
            return found.warn(CHECK, what, unit.remedy());
        }
    }
    if unit.get("NeedDaemonReload") == "yes" {
        let what = format!("files of {UNIT} have changed since systemd read them");
        found.warn(CHECK, what, "sudo systemctl daemon-reload");
    }
    rights(tree, &unit, found);
    let key_file = config.as_ref().ok();
    let key_file = key_file.and_then(|config| config.http.key_file.as_deref());
    for port in unit.tcp() {
        check_port(port, key_file.is_some(), found);
    }
    if let Some(file) = key_file {
        check_key_file(tree, file, service.account(tree).as_ref(), found);
    }
    if tree.is_live() && service.runs() {
        ask(found);
    }
}

/// Reports who may use the socket.
fn rights(tree: &Tree, unit: &Unit, found: &mut Findings) {
    let Some(Rights { mode, group, .. }) = tree.rights(SOCKET) else {
        let what = format!("{SOCKET} is missing, although {UNIT} is active");
        return found.fail(CHECK, what, unit.remedy());
    };
    let shown = format!("{SOCKET} (mode {mode:04o}, group {group})");
    if mode & WRITE_BY_OTHERS != 0 {
        let what = format!("{shown} is open to every user of this machine");
        let remedy = format!("set SocketMode=0660 in {UNIT}, then {}", unit.remedy());
        found.fail(CHECK, what, remedy);
    } else if group == GROUP {
        found.ok(CHECK, shown);
    } else {
        let what = format!("{shown} is not for group {GROUP}");
        let remedy = format!("set SocketGroup={GROUP} in {UNIT}, then {}", unit.remedy());
        found.warn(CHECK, what, remedy);
    }
}

fn check_port(port: &str, has_keys: bool, found: &mut Findings) {
    let address = port.parse::<SocketAddr>();
    if !address.is_ok_and(|address| address.ip().is_loopback()) {
        let what = format!("other machines can reach {port}, without encryption");
        let remedy = format!("set ListenStream=127.0.0.1:PORT in the drop-in of {UNIT}");
        found.warn(CHECK, what, remedy);
    }
    if has_keys {
        found.ok(CHECK, format!("{port} takes requests with a key"));
    } else {
        let what = format!("{port} takes no requests: http.key_file is not set");
        found.warn(CHECK, what, "see TCP in man ganglion-openai");
    }
}

/// Reports whether the service alone can read the keys. A file that this user cannot see is left out.
fn check_key_file(tree: &Tree, file: &Path, service: Option<&Account>, found: &mut Findings) {
    let shown = file.display();
    let Some(Rights { mode, owner, group }) = tree.rights(&file.to_string_lossy()) else {
        if let Ok(false) = tree.path(file).try_exists() {
            let what = format!("{shown} is missing, and http.key_file names it");
            found.fail(CHECK, what, "see TCP in man ganglion-openai");
        }
        return;
    };
    let shown = format!("keys {shown} (mode {mode:04o}, owner {owner}, group {group})");
    if mode & OTHERS != 0 {
        let remedy = format!("sudo chmod go= {}", file.display());
        return found.fail(CHECK, format!("{shown} are open to other users"), remedy);
    }
    // The callers are in the daemon's group.
    let reads =
        |account: &Account| account.user == "root" || (account.user == owner && mode & 0o400 != 0);
    match service {
        Some(account) if !reads(account) => {
            let what = format!("{shown} are closed to {}", account.user);
            let file = file.display();
            let remedy = format!("sudo chown {} {file}; sudo chmod 0600 {file}", account.user);
            found.fail(CHECK, what, remedy);
        }
        _ => found.ok(CHECK, shown),
    }
}

/// Asks the running daemon for its health.
fn ask(found: &mut Findings) {
    let asked = client::block_on(async { Ok(socket::health(Path::new(SOCKET)).await) });
    match asked {
        Ok(Ok((StatusCode::OK, answer))) => {
            found.ok(
                CHECK,
                format!("the daemon answers: {}", text(&answer["state"])),
            );
        }
        Ok(Ok((status, answer))) => {
            let [state, detail] = ["state", "detail"].map(|key| text(&answer[key]));
            let what = format!("the daemon answers {status}: {state} {detail}");
            found.warn(CHECK, what, "wait, then run this again");
        }
        Ok(Err(why)) if why.contains("denied") => {
            let remedy = client::membership::outsider();
            let remedy = remedy.unwrap_or_else(|| format!("ls -l {SOCKET}"));
            found.warn(CHECK, "you may not open the socket", remedy);
        }
        Ok(Err(why)) => {
            let remedy = "journalctl -xeu gangliond says more";
            found.fail(CHECK, format!("the daemon does not answer: {why}"), remedy);
        }
        Err(failure) => found.error(CHECK, failure.message),
    }
}
