//! Whoever the device's nodes are to be open to, as the machine's own files have it.

use std::collections::BTreeSet;

use ganglion::nodes;
use nix::unistd::Uid;

use super::tree::{Rights, Tree};
use crate::client::membership;

/// Whoever the device's nodes are to be open to: a user and its groups, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) groups: BTreeSet<String>,
}

impl Account {
    /// The user of that name with the groups that the machine gives it, and `more`; nothing if there is none.
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

    /// Whoever runs this.
    pub(super) fn caller(tree: &Tree) -> Self {
        let user = membership::name(Uid::effective());
        let groups = BTreeSet::new();
        Self::find(tree, &user, "").unwrap_or(Self { user, groups })
    }

    /// Whether it may do with a file what the file's group may.
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
