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
}

/// Whether a user may see the token counts and times of the last request, which may be another user's: root and group
/// `ganglion-admin` may.
pub async fn is_operator(user: u32) -> bool {
    user == 0 || is_member_async(user, ADMIN.to_owned()).await
}

/// Refuses users other than root and the members of `group`.
pub(super) async fn admit_realtime(user: u32, group: Option<String>) -> Result<(), Forbidden> {
    if user == 0 {
        return Ok(());
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
