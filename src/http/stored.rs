//! Stored responses: each is a turn of a session of its user, which a later request continues, or branches.
//!
//! They are in memory: a restart of the daemon forgets them. A user has as many as its sessions and these limits allow; the
//! ones that were used least recently go first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use axum::body::Bytes;
use parking_lot::Mutex;

use crate::engine::SessionId;

/// The most responses of one user.
const RESPONSES: usize = 256;
/// The most bytes of the responses of one user.
const BYTES: usize = 8 << 20;

/// The responses of all users; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Stored(Arc<Mutex<HashMap<u32, Responses>>>);

/// The responses of one user; those that were used least recently are first.
type Responses = VecDeque<Response>;

/// A response.
#[derive(Clone, Debug)]
pub(super) struct Response {
    pub(super) id: String,
    pub(super) session: SessionId,
    /// The number of turns of the session up to it.
    pub(super) turns: u32,
    /// The instructions of its request, which its session began with.
    pub(super) instructions: Option<String>,
    /// Its JSON; empty until it is complete.
    pub(super) json: Bytes,
}

impl Stored {
    /// Returns a response of a user, which is then the last to go.
    pub(super) fn get(&self, user: u32, id: &str) -> Option<Response> {
        let mut users = self.0.lock();
        let responses = users.get_mut(&user)?;
        let at = responses.iter().position(|one| one.id == id)?;
        let response = responses.remove(at)?;
        responses.push_back(response.clone());
        Some(response)
    }

    /// Whether a session of a user has a response.
    pub(super) fn has(&self, user: u32, session: SessionId) -> bool {
        let users = self.0.lock();
        let responses = users.get(&user);
        responses.is_some_and(|responses| responses.iter().any(|one| one.session == session))
    }

    /// Adds a response. Returns the sessions that have none any more.
    pub(super) fn add(&self, user: u32, response: Response) -> Vec<SessionId> {
        let mut users = self.0.lock();
        let responses = users.entry(user).or_default();
        responses.push_back(response);
        shrink(responses)
    }

    /// Sets the JSON of a response. Returns the sessions that have none any more.
    pub(super) fn complete(&self, user: u32, id: &str, json: Bytes) -> Vec<SessionId> {
        let mut users = self.0.lock();
        let Some(responses) = users.get_mut(&user) else {
            return Vec::new();
        };
        if let Some(response) = responses.iter_mut().find(|one| one.id == id) {
            response.json = json;
        }
        shrink(responses)
    }

    /// Removes a response; `None` if there is none. Returns the sessions that have none any more.
    pub(super) fn remove(&self, user: u32, id: &str) -> Option<Vec<SessionId>> {
        let mut users = self.0.lock();
        let responses = users.get_mut(&user)?;
        let at = responses.iter().position(|one| one.id == id)?;
        let session = responses.remove(at)?.session;
        let is_used = responses.iter().any(|one| one.session == session);
        if responses.is_empty() {
            users.remove(&user);
        }
        Some((!is_used).then_some(session).into_iter().collect())
    }

    /// Removes all responses of that session of a user which was used least recently of those that may go. Returns it.
    pub(super) fn remove_oldest(
        &self,
        user: u32,
        may_go: impl Fn(SessionId) -> bool,
    ) -> Option<SessionId> {
        let mut users = self.0.lock();
        let responses = users.get_mut(&user)?;
        let mut last_uses: Vec<SessionId> = Vec::new();
        for response in responses.iter() {
            last_uses.retain(|session| *session != response.session);
            last_uses.push(response.session);
        }
        let oldest = last_uses.into_iter().find(|session| may_go(*session))?;
        responses.retain(|one| one.session != oldest);
        if responses.is_empty() {
            users.remove(&user);
        }
        Some(oldest)
    }
}

/// Removes the first responses until the others are within the limits. The last one always stays. Returns the sessions that
/// have none any more.
fn shrink(responses: &mut Responses) -> Vec<SessionId> {
    let mut unused = Vec::new();
    loop {
        let bytes: usize = responses.iter().map(|one| one.json.len()).sum();
        if responses.len() <= 1 || (responses.len() <= RESPONSES && bytes <= BYTES) {
            return unused;
        }
        let Some(gone) = responses.pop_front() else {
            return unused;
        };
        if responses.iter().all(|one| one.session != gone.session) {
            unused.push(gone.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(id: &str, session: u64, bytes: usize) -> Response {
        Response {
            id: id.to_owned(),
            session: SessionId(session),
            turns: 1,
            instructions: None,
            json: vec![b'x'; bytes].into(),
        }
    }

    #[test]
    fn a_response_is_known_to_its_user_alone() {
        let stored = Stored::default();
        stored.add(7, response("a", 1, 0));
        stored.add(7, response("b", 1, 0));
        assert!(stored.get(7, "a").is_some() && stored.get(8, "a").is_none());
        assert_eq!(stored.remove(8, "a"), None);
        assert_eq!(stored.remove(7, "a"), Some(Vec::new()), "another is left");
        assert_eq!(stored.remove(7, "b"), Some(vec![SessionId(1)]));
        assert!(stored.0.lock().is_empty());
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let stored = Stored::default();
        for (id, session) in [("a", 1), ("b", 2), ("c", 3)] {
            assert!(stored.add(7, response(id, session, 3 << 20)).len() <= 1);
        }
        // 9 MiB are too many.
        assert!(stored.get(7, "a").is_none());
        stored.get(7, "b").expect("it is there");
        let but = |session| session != SessionId(3);
        assert_eq!(stored.remove_oldest(7, but), Some(SessionId(2)));
        assert_eq!(stored.remove_oldest(7, but), None);
        assert_eq!(stored.remove_oldest(7, |_| true), Some(SessionId(3)));
        for number in 0..=RESPONSES {
            stored.add(7, response(&number.to_string(), 4, 0));
        }
        assert!(stored.get(7, "0").is_none() && stored.get(7, "1").is_some());
    }
}
