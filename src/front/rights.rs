//! Rights of users: priority realtime, holds of all requests, and the operation of the daemon.
//!
//! The system may keep its users on another machine, so each check runs on a thread that may block.

use super::groups::is_member;

/// The group whose members operate the daemon.
const ADMIN: &str = "ganglion-admin";

/// A right that a user lacks; displays the users who have it, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    #[error("root and one group: user {user} is not in group {group} (limits.realtime_group)")]
    NotInGroup { user: u32, group: String },
    #[error("root and one group: limits.realtime_group names no group")]
    NoGroup,
    #[error(
        "root on the bus, but not over HTTP, and one group: call as a user of that group, or on the bus"
    )]
    RootElsewhere,
}

/// The rights of root on a front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Root {
    /// Root may do what any group may.
    Privileged,
    /// Root may do what every user may, whatever groups it is in.
    Ordinary,
}

/// Whether a user may see the token counts and times of the last request, which may be another user's: root and group
/// `ganglion-admin` may.
pub(super) async fn is_operator(user: u32, root: Root) -> bool {
    if user == 0 {
        return root == Root::Privileged;
    }
    is_member_async(user, ADMIN.to_owned()).await
}

/// Refuses users other than root and the members of `group`.
pub(super) async fn admit_realtime(
    user: u32,
    root: Root,
    group: Option<String>,
) -> Result<(), Forbidden> {
    if user == 0 {
        return match root {
            Root::Privileged => Ok(()),
            Root::Ordinary => Err(Forbidden::RootElsewhere),
        };
    }
    let group = group.ok_or(Forbidden::NoGroup)?;
    if is_member_async(user, group.clone()).await {
        Ok(())
    } else {
        Err(Forbidden::NotInGroup { user, group })
    }
}

async fn is_member_async(user: u32, group: String) -> bool {
    let member = tokio::task::spawn_blocking(move || is_member(user, &group));
    member.await.unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn root_without_privileges_is_no_operator_and_never_realtime() {
        // On every Linux root is in its own group, by the number 0.
        let group = nix::unistd::Group::from_gid(0.into());
        let group = group.ok().flatten().map(|group| group.name);
        assert!(group.is_some());
        assert!(is_operator(0, Root::Privileged).await);
        assert!(!is_operator(0, Root::Ordinary).await);
        assert_eq!(admit_realtime(0, Root::Privileged, None).await, Ok(()));
        let refused = admit_realtime(0, Root::Ordinary, group).await;
        assert_eq!(refused, Err(Forbidden::RootElsewhere));
    }
}
