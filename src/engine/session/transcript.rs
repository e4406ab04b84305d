//! Reads the messages of a named session without opening it, because another connection may hold it.

use super::persistent::blocking;
use super::sessions::Said;
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::Refusal;
use crate::model::Message;
use crate::session_store::{Name, Past, PastTurn};

impl Handle {
    /// Returns the messages of a user's named session, oldest first. Those of a persistent session include turns that were
    /// dropped from the context, as far as its file has them.
    ///
    /// # Errors
    /// `NoSession`, `Unkept`.
    pub async fn transcript(&self, user: u32, name: &Name) -> Result<Vec<Said>, Refusal> {
        // Only one call at a time reads, opens or deletes a user's sessions.
        let _naming = self.shared.naming(user).lock_owned().await;
        let known = {
            let sessions = self.shared.sessions();
            let id = sessions.named(user, name);
            id.and_then(|id| Some((sessions.file(id).is_some(), sessions.history(id)?)))
        };
        if let Some((false, history)) = known {
            return Ok(history.said());
        }
        let none = || Refusal::NoSession(name.to_string());
        let store = self.shared.store().clone().ok_or_else(none)?;
        let of = name.clone();
        let past = blocking(move || store.past(user, &of)).await?;
        past.map(said).ok_or_else(none)
    }
}

/// Returns the messages of a session's file.
fn said(past: Past) -> Vec<Said> {
    let Past {
        messages,
        dropped,
        turns,
        appended,
        ..
    } = past;
    let dropped = dropped.into_iter().map(|turn| (turn, true));
    let turns = turns.into_iter().map(|turn| (turn, false));
    let turns = dropped.chain(turns).flat_map(|(turn, dropped)| {
        let PastTurn {
            messages,
            answer,
            partial,
            ..
        } = turn;
        let asked = messages.into_iter().map(|message| (message, false));
        let all = asked.chain([(answer, partial)]);
        all.map(move |(message, partial)| Said {
            message,
            partial,
            dropped,
        })
    });
    let plain = |message: Message| Said {
        message,
        partial: false,
        dropped: false,
    };
    let begun = messages.into_iter().map(plain);
    begun
        .chain(turns)
        .chain(appended.into_iter().map(plain))
        .collect()
}
