//! Who may ask for priority realtime, and hold all others: root, and the members of one unix group that the configuration names.

use super::Error;
use super::groups::is_member;
use super::shared::Shared;
use crate::engine::{Client, Priority};

impl Shared {
    /// Refuses a priority that the caller's user may not ask for.
    pub(super) async fn admit_priority(
        &self,
        client: &Client,
        priority: Priority,
    ) -> Result<(), Error> {
        if priority != Priority::Realtime {
            return Ok(());
        }
        self.admit_realtime(client.user).await.map_err(|who| {
            Error::InvalidOption(format!(
                "option \"priority\" is \"realtime\", which is for {who}"
            ))
        })
    }

    /// Whether a user may have what is realtime's; if not, who may.
    pub(super) async fn admit_realtime(&self, user: u32) -> Result<(), String> {
        if user == 0 {
            return Ok(());
        }
        let group = self.config().await.realtime_group.clone();
        let remedy = match &group {
            Some(group) => format!("user {user} is not of group {group} (limits.realtime_group)"),
            None => "limits.realtime_group names no group".to_owned(),
        };
        // The system's users may be kept anywhere: asking can take time.
        let member =
            tokio::task::spawn_blocking(move || group.is_some_and(|group| is_member(user, &group)));
        if member.await.unwrap_or(false) {
            return Ok(());
        }
        Err(format!("root and one group: {remedy}"))
    }
}
