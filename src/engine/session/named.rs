//! Named sessions: they belong to a user, and at most one connection of that user holds each.
//!
//! Persistent ones outlive the daemon. Their files are written by the `session_store`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::persistent::{Named, SessionFile, blocking};
use super::sessions::{Lease, Session, SessionId, Sessions};
use crate::engine::caller::client::{Client, ConnectionName};
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::Refusal;
use crate::engine::intake::control::Control;
use crate::kv_store::{self, Place, Whose};
use crate::model::Message;
use crate::session_store::{Commits, Durability, Entry, Name, Quota, Store, StoreError};

/// A call to open a named session.
#[derive(Clone, Debug)]
pub struct Opening {
    pub client: Client,
    pub name: Name,
    /// Whether it is persistent; `None` is as it was made, and yes for a new one.
    pub persistent: Option<bool>,
    /// Whether it is taken from another holder.
    pub take: bool,
    /// The messages that a new session begins with. For an existing one these must be the same, or none.
    pub messages: Vec<Message>,
    /// Default options of its requests, which are added to earlier ones.
    pub options: Map<String, Value>,
}

/// A session that can be opened: all checks have passed, and nothing has changed. Until it is dropped, no other call of its
/// user opens or deletes a session.
#[derive(Debug)]
pub struct Openable {
    opening: Opening,
    /// `None` if the session is new.
    found: Option<Pinned>,
    options: Map<String, Value>,
    handle: Handle,
    naming: OwnedMutexGuard<()>,
}

/// An opened session. Until `naming` is dropped, no other call of its user opens or deletes one.
#[derive(Debug)]
pub struct Opened {
    pub id: SessionId,
    pub lease: Lease,
    pub options: Map<String, Value>,
    /// The lease that this one ended, and its holder.
    pub before: Option<(Lease, ConnectionName)>,
    pub naming: OwnedMutexGuard<()>,
}

/// Keeps a session in memory until it is dropped.
#[derive(Debug)]
struct Pinned {
    handle: Handle,
    id: SessionId,
    /// Whether it was loaded to be opened, and is closed again unless it is.
    loaded: bool,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut sessions = self.handle.shared.sessions();
        let session = sessions.open.get_mut(&self.id);
        let Some(named) = session.and_then(|one| one.named.as_mut()) else {
            return;
        };
        named.opening = false;
        if self.loaded && named.holder.is_none() {
            drop(sessions);
            self.handle.close_session(self.id);
        }
    }
}

/// Releases a session unless it is disarmed.
struct Releaser<'a> {
    handle: &'a Handle,
    lease: Lease,
    holder: &'a ConnectionName,
    armed: bool,
}

impl Drop for Releaser<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.handle.release_session(self.lease, self.holder);
        }
    }
}

impl Openable {
    /// Returns the default options that the session would have.
    #[must_use]
    pub fn options(&self) -> &Map<String, Value> {
        &self.options
    }

