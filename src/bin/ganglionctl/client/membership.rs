//! The remedy for a call that the bus denies to this user, in one line.

use nix::unistd::{Gid, Group, Uid, User, getegid, geteuid, getgroups};

const ASKS: &str = "ganglion";
const OPERATES: &str = "ganglion-admin";

/// Returns the remedy for the user of this process.
pub(super) fn remedy() -> String {
    let id = geteuid();
    if id.is_root() {
        return "the bus refuses root: its policy is not loaded: sudo systemctl reload dbus, or reinstall the package"
            .into();
    }
    outsider().unwrap_or_else(|| {
        let user = name(id);
        let helps = joins(&user, OPERATES);
        format!("{user} may use the model, but not control the daemon: {helps}")
    })
}

/// Returns the remedy for a user of this process who is not in the group that may use the model; `None` for one who is.
pub(crate) fn outsider() -> Option<String> {
    let user = name(geteuid());
    let Some(group) = Group::from_name(ASKS).ok().flatten() else {
        return Some(joins(&user, ASKS));
    };
    if is_in(group.gid) {
        return None;
    }
    if group.mem.contains(&user) {
        return Some(format!(
            "{user} is in group {ASKS} now, but was not when this login began: log in again, or newgrp {ASKS}"
        ));
    }
    Some(joins(&user, ASKS))
}

fn joins(user: &str, group: &str) -> String {
    format!("{user} is not in group {group}: sudo usermod -aG {group} {user}, then log in again")
}

/// Checks this process, because a change of the system's files applies only after the next login.
fn is_in(group: Gid) -> bool {
    getegid() == group || getgroups().is_ok_and(|groups| groups.contains(&group))
}

/// Returns the name of the user with this id, or the id if the user has no name.
pub(crate) fn account(id: u32) -> String {
    name(Uid::from_raw(id))
}

/// Returns the user's name, or its number.
pub(crate) fn name(id: Uid) -> String {
    let known = User::from_uid(id).ok().flatten();
    known.map_or_else(|| id.to_string(), |user| user.name)
}
