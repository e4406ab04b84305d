//! A request that stores its response, or continues a stored one: a turn of a session that `stored` knows.
//!
//! The newest response of a session is continued there. An earlier one is branched, and so is one whose next response is not
//! stored.

use super::error::Error;
use super::shared::Shared;
use super::stored::{Response, Stored};
use super::terms;
use crate::engine::{Client, FinishReason, Handle, Outcome, Refusal, Role, SessionId};
use crate::front::{self, Front, GivenMessages, shortened};

/// The field that names a stored response.
const PREVIOUS: &str = "previous_response_id";

/// What a request says about stored responses.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// Whether the response is stored.
    pub(super) store: bool,
    /// The id of the response that it continues.
    pub(super) previous: Option<String>,
    /// The instructions, which are the first message.
    pub(super) instructions: Option<String>,
}

impl Chain {
    /// Whether the request has a session.
    pub(super) fn has_session(&self) -> bool {
        self.store || self.previous.is_some()
    }
}

/// The turn of a request. Dropping it before its end leaves the session as it was, or closes one that was opened for it.
#[derive(Debug)]
pub(super) struct StoredTurn {
    engine: Handle,
    stored: Stored,
    pub(super) client: Client,
    pub(super) session: SessionId,
    /// The turns before it.
    turns: u32,
    /// The response that it will be, if it is stored.
    response: Option<(String, Option<String>)>,
    /// Whether the session ends with the request.
    is_own: bool,
}

impl Drop for StoredTurn {
    fn drop(&mut self) {
        // The responses of a session that it continues may have been deleted meanwhile.
        if self.is_own || !self.stored.has(self.client.user, self.session) {
            self.engine.close_session(self.session);
        }
    }
}

impl StoredTurn {
    /// Opens the session of a request whose response gets this `id`. Returns the turn and its messages.
    ///
    /// # Errors
    /// If the response before is unknown or busy, or the user can have no further session.
    pub(super) async fn open(
        (front, stored): (&Front, &Stored),
        client: &Client,
        id: &str,
        chain: &Chain,
        said: GivenMessages,
    ) -> Result<(Self, GivenMessages), Error> {
        let opener = Opener {
            front,
            stored,
            // Each request is a caller of its own: it must not end with the connection of an earlier one.
            client: Client {
                name: format!("{}/{id}", client.name).into(),
                user: client.user,
            },
            response: chain
                .store
                .then(|| (id.to_owned(), chain.instructions.clone())),
        };
        match &chain.previous {
            None => opener.begin(said).await,
            Some(previous) => opener.follow(previous, chain, said).await,
        }
    }

    /// Ends the turn: stores the response, if it has an answer.
    pub(super) fn end(mut self, outcome: &Outcome) {
        let has_failed = matches!(
            outcome.reason,
            FinishReason::Error | FinishReason::Cancelled
        );
        let status = self.engine.session(self.session);
        let turns = status.map_or(0, |status| status.turns);
        let Some((id, instructions)) = self.response.take() else {
            return;
        };
        if has_failed || turns <= self.turns {
            return;
        }
        self.is_own = false;
        let response = Response {
            id,
            session: self.session,
            turns,
            instructions,
            json: axum::body::Bytes::new(),
        };
        for unused in self.stored.add(self.client.user, response) {
            close(&self.engine, unused);
        }
    }
}

/// Keeps the JSON of a stored response.
#[derive(Debug)]
pub(super) struct Keeper {
    engine: Handle,
    stored: Stored,
    user: u32,
}

impl Keeper {
    pub(super) fn new(shared: &Shared, user: u32) -> Self {
        Self {
            engine: shared.front.engine().clone(),
            stored: shared.stored.clone(),
            user,
        }
    }

    /// Keeps the JSON of the response with this id, if it is stored.
    pub(super) fn keep(&self, id: &str, json: Vec<u8>) {
        for unused in self.stored.complete(self.user, id, json.into()) {
            close(&self.engine, unused);
        }
    }
}

/// Opens sessions for one request.
struct Opener<'a> {
    front: &'a Front,
    stored: &'a Stored,
    client: Client,
    response: Option<(String, Option<String>)>,
}

