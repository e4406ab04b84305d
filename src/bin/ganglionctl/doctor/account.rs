//! The user and groups that need access to the device's nodes, from the machine's files.

use std::collections::BTreeSet;

use ganglion::nodes;
use nix::unistd::Uid;

use super::tree::{Rights, Tree};
use crate::client::membership;

/// A user and its groups, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) groups: BTreeSet<String>,
}

impl Account {
    /// Returns the user of that name with the groups of the machine and those in `more`; `None` if there is no such
    /// user.
    pub(super) fn find(tree: &Tree, user: &str, more: &str) -> Option<Self> {
        let users = tree.records("/etc/passwd");
        let primary = users.iter().find(|fields| fields[0] == user)?.get(3)?;
        let mut groups: BTreeSet<_> = more.split_whitespace().map(str::to_owned).collect();
        for fields in tree.records("/etc/group") {
            if let [name, _, id, members] = &fields[..]
                && (id == primary || members.split(',').any(|member| member == user))
            {
                groups.insert(name.clone());
            }
        }
        let user = user.into();
        Some(Self { user, groups })
    }

    /// Returns the user of this process.
    pub(super) fn caller(tree: &Tree) -> Self {
        let user = membership::name(Uid::effective());
        let groups = BTreeSet::new();
        Self::find(tree, &user, "").unwrap_or(Self { user, groups })
    }

    /// Whether this user has a file's group permissions.
    pub(super) fn may_use(&self, Rights { mode, owner, group }: &Rights) -> bool {
        let needed = nodes::needed(*mode);
        let granted = match &self.user {
            root if root == "root" => 0o6,
            user if user == owner => mode >> 6,
            _ if self.groups.contains(group) => mode >> 3,
            _ => *mode,
        };
        granted & needed == needed
    }
}
