//! Group membership of users, as the system knows it.

use nix::unistd::{Group, Uid, User, getgrouplist};

/// Whether a user is a member of a group; `false` if the system does not know either of them.
pub(super) fn is_member(user: u32, group: &str) -> bool {
    let Ok(Some(group)) = Group::from_name(group) else {
        return false;
    };
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(user)) else {
        return false;
    };
    let groups = std::ffi::CString::new(user.name).map(|name| getgrouplist(&name, user.gid));
    matches!(groups, Ok(Ok(groups)) if groups.contains(&group.gid))
}

#[cfg(test)]
mod tests {
    use nix::unistd::Gid;

    use super::*;

    #[test]
    fn members_are_those_that_the_system_names() {
        // Root is in its own group on every Linux.
        let root = Group::from_gid(Gid::from_raw(0)).expect("groups can be looked up");
        let root = root.expect("there is a group 0").name;
        assert!(is_member(0, &root));
        assert!(!is_member(0, "no-such-group"));
        assert!(!is_member(u32::MAX - 7, &root));
    }
}
