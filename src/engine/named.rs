//! Sessions with a name: they belong to a user, and one connection of that user holds each at a time. Those that are kept
//! on disk outlive all of it; what is said in them is the `session_store`'s.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::control::Control;
use super::kept::{Kept, Named, blocking};
use super::session::{Lease, Session, Sessions};
use super::{Client, ConnectionName, Handle, Message, Refusal, SessionId};
use crate::kv_store::{self, Place, Whose};
use crate::session_store::{Commits, Durability, Entry, Name, Quota, Store, StoreError};

/// What is asked of a session with a name.
#[derive(Clone, Debug)]
pub struct Opening {
    pub client: Client,
    pub name: Name,
    /// Whether it is kept on disk; `None`: as it is, or else yes.
    pub persistent: Option<bool>,
    /// Whether it is taken from whoever holds it.
    pub take: bool,
    /// What it begins with. Of a session that is there this is what it has begun with, or nothing.
    pub messages: Vec<Message>,
    /// What its turns start from, over what was given before.
    pub options: Map<String, Value>,
}

/// A session that can be opened: everything that could refuse it was asked, and nothing has changed. Until it is dropped no
/// other call of its user opens or deletes a session.
#[derive(Debug)]
pub struct Asked {
    opening: Opening,
    /// `None` where the session is to be made.
    found: Option<Pinned>,
    options: Map<String, Value>,
    handle: Handle,
    naming: OwnedMutexGuard<()>,
}

/// A session that is held from now on. Until `naming` is dropped no other call of its user opens or deletes one.
#[derive(Debug)]
pub struct Opened {
    pub id: SessionId,
    pub lease: Lease,
    pub options: Map<String, Value>,
    /// The lease that this one has ended, and its holder.
    pub before: Option<(Lease, ConnectionName)>,
    pub naming: OwnedMutexGuard<()>,
}

/// A session that stays in memory until this is dropped.
#[derive(Debug)]
struct Pinned {
    handle: Handle,
    id: SessionId,
    /// Whether it was read from the disk to be opened, and goes again unless it is.
    loaded: bool,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut sessions = self.handle.shared.sessions();
        let session = sessions.open.get_mut(&self.id);
        let Some(named) = session.and_then(|one| one.named.as_mut()) else {
            return;
        };
        named.asked = false;
        if self.loaded && named.holder.is_none() {
            drop(sessions);
            self.handle.close_session(self.id);
        }
    }
}

/// Lets go of a session unless it is disarmed.
struct LetGo<'a> {
    handle: &'a Handle,
    lease: Lease,
    holder: &'a ConnectionName,
    armed: bool,
}

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.handle.let_go(self.lease, self.holder);
        }
    }
}

impl Asked {
    /// What the turns of the session would start from.
    #[must_use]
    pub fn options(&self) -> &Map<String, Value> {
        &self.options
    }

    /// Opens the session. Another connection that holds it loses it, and the end of that connection's turn is waited for. On an
    /// error nothing has changed.
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
        let mut let_go = LetGo {
            handle: &handle,
            lease,
            holder: &client.name,
            armed: true,
        };
        drop(pinned);
        // Whatever the connection before had begun.
        handle.idle_session(id).await;
        let_go.armed = false;
        drop(let_go);
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

/// What a user is told of one of its sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    pub turns: u32,
    /// Its file has so many.
    pub bytes: u64,
    /// Seconds since 1970; 0 where nobody knows.
    pub began: u64,
    /// When its last turn ended.
    pub used: u64,
    pub persistent: bool,
    /// The connection that uses it.
    pub holder: Option<ConnectionName>,
    /// Why it cannot be opened.
    pub error: Option<String>,
    /// Files of it that something had changed, and that nobody reads.
    pub damaged: Vec<String>,
}

impl Listed {
    /// Bytes of the names of its damaged files.
    #[must_use]
    pub fn damaged_bytes(&self) -> usize {
        self.damaged.iter().map(String::len).sum()
    }
}

impl Handle {
    /// Where sessions are kept from now on; those that are open stay where they are.
    pub fn set_store(&self, store: Arc<Store>) {
        *self.shared.store() = Some(store);
    }

    /// Where what was computed of those is kept from now on.
    pub fn set_pages(&self, pages: Arc<kv_store::Store>) {
        self.shared.keep_pages(pages);
    }

    /// How much of that is kept, from now on.
    pub fn keep_pages(&self, rules: kv_store::Rules) {
        if let Some(pages) = self.shared.pages() {
            pages.configure(rules);
        }
    }

    /// How much of what was computed of sessions, with a name or without, is kept in the host's memory, from now on.
    pub fn keep_in_host(&self, rules: kv_store::HostRules) {
        self.shared.keep_in_host(rules);
        // What is kept beyond that goes at once.
        self.queue.moved();
    }

