//! Who owns the saved pages of a session, and whose pages it can begin with.
//!
//! It names owners. Pages are read and written elsewhere.

use super::sessions::{SessionId, Sessions};
use crate::kv_store::{Place, Whose};

impl Sessions {
    /// Returns where the pages of a session are saved; `None` if it is not persistent, or has ended.
    pub(crate) fn place(&self, id: SessionId) -> Option<Place> {
        let session = self.open.get(&id)?;
        let named = session
            .named
            .as_ref()
            .filter(|named| named.file.is_some())?;
        Some(Place {
            user: session.client.user,
            name: named.name.clone(),
        })
    }

    /// Returns the owner of a session's pages, and its user; `None` if it has ended.
    pub(crate) fn pages_owner(&self, id: SessionId) -> Option<(Whose, u32)> {
        let user = self.open.get(&id)?.client.user;
        let named = self.place(id).map(Whose::Named);
        Some((named.unwrap_or(Whose::Open(id.0)), user))
    }

    /// Returns the owners of the pages that a session can begin with, best first: itself, then the session that it was branched
    /// from.
    pub(crate) fn sources(&self, id: SessionId) -> Vec<Whose> {
        let parent = self.open.get(&id).and_then(|session| session.parent);
        let open = [Some(id), parent].into_iter().flatten();
        let open = open
            .filter_map(|id| self.pages_owner(id))
            .map(|(whose, _)| whose);
        open.chain(self.origin(id).map(Whose::Named)).collect()
    }

    /// Returns where the pages of a session are saved, or else those of the session that it was branched from.
    pub(crate) fn origin(&self, id: SessionId) -> Option<Place> {
        let origin = || self.open.get(&id)?.origin.clone();
        self.place(id).or_else(origin)
    }
}