    /// Opens the session. Another connection that holds it loses it, and this waits for the end of that connection's request. On
    /// an error nothing has changed.
    ///
    /// # Errors
    /// `TooManySessions`, `UserSessions`, `Quota`, `Unkept`, `NotSupported`.
    pub async fn take(self) -> Result<Opened, Refusal> {
        let Self {
            opening,
            found,
            options,
            handle,
            naming,
        } = self;
        let client = &opening.client;
        let pinned = match found {
            Some(pinned) => pinned,
            None => handle.begin_named(&opening).await?,
        };
        let id = pinned.id;
        handle.keep_options(id, &options).await?;
        let (lease, before) = handle.shared.sessions().hand_over(id, client)?;
        let mut releaser = Releaser {
            handle: &handle,
            lease,
            holder: &client.name,
            armed: true,
        };
        drop(pinned);
        // The connection before may have a request.
        handle.idle_session(id).await;
        releaser.armed = false;
        drop(releaser);
        handle.publish_sessions();
        Ok(Opened {
            id,
            lease,
            options,
            before,
            naming,
        })
    }
}

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
    /// Sets where persistent sessions are stored. Open sessions stay where they are.
    pub fn set_store(&self, store: Arc<Store>) {
        *self.shared.store() = Some(store);
    }

    /// Sets where pages of persistent sessions are saved.
    pub fn set_pages(&self, pages: Arc<kv_store::Store>) {
        self.shared.set_pages(pages);
    }

    /// Sets how many pages are saved.
    pub fn keep_pages(&self, rules: kv_store::Rules) {
        if let Some(pages) = self.shared.pages() {
            pages.configure(rules);
        }
    }

    /// Sets how many pages of idle sessions, named or not, the host's memory holds.
    pub fn keep_in_host(&self, rules: kv_store::HostRules) {
        self.shared.set_host(rules);
        // The engine thread drops pages beyond that at once.
        self.queue.pages_moved();
    }

    /// Sets how durable turns are, and the quota of a user.
    pub fn keep_sessions(&self, durability: Durability, quota: Quota) {
        if let Some(store) = &*self.shared.store() {
            store.configure(durability, quota);
        }
    }

    /// Writes the index that makes the next start fast. Waits for the disk.
    pub fn finish_sessions(&self) {
        let store = self.shared.store().clone();
        if let Some(store) = store {
            store.finish();
        }
    }

    /// Returns figures of writing turns to the disk.
    #[must_use]
    pub fn commits(&self) -> Commits {
        let store = self.shared.store().clone();
        store.map_or_else(Commits::default, |store| store.commits())
    }

    /// Opens or makes a named session of a user.
    ///
    /// # Errors
    /// As `ask_named` and `Openable::take`.
    pub async fn open_named(&self, opening: Opening) -> Result<Opened, Refusal> {
        self.ask_named(opening).await?.take().await
    }

    /// Checks whether a named session of a user can be opened or made. Waits for the disk.
    ///
    /// # Errors
    /// `NotReady`, `SessionHeld`, `SessionDiffers`, `TooManySessions`, `UserSessions`, `PromptBytes`, `Quota`, `Unkept`, or
    /// `NotSupported` if there is no store for sessions.
    pub async fn ask_named(&self, opening: Opening) -> Result<Openable, Refusal> {
        self.accepting()?;
        if let Some(encoder) = self.shared.encoder().as_ref() {
            encoder.admit(&opening.messages)?;
        }
        let user = opening.client.user;
        let naming = self.shared.naming(user).lock_owned().await;
        let known = self.pin(&opening)?;
        let found = match known {
            Some(pinned) => Some(pinned),
            None => self.load_named(&opening).await?,
        };
        let options = match &found {
            Some(pinned) => self.options_of(pinned.id, &opening).await?,
            None => opening.options.clone(),
        };
        Ok(Openable {
            opening,
            found,
            options,
            handle: self.clone(),
            naming,
        })
    }

    /// Releases a session of a connection: its request is cancelled, and a session without a name ends. Returns whether the
    /// connection held it.
    #[allow(clippy::must_use_candidate)] // most callers ignore it
    pub fn release_session(&self, session: impl Into<Lease>, holder: &ConnectionName) -> bool {
        let lease = session.into();
        let id = lease.session;
        let most = self.limits().sessions;
        let mut sessions = self.shared.sessions();
        if sessions.lease(id).is_some_and(|of| !lease.is(of.number())) {
            // Another connection has taken it.
            return false;
        }
        let released = sessions.releases + 1;
        let Some(session) = sessions.open.get_mut(&id) else {
            return true;
        };
        let Some(named) = &mut session.named else {
            drop(sessions);
            self.close_session(id);
            return true;
        };
        if named.holder.as_ref() != Some(holder) {
            return false;
        }
        named.holder = None;
        named.released = released;
        let turn = session.turn;
        sessions.releases = released;
        let evicted = sessions.evict_oldest(most);
        drop(sessions);
        if let Some(ticket) = turn {
            self.cancel(ticket);
        }
        for session in evicted {
            self.queue.forget(session, true);
        }
        self.publish_sessions();
        true
    }

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

    /// Deletes a session that no connection holds.
    ///
    /// # Errors
    /// `SessionHeld`, `NoSession`, `Unkept`.
    pub async fn delete_session(&self, user: u32, name: Name) -> Result<(), Refusal> {
        let _naming = self.shared.naming(user).lock_owned().await;
        let known = self.shared.sessions().named(user, &name);
        let was_open = known.is_some();
        let place = Place {
            user,
            name: name.clone(),
        };
        if let Some(id) = known {
            if let Some(holder) = self.shared.sessions().holder(id) {
                return Err(held(&name, &holder));
            }
            self.idle_session(id).await;
            self.close_session(id);
        }
        let store = self.shared.store().clone();
        let deleted = match store {
            Some(store) => {
                let name = name.clone();
                blocking(move || store.delete(user, &name)).await?
            }
            None => false,
        };
        let pages = self.shared.pages();
        let pages = pages.filter(|pages| deleted || was_open || pages.keeps(&place));
        if !deleted && !was_open && pages.is_none() {
            // A name that never existed causes no further work.
            return Err(Refusal::NoSession(name.to_string()));
        }
        // Without a model there is no cache.
        if self.loaded().is_ok() {
            self.queue.control(Control::Erase(place.clone()));
        }
        if let Some(pages) = pages {
            let delete = move || {
                pages.delete(&place);
                Ok(())
            };
            blocking(delete).await?;
        }
        if deleted || was_open {
            Ok(())
        } else {
            Err(Refusal::NoSession(name.to_string()))
        }
    }

    /// Changes a session by something else than a turn, once that is on the disk. `entry` returns the change, if there is one.
    pub(crate) async fn change(
        &self,
        lease: Lease,
        entry: impl FnOnce(&Session) -> Result<Option<Entry>, Refusal>,
    ) -> Result<(), Refusal> {
        let id = lease.session;
        let (kept, entry) = {
            let mut sessions = self.without_prefill(id).await;
            let session = sessions.idle(lease)?;
            let Some(entry) = entry(session)? else {
                return Ok(());
            };
            let Some(kept) = session.file().cloned() else {
                // No request of the session begins before that.
                if let Some(keep) = session.apply(entry) {
                    self.queue.rewind(id, keep);
                }
                return Ok(());
            };
            // This prevents other changes meanwhile.
            session.turn = Some(NO_REQUEST);
            (kept, entry)
        };
        let (reply, result) = oneshot::channel();
        let (shared, queue) = (self.shared.clone(), self.queue.clone());
        kept.append(entry.clone(), move |kept| {
            let mut sessions = shared.sessions();
            let session = sessions.open.get_mut(&id);
            let session = session.filter(|_| kept.is_ok());
            if let Some(keep) = session.and_then(|session| session.apply(entry)) {
                queue.rewind(id, keep);
            }
            sessions.end_turn(id, None);
            drop(sessions);
            let _ = reply.send(kept);
        });
        let kept = result.await.unwrap_or(Err(StoreError::Ended));
        kept.map_err(Refusal::from)
    }

    /// Cancels a session's prefill ahead, and waits for its end.
    pub(crate) async fn stop_prefill(&self, id: SessionId) {
        // A request that began meanwhile must not be cancelled.
        self.end_turns(id, |sessions| sessions.prefills_ahead(id))
            .await;
    }

    /// Cancels a session's request, and waits for its end.
    async fn idle_session(&self, id: SessionId) {
        self.end_turns(id, |_| true).await;
    }

    /// Cancels a session's requests while `ends` is true, and waits for their end.
    async fn end_turns(&self, id: SessionId, ends: impl Fn(&Sessions) -> bool) {
        let ended = self.shared.sessions().ended.clone();
        loop {
            let end = ended.notified();
            tokio::pin!(end);
            // The end is noticed from here on.
            end.as_mut().enable();
            let turn = {
                let sessions = self.shared.sessions();
                let turn = sessions.open.get(&id).and_then(|one| one.turn);
                turn.filter(|_| ends(&sessions))
            };
            let Some(ticket) = turn else {
                return;
            };
            self.cancel(ticket);
            end.await;
        }
    }

    /// Returns a session in memory that may be opened, and keeps it there; `None` if there is none.
    fn pin(&self, opening: &Opening) -> Result<Option<Pinned>, Refusal> {
        let limits = self.limits();
        let user = opening.client.user;
        let mut sessions = self.shared.sessions();
        let Some(id) = sessions.named(user, &opening.name) else {
            sessions.admit(user, &limits)?;
            return Ok(None);
        };
        match sessions.holder(id) {
            Some(holder) if !opening.take => return Err(held(&opening.name, &holder)),
            // A held session counts already.
            Some(_) => {}
            None if sessions.file(id).is_none() => {}
            None => sessions.admit(user, &limits)?,
        }
        let session = sessions.open.get_mut(&id).ok_or(Refusal::SessionClosed)?;
        let named = session.named.as_ref().ok_or(Refusal::SessionClosed)?;
        let is_kept = named.file.is_some();
        if opening.persistent.is_some_and(|wanted| wanted != is_kept) {
            return Err(differs(&opening.name, "\"persistent\""));
        }
        if !opening.messages.is_empty() && session.beginning() != opening.messages {
            return Err(differs(&opening.name, "\"system\" or \"messages\""));
        }
        if let Some(named) = &mut session.named {
            named.opening = true;
        }
        Ok(Some(Pinned {
            handle: self.clone(),
            id,
            loaded: false,
        }))
    }

    /// Loads a session that may be opened from the disk; `None` if there is none.
    async fn load_named(&self, opening: &Opening) -> Result<Option<Pinned>, Refusal> {
        let Some(store) = self.shared.store().clone() else {
            return Ok(None);
        };
        let (user, name) = (opening.client.user, opening.name.clone());
        let reads = store.clone();
        let found = blocking(move || reads.open(user, &name)).await?;
        let Some((stored, past)) = found else {
            return Ok(None);
        };
        let named = Named {
            file: Some(SessionFile { store, stored }),
            options: past.options.clone(),
            ..named(opening)
        };
        let session = Session::resumed(opening.client.clone(), named, past);
        let id = self.shared.sessions().add(session);
        let pinned = self.pin(opening);
        let mut pinned = pinned.inspect_err(|_| self.close_session(id))?;
        if let Some(pinned) = &mut pinned {
            pinned.loaded = true;
        }
        Ok(pinned)
    }

    /// Returns the default options that a session would have.
    async fn options_of(
        &self,
        id: SessionId,
        opening: &Opening,
    ) -> Result<Map<String, Value>, Refusal> {
        let (before, file) = {
            let sessions = self.shared.sessions();
            (sessions.options(id), sessions.file(id))
        };
        let mut options = before.clone();
        options.extend(opening.options.clone());
        if options != before
            && let Some(file) = file
        {
            file.admit(written(&options)).await?;
        }
        Ok(options)
    }

    /// Sets the default options of a session, once they are on the disk. Its active request continues.
    async fn keep_options(
        &self,
        id: SessionId,
        options: &Map<String, Value>,
    ) -> Result<(), Refusal> {
        let (before, file) = {
            let sessions = self.shared.sessions();
            (sessions.options(id), sessions.file(id))
        };
        if *options == before {
            return Ok(());
        }
        let (options, shared) = (options.clone(), self.shared.clone());
        let entry = Entry::Options { options };
        let apply = move |entry| {
            let mut sessions = shared.sessions();
            if let Some(session) = sessions.open.get_mut(&id) {
                session.apply(entry);
            }
        };
        let Some(file) = file else {
            apply(entry);
            return Ok(());
        };
        let (reply, result) = oneshot::channel();
        file.append(entry.clone(), move |kept| {
            if kept.is_ok() {
                apply(entry);
            }
            let _ = reply.send(kept);
        });
        let kept = result.await.unwrap_or(Err(StoreError::Ended));
        kept.map_err(Refusal::from)
    }

    /// Makes a session without a holder.
    async fn begin_named(&self, opening: &Opening) -> Result<Pinned, Refusal> {
        let limits = self.limits();
        let (user, name) = (opening.client.user, opening.name.clone());
        self.shared.sessions().admit(user, &limits)?;
        let store = self.shared.store().clone();
        let file = match store {
            Some(store) if opening.persistent.unwrap_or(true) => {
                let (messages, options) = (opening.messages.clone(), opening.options.clone());
                let makes = store.clone();
                let made = blocking(move || makes.create(user, &name, messages, options));
                let stored = made.await?;
                Some(SessionFile { store, stored })
            }
            None if opening.persistent.unwrap_or(true) => {
                return Err(Refusal::NotSupported(
                    "this daemon keeps no sessions on disk; give the option \"persistent\" as false".into(),
                ));
            }
            _ => None,
        };
        let named = Named {
            file,
            opening: true,
            ..named(opening)
        };
        let (client, messages) = (opening.client.clone(), opening.messages.clone());
        let session = Session::new(client, Some(named), messages);
        let id = self.shared.sessions().add(session);
        Ok(Pinned {
            handle: self.clone(),
            id,
            loaded: true,
        })
    }
}