    /// How durable turns are, and what one user may keep, from now on.
    pub fn keep_sessions(&self, durability: Durability, quota: Quota) {
        if let Some(store) = &*self.shared.store() {
            store.configure(durability, quota);
        }
    }

    /// Writes what makes the next start quick. Waits for the disk.
    pub fn finish_sessions(&self) {
        let store = self.shared.store().clone();
        if let Some(store) = store {
            store.finish();
        }
    }

    /// What it takes to have turns on the disk.
    #[must_use]
    pub fn commits(&self) -> Commits {
        let store = self.shared.store().clone();
        store.map_or_else(Commits::default, |store| store.commits())
    }

    /// Opens a session of a user by its name, or makes it, as `ask_named` and `Asked::take` do.
    ///
    /// # Errors
    /// As those.
    pub async fn open_named(&self, opening: Opening) -> Result<Opened, Refusal> {
        self.ask_named(opening).await?.take().await
    }

    /// Finds whether a session of a user can be opened by its name, or made. Waits for the disk.
    ///
    /// # Errors
    /// `NotReady`, `SessionHeld`, `SessionDiffers`, `TooManySessions`, `UserSessions`, `PromptBytes`, `Quota`, `Unkept`, or
    /// `NotSupported` where there is no place for sessions.
    pub async fn ask_named(&self, opening: Opening) -> Result<Asked, Refusal> {
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
        Ok(Asked {
            opening,
            found,
            options,
            handle: self.clone(),
            naming,
        })
    }

    /// A connection uses a session no more: one without a name ends, and so does the turn of any. Tells whether the session
    /// was that connection's.
    #[allow(clippy::must_use_candidate)] // most callers have nothing to do with it
    pub fn let_go(&self, session: impl Into<Lease>, holder: &ConnectionName) -> bool {
        let lease = session.into();
        let id = lease.session;
        let most = self.limits().sessions;
        let mut sessions = self.shared.sessions();
        if sessions.lease(id).is_some_and(|of| !lease.is(of.number())) {
            // Another connection has taken it.
            return false;
        }
        let let_go = sessions.let_go + 1;
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
        named.let_go = let_go;
        let turn = session.turn;
        sessions.let_go = let_go;
        let forgotten = sessions.forget_oldest(most);
        drop(sessions);
        if let Some(ticket) = turn {
            self.cancel(ticket);
        }
        for session in forgotten {
            self.queue.forget(session, true);
        }
        self.publish_sessions();
        true
    }

    /// The sessions with a name of a user.
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

    /// Deletes a session that nobody holds.
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
            // Whoever tells the names of sessions that never were gives nobody anything to do.
            return Err(Refusal::NoSession(name.to_string()));
        }
        // Without a model nothing is in memory.
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

    /// Has something else than a turn happen to a session, once that is kept. `entry` says what, if there is anything to do.
    pub(super) async fn change(
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
                // No turn of it begins before that.
                if let Some(keep) = session.follow(entry) {
                    self.queue.rewind(id, keep);
                }
                return Ok(());
            };
            // Nothing else changes it meanwhile.
            session.turn = Some(NO_REQUEST);
            (kept, entry)
        };
        let (told, result) = oneshot::channel();
        let (shared, queue) = (self.shared.clone(), self.queue.clone());
        kept.append(entry.clone(), move |kept| {
            let mut sessions = shared.sessions();
            let session = sessions.open.get_mut(&id);
            let session = session.filter(|_| kept.is_ok());
            if let Some(keep) = session.and_then(|session| session.follow(entry)) {
                queue.rewind(id, keep);
            }
            sessions.end_turn(id, None);
            drop(sessions);
            let _ = told.send(kept);
        });
        let kept = result.await.unwrap_or(Err(StoreError::Ended));
        kept.map_err(Refusal::from)
    }

    /// Returns when a session does not read ahead any more.
    pub(super) async fn stop_warming(&self, id: SessionId) {
        // A turn that somebody else has begun meanwhile is not this call's to cancel.
        self.end_turns(id, |sessions| sessions.warms(id)).await;
    }

    /// Returns when a session has no turn, and cancels one that it has.
    async fn idle_session(&self, id: SessionId) {
        self.end_turns(id, |_| true).await;
    }

    /// The same of turns that are to end.
    async fn end_turns(&self, id: SessionId, ends: impl Fn(&Sessions) -> bool) {
        let ended = self.shared.sessions().ended.clone();
        loop {
            let end = ended.notified();
            tokio::pin!(end);
            // From here on it is noticed.
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

    /// Finds a session in memory that may be opened, and keeps it there.
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
            // It counts already, and goes on to.
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
            named.asked = true;
        }
        Ok(Some(Pinned {
            handle: self.clone(),
            id,
            loaded: false,
        }))
    }

    /// Reads a session from the disk that may be opened; `None` if there is none.
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
            file: Some(Kept { store, stored }),
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

    /// What the turns of a session would start from.
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

    /// Has the turns of a session start from this, once that is kept. One that is being answered goes on.
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
        let follow = move |entry| {
            let mut sessions = shared.sessions();
            if let Some(session) = sessions.open.get_mut(&id) {
                session.follow(entry);
            }
        };
        let Some(file) = file else {
            follow(entry);
            return Ok(());
        };
        let (told, result) = oneshot::channel();
        file.append(entry.clone(), move |kept| {
            if kept.is_ok() {
                follow(entry);
            }
            let _ = told.send(kept);
        });
        let kept = result.await.unwrap_or(Err(StoreError::Ended));
        kept.map_err(Refusal::from)
    }

    /// Makes a session, which nobody holds yet.
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
                Some(Kept { store, stored })
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
            asked: true,
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

