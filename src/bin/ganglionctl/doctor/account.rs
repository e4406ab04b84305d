//! Whoever the device's nodes are to be open to: a user and its groups, by name.

use super::tree::{Rights, Tree};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: String,
    pub(super) groups: Vec<String>,
}

impl Account {
    /// The user of that name with the groups that the machine gives it, and `more`; nothing if there is none.
    pub(super) fn find(tree: &Tree, user: &str, more: &[String]) -> Option<Self> {
        let users = std::fs::read_to_string(tree.path("/etc/passwd")).ok()?;
        let primary = users.lines().find_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            (fields.first() == Some(&user)).then(|| fields.get(3).copied().unwrap_or_default())
        })?;
        let groups = std::fs::read_to_string(tree.path("/etc/group")).unwrap_or_default();
        let member = groups.lines().filter_map(|line| {
            let fields: Vec<_> = line.split(':').collect();
            let [name, _, id, members] = fields[..] else {
                return None;
            };
            let is_in = id == primary || members.split(',').any(|member| member == user);
            is_in.then(|| name.to_owned())
        });
        let mut all: Vec<_> = member.chain(more.iter().cloned()).collect();
        all.sort();
        all.dedup();
        Some(Self {
            user: user.into(),
            groups: all,
        })
    }

    /// Whoever runs this.
    pub(super) fn caller(tree: &Tree) -> Self {
        let id = nix::unistd::Uid::effective();
        let known = nix::unistd::User::from_uid(id).ok().flatten();
        let user = known.map_or_else(|| id.to_string(), |user| user.name);
        Self::find(tree, &user, &[]).unwrap_or(Self {
            user,
            groups: Vec::new(),
        })
    }

    /// Whether it may do with a file what the file's group may.
    pub(super) fn may_use(&self, Rights { mode, owner, group }: &Rights) -> bool {
        // Some releases let the group only read /dev/nvmap.
        let needed = (mode >> 3 & 0o6).max(0o4);
        let granted = if self.user == "root" {
            0o6
        } else if *owner == self.user {
            mode >> 6
        } else if self.groups.contains(group) {
            mode >> 3
        } else {
            *mode
        };
        granted & needed == needed
    }

    pub(super) fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| one == group)
    }
}
