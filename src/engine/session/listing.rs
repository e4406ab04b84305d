//! The list of a user's named sessions: those on the disk, and those in memory.
//!
//! It reads summaries. It opens no session and changes none.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::persistent::blocking;
use crate::engine::caller::client::ConnectionName;
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::Refusal;
use crate::session_store::Name;

/// A session in the list of its user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    pub turns: u32,
    /// Bytes of its file.
    pub bytes: u64,
    /// Seconds since 1970; 0 if unknown.
    pub began: u64,
    /// When its last turn ended.
    pub used: u64,
    pub persistent: bool,
    /// The connection that holds it.
    pub holder: Option<ConnectionName>,
    /// Why it cannot be opened.
    pub error: Option<String>,
    /// Damaged files of it, which are not read.
    pub damaged: Vec<String>,
}

impl Listed {
    /// Returns the bytes of the names of its damaged files.
    #[must_use]
    pub fn damaged_bytes(&self) -> usize {
        self.damaged.iter().map(String::len).sum()
    }
}

impl Handle {
    /// Returns the named sessions of a user.
    ///
    /// # Errors
    /// `Unkept`.
    pub async fn list_sessions(&self, user: u32) -> Result<BTreeMap<Name, Listed>, Refusal> {
        let store = self.shared.store().clone();
        let kept = match store {
            Some(store) => blocking(move || store.list(user)).await?,
            None => Vec::new(),
        };
        let mut listed: BTreeMap<_, _> = kept
            .into_iter()
            .map(|(name, summary)| {
                let shown = |path: &PathBuf| path.display().to_string();
                let of_file = Listed {
                    turns: summary.turns,
                    bytes: summary.bytes,
                    began: summary.began,
                    used: summary.used,
                    persistent: true,
                    holder: None,
                    error: summary.error,
                    damaged: summary.damaged.iter().map(shown).collect(),
                };
                (name, of_file)
            })
            .collect();
        let sessions = self.shared.sessions();
        let theirs = sessions.open.values();
        for session in theirs.filter(|session| session.client.user == user) {
            if let Some(named) = &session.named {
                let one = listed.entry(named.name.clone()).or_default();
                one.holder.clone_from(&named.holder);
                one.turns = session.turns();
            }
        }
        Ok(listed)
    }
}