/// Returns the name of a session without a holder and without a file.
fn named(opening: &Opening) -> Named {
    Named {
        name: opening.name.clone(),
        file: None,
        holder: None,
        options: opening.options.clone(),
        released: 0,
        opening: false,
    }
}

/// Returns the bytes of options in a file.
fn written(options: &Map<String, Value>) -> usize {
    serde_json::to_vec(options).map_or(0, |text| text.len())
}

/// The request id of a session that is busy without a request.
const NO_REQUEST: u64 = 0;

impl Session {
    pub(crate) fn file(&self) -> Option<&SessionFile> {
        self.named.as_ref()?.file.as_ref()
    }

    /// Applies a change that is not a turn. Returns the number of tokens that are left, if it is a rewind.
    fn apply(&mut self, entry: Entry) -> Option<usize> {
        match entry {
            Entry::Rewound { turns } => return self.rewind(turns),
            Entry::Appended { messages } => self.append(messages),
            Entry::Options { options } => {
                if let Some(named) = &mut self.named {
                    named.options = options;
                }
            }
            Entry::Opened { .. } | Entry::Turn(_) => {}
        }
        None
    }
}

impl Sessions {
    pub(crate) fn named(&self, user: u32, name: &Name) -> Option<SessionId> {
        let is_it = |session: &Session| {
            let named = session.named.as_ref();
            session.client.user == user && named.is_some_and(|named| named.name == *name)
        };
        let mut open = self.open.iter();
        open.find(|(_, session)| is_it(session)).map(|(id, _)| *id)
    }

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