/// What is known of a session that nobody holds, and that is kept nowhere yet.
fn named(opening: &Opening) -> Named {
    Named {
        name: opening.name.clone(),
        file: None,
        holder: None,
        options: opening.options.clone(),
        let_go: 0,
        asked: false,
    }
}

/// Bytes of options where they are kept.
fn written(options: &Map<String, Value>) -> usize {
    serde_json::to_vec(options).map_or(0, |text| text.len())
}

/// The ticket of what makes a session busy without being a request.
const NO_REQUEST: u64 = 0;

impl Session {
    pub(super) fn file(&self) -> Option<&Kept> {
        self.named.as_ref()?.file.as_ref()
    }

    /// Something else than a turn happens to it; tells how many tokens are left of it, if it takes something back.
    fn follow(&mut self, entry: Entry) -> Option<usize> {
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
    pub(super) fn named(&self, user: u32, name: &Name) -> Option<SessionId> {
        let is_it = |session: &Session| {
            let named = session.named.as_ref();
            session.client.user == user && named.is_some_and(|named| named.name == *name)
        };
        let mut open = self.open.iter();
        open.find(|(_, session)| is_it(session)).map(|(id, _)| *id)
    }

    /// Where what was computed of a session is kept; `None` of one that ends with the daemon, or has ended.
    pub(super) fn place(&self, id: SessionId) -> Option<Place> {
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

    /// Whose pages those of a session are, and which user's that is; `None` of one that has ended.
    pub(super) fn whose(&self, id: SessionId) -> Option<(Whose, u32)> {
        let user = self.open.get(&id)?.client.user;
        let named = self.place(id).map(Whose::Named);
        Some((named.unwrap_or(Whose::Open(id.0)), user))
    }

    /// Whose pages a session may begin with: its own, or those of the session which it was branched from, with a name or without.
    pub(super) fn sources(&self, id: SessionId) -> Vec<Whose> {
        let parent = self.open.get(&id).and_then(|session| session.parent);
        let open = [Some(id), parent].into_iter().flatten();
        let open = open.filter_map(|id| self.whose(id)).map(|(whose, _)| whose);
        open.chain(self.origin(id).map(Whose::Named)).collect()
    }

    /// Where what was computed of a session is kept, or else of the one which it was branched from.
    pub(super) fn origin(&self, id: SessionId) -> Option<Place> {
        let origin = || self.open.get(&id)?.origin.clone();
        self.place(id).or_else(origin)
    }

    /// What the turns of a session with a name start from.
    fn options(&self, id: SessionId) -> Map<String, Value> {
        let named = self.open.get(&id).and_then(|one| one.named.as_ref());
        named.map_or_else(Map::new, |named| named.options.clone())
    }

    fn holder(&self, id: SessionId) -> Option<ConnectionName> {
        self.open.get(&id)?.named.as_ref()?.holder.clone()
    }

    /// Forgets sessions that only rest in memory, so that at most so many do: those first that have rested longest.
    fn forget_oldest(&mut self, most: usize) -> Vec<SessionId> {
        let resting = self.open.iter().filter_map(|(id, session)| {
            let named = session.named.as_ref().filter(|named| named.rests())?;
            session.turn.is_none().then_some((named.let_go, *id))
        });
        let mut resting: Vec<_> = resting.collect();
        resting.sort_unstable();
        resting.truncate(resting.len().saturating_sub(most));
        for (_, id) in &resting {
            self.open.remove(id);
        }
        resting.into_iter().map(|(_, id)| id).collect()
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