impl Opener<'_> {
    fn turn(self, session: SessionId, turns: u32, is_own: bool) -> StoredTurn {
        StoredTurn {
            engine: self.front.engine().clone(),
            stored: self.stored.clone(),
            client: self.client,
            session,
            turns,
            response: self.response,
            is_own,
        }
    }

    /// Opens a session that begins with all messages up to the last answer among them, or with those by the system.
    async fn begin(self, said: GivenMessages) -> Result<(StoredTurn, GivenMessages), Error> {
        let messages = &said.messages;
        let answer = messages.iter().rposition(|one| one.role == Role::Assistant);
        let system = messages.iter().take_while(|one| one.role == Role::System);
        let first = answer.map_or_else(|| system.count(), |at| at + 1);
        let (beginning, said) = split(said, first);
        let opened = self.front.open_images(&self.client, beginning).await;
        let beginning = opened.map_err(|error| Error::of_front(error, &terms::RESPONSES, &[]))?;
        let engine = self.front.engine();
        let session = loop {
            match engine.open_session(self.client.clone(), beginning.clone()) {
                Ok(session) => break session,
                Err(refusal) => self.make_room(refusal, None)?,
            }
        };
        Ok((self.turn(session, 0, true), said))
    }

    /// Continues or branches the session of a stored response.
    async fn follow(
        self,
        previous: &str,
        chain: &Chain,
        said: GivenMessages,
    ) -> Result<(StoredTurn, GivenMessages), Error> {
        let user = self.client.user;
        let unknown = || unknown(previous, Some(PREVIOUS));
        let before = self.stored.get(user, previous).ok_or_else(unknown)?;
        if before.instructions != chain.instructions {
            let why = format!(
                "instructions differ from those of {PREVIOUS}; give the same instructions, or leave out {PREVIOUS} and send the earlier items in input"
            );
            return Err(Error::invalid(Some("instructions"), why).with_code("invalid_value"));
        }
        // The session has the instructions.
        let (_, said) = split(said, usize::from(chain.instructions.is_some()));
        let engine = self.front.engine().clone();
        let status = engine.session(before.session).ok_or_else(unknown)?;
        if chain.store && status.turns == before.turns {
            return Ok((self.turn(before.session, before.turns, false), said));
        }
        let session = loop {
            match engine.branch(before.session, self.client.clone()).await {
                Ok(session) => break session,
                Err(Refusal::SessionClosed) => return Err(unknown()),
                Err(refusal) => self.make_room(refusal, Some(before.session))?,
            }
        };
        let turn = self.turn(session, before.turns, true);
        let has = engine.session(session).map_or(0, |status| status.turns);
        let rewound = engine
            .rewind(session, has.saturating_sub(before.turns))
            .await;
        rewound.map_err(|refusal| of_session(front::Error::from(refusal).into()))?;
        Ok((turn, said))
    }

    /// Closes the session of the user whose stored responses were used least recently, if sessions are used up. `but` stays.
    ///
    /// # Errors
    /// The refusal, if no session can be closed, or another limit is reached.
    fn make_room(&self, refusal: Refusal, but: Option<SessionId>) -> Result<(), Error> {
        let engine = self.front.engine();
        let is_about_sessions = matches!(
            refusal,
            Refusal::UserSessions { .. } | Refusal::TooManySessions(_)
        );
        let may_go =
            |session| is_about_sessions && Some(session) != but && is_idle(engine, session);
        match self.stored.remove_oldest(self.client.user, may_go) {
            Some(session) => {
                engine.close_session(session);
                Ok(())
            }
            None => Err(of_session(self.front.refused(&self.client, refusal).into())),
        }
    }
}

/// Closes a session without responses. One that answers is closed after that.
pub(super) fn close(engine: &Handle, session: SessionId) {
    if is_idle(engine, session) {
        engine.close_session(session);
    }
}

fn is_idle(engine: &Handle, session: SessionId) -> bool {
    let status = engine.session(session);
    !status.is_some_and(|status| status.busy)
}

/// Returns an error of a session in the terms of a request that names a response.
pub(super) fn of_session(mut error: Error) -> Error {
    if error.param.as_deref() == Some("ganglion.session") {
        error.param = Some(PREVIOUS.to_owned());
    }
    error
}

/// Returns the error of an id that is not known to its user.
pub(super) fn unknown(id: &str, param: Option<&str>) -> Error {
    let id = shortened(id);
    let why = format!(
        "there is no response {id:?} of this user; it was not stored, was deleted, or is gone since the daemon started or \
         other responses were stored"
    );
    Error {
        status: axum::http::StatusCode::NOT_FOUND,
        ..Error::invalid(param, why).with_code("response_not_found")
    }
}

/// Splits messages after the first ones.
fn split(said: GivenMessages, first: usize) -> (GivenMessages, GivenMessages) {
    let GivenMessages {
        mut messages,
        images,
    } = said;
    let rest = messages.split_off(first.min(messages.len()));
    let (before, after) = images.into_iter().partition(|image| image.message < first);
    let mut rest = GivenMessages {
        messages: rest,
        images: after,
    };
    for image in &mut rest.images {
        image.message -= first;
    }
    let before = GivenMessages {
        messages,
        images: before,
    };
    (before, rest)
}