    /// Returns the default options of a named session.
    fn options(&self, id: SessionId) -> Map<String, Value> {
        let named = self.open.get(&id).and_then(|one| one.named.as_ref());
        named.map_or_else(Map::new, |named| named.options.clone())
    }

    fn holder(&self, id: SessionId) -> Option<ConnectionName> {
        self.open.get(&id)?.named.as_ref()?.holder.clone()
    }

    /// Evicts idle persistent sessions from memory, those released first, so that at most `most` stay.
    fn evict_oldest(&mut self, most: usize) -> Vec<SessionId> {
        let idle = self.open.iter().filter_map(|(id, session)| {
            let named = session
                .named
                .as_ref()
                .filter(|named| named.is_evictable())?;
            session.turn.is_none().then_some((named.released, *id))
        });
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable();
        idle.truncate(idle.len().saturating_sub(most));
        for (_, id) in &idle {
            self.open.remove(id);
        }
        idle.into_iter().map(|(_, id)| id).collect()
    }
}

fn held(name: &Name, holder: &ConnectionName) -> Refusal {
    Refusal::SessionHeld {
        name: name.to_string(),
        holder: holder.to_string(),
    }
}

fn differs(name: &Name, what: &'static str) -> Refusal {
    Refusal::SessionDiffers {
        name: name.to_string(),
        what,
    }
}
