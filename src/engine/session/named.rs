//! Named sessions: they belong to a user, and at most one connection of that user holds each.
//!
//! Persistent ones outlive the daemon. Their files are written by the `session_store`.

use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::persistent::{Named, SessionFile, blocking};
use super::sessions::{Lease, Session, SessionId, Sessions};
use crate::engine::caller::client::{Client, ConnectionName};
use crate::engine::caller::handle::Handle;
use crate::engine::caller::request::Refusal;
use crate::engine::intake::control::Control;
use crate::kv_store::Place;
use crate::model::Message;
use crate::session_store::{Entry, Name, StoreError};

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
        let (lease, before) = {
            let mut sessions = handle.shared.sessions();
            let handed = sessions.hand_over(id, client)?;
            if let Some(session) = sessions.open.get_mut(&id) {
                session.show_again(&opening.messages);
            }
            handed
        };
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

impl Handle {
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
        let begun = session.beginning();
        let is_same = begun.len() == opening.messages.len()
            && (begun.iter().zip(&opening.messages)).all(|(one, other)| one.is_like(other));
        if !opening.messages.is_empty() && !is_same {
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
        let Some((stored, mut past)) = found else {
            return Ok(None);
        };
        for message in past.kept() {
            self.count_images(user, message);
        }
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

    /// Counts the images of a message that was read from a file.
    fn count_images(&self, user: u32, message: &mut Message) {
        for image in &mut message.images {
            // Nothing else has it.
            let read = image.image.take().and_then(Arc::into_inner);
            image.image = read.map(|read| {
                let bytes = read.source().bytes.len();
                Arc::new(read.counted(self.shared.image_quota.count(user, bytes)))
            });
        }
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
                let (mut messages, options) = (opening.messages.clone(), opening.options.clone());
                if !keeps_pictures(&options) {
                    messages.iter_mut().for_each(Message::lose_images);
                }
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

/// The option of a session whose file has the bytes of its images.
const KEEP_PICTURES: &str = "keep_pictures";

fn keeps_pictures(options: &Map<String, Value>) -> bool {
    options.get(KEEP_PICTURES) == Some(&Value::Bool(true))
}

/// Returns the bytes of options in a file.
fn written(options: &Map<String, Value>) -> usize {
    serde_json::to_vec(options).map_or(0, |text| text.len())
}

impl Session {
    pub(crate) fn file(&self) -> Option<&SessionFile> {
        self.named.as_ref()?.file.as_ref()
    }

    /// Whether its file has the bytes of its images.
    pub(super) fn keeps_pictures(&self) -> bool {
        let named = self.named.as_ref();
        named.is_some_and(|named| keeps_pictures(&named.options))
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

    /// Returns the default options of a named session.
    fn options(&self, id: SessionId) -> Map<String, Value> {
        let named = self.open.get(&id).and_then(|one| one.named.as_ref());
        named.map_or_else(Map::new, |named| named.options.clone())
    }

    fn holder(&self, id: SessionId) -> Option<ConnectionName> {
        self.open.get(&id)?.named.as_ref()?.holder.clone()
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
