//! All sessions on disk: a folder for each user id with a file for each session. Work for one user never looks into
//! another user's folder.
//!
//! A user's folder is read at the first access of that user. All methods except `append` wait for the disk.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::commit::{Commits, Committer, Durability, SharedLog, lock};
use super::entry::Entry;
use super::error::StoreError;
use super::facts::{Change, Facts, Session, Summary};
use super::folder::{Folder, Place};
use super::index::Index;
use super::log::Log;
use super::name::Name;
use super::past::Past;
use crate::files::Files;
use crate::model::Message;

/// The limits of one user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub sessions: usize,
    /// Bytes of all files of the user.
    pub bytes: u64,
}

/// The number of changed sessions of a user at which the index is written again; a start reads as many files without an
/// index.
const UNINDEXED: usize = 64;
/// For users with many sessions, the index is written when this fraction has changed (one of `INDEXED`), because
/// writing it costs more.
const INDEXED: usize = 8;
/// The most bytes of a turn: a file may exceed its user's limit by one turn.
const LONGEST_TURN: u64 = 16 << 20;

/// The sessions of all users.
#[derive(Debug)]
pub struct Store {
    files: Arc<dyn Files>,
    root: PathBuf,
    quota: Mutex<Quota>,
    committer: Committer,
    users: Mutex<HashMap<u32, Arc<Mutex<User>>>>,
}

/// The sessions of a user; `None` until the folder has been read.
#[derive(Debug, Default)]
struct User {
    folder: Option<Folder>,
}

/// An open session.
#[derive(Clone, Debug)]
pub struct Stored {
    user: u32,
    log: SharedLog,
    facts: Facts,
}

impl Store {
    /// Opens the store below `root`, which is made with the first session.
    pub fn new(
        files: Arc<dyn Files>,
        root: PathBuf,
        durability: Durability,
        quota: Quota,
    ) -> Result<Self, StoreError> {
        let committer = Committer::start(durability).map_err(StoreError::io("serve", &root))?;
        Ok(Self {
            files,
            root,
            quota: Mutex::new(quota),
            committer,
            users: Mutex::default(),
        })
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Sets the durability of later writes and the limits of users.
    pub fn configure(&self, durability: Durability, quota: Quota) {
        self.committer.set_durability(durability);
        *self.quota.lock() = quota;
    }

    fn quota(&self) -> Quota {
        *self.quota.lock()
    }

    /// Returns the number of commits and their durations.
    #[must_use]
    pub fn commits(&self) -> Commits {
        self.committer.took()
    }

    /// Lists the sessions of a user.
    pub fn list(&self, user: u32) -> Result<Vec<(Name, Summary)>, StoreError> {
        let place = self.place(user);
        let path = place.folder();
        self.with(user, |folder| {
            let named = |(name, session): (&Name, &Session)| (name.clone(), session.summary());
            let mut listed: BTreeMap<_, _> = folder.sessions.iter().map(named).collect();
            for (name, files) in &folder.aside {
                let of = listed.entry(name.clone()).or_default();
                of.damaged = files.iter().map(|file| path.join(file)).collect();
            }
            Ok(listed.into_iter().collect())
        })
    }

    /// Opens a session of a user that is not open already; `None` if it does not exist.
    pub fn open(&self, user: u32, name: &Name) -> Result<Option<(Stored, Past)>, StoreError> {
        self.with(user, |folder| {
            match folder.sessions.get(name) {
                None => return Ok(None),
                Some(Session::Readable(facts)) => facts.settle()?,
                Some(Session::Unreadable(_)) => {}
            }
            let (log, past) = match self.place(user).read(name)? {
                Ok(read) => read,
                Err(aside) => {
                    folder.sessions.remove(name);
                    folder.aside.entry(name.clone()).or_default().push(aside);
                    return Ok(None);
                }
            };
            let facts = Facts::read(&log, &past);
            if let Some(Session::Readable(before)) = folder.sessions.get(name) {
                let indexed = before.indexed.load(Ordering::Relaxed);
                facts.indexed.store(indexed, Ordering::Relaxed);
            }
            let stored = Stored::new(user, log, facts);
            folder.sessions.insert(name.clone(), stored.session());
            Ok(Some((stored, past)))
        })
    }

    /// Reads a session of a user, open or not, without opening it; `None` if it does not exist.
    pub fn past(&self, user: u32, name: &Name) -> Result<Option<Past>, StoreError> {
        self.with(user, |folder| {
            if let Some(Session::Readable(facts)) = folder.sessions.get(name)
                && let Some(log) = facts.log.upgrade()
            {
                return lock(&log).past(user, name.as_str()).map(Some);
            }
            if !folder.sessions.contains_key(name) {
                return Ok(None);
            }
            match self.place(user).read(name)? {
                Ok((_, past)) => Ok(Some(past)),
                Err(aside) => {
                    folder.sessions.remove(name);
                    folder.aside.entry(name.clone()).or_default().push(aside);
                    Ok(None)
                }
            }
        })
    }

    /// Makes a session with these first messages and options. The name must be unused.
    ///
    /// # Errors
    /// If the user has reached a limit, or the disk refuses.
    pub fn create(
        &self,
        user: u32,
        name: &Name,
        messages: Vec<Message>,
        options: serde_json::Map<String, serde_json::Value>,
    ) -> Result<Stored, StoreError> {
        self.with(user, |Folder { sessions, .. }| {
            let quota = self.quota();
            if sessions.len() >= quota.sessions {
                return Err(StoreError::Sessions {
                    user,
                    sessions: sessions.len(),
                });
            }
            let said: usize = messages.iter().map(Message::stored_bytes).sum();
            let given = serde_json::to_vec(&options).map_or(0, |text| text.len());
            within(user, sessions, (said + given) as u64, quota.bytes)?;
            if sessions.is_empty() {
                self.place(user).make()?;
            }
            let began = now();
            let opened = Entry::Opened {
                user,
                name: name.as_str().to_owned(),
                at: began,
                messages,
                options,
            };
            let log = Log::create(&self.files, &self.place(user).path(name), &opened)?;
            let summary = Summary {
                began,
                used: began,
                ..Summary::default()
            };
            let facts = Facts::new(summary, log.bytes());
            let stored = Stored::new(user, log, facts);
            sessions.insert(name.clone(), stored.session());
            Ok(stored)
        })
    }

    /// Deletes a session that is not open, and its damaged files; returns whether there was anything.
    ///
    /// # Errors
    /// If the disk refuses: the session may reappear after a power cut.
    pub fn delete(&self, user: u32, name: &Name) -> Result<bool, StoreError> {
        let place = self.place(user);
        let path = place.folder();
        self.with(user, |folder| {
            let aside = folder.aside.get(name).into_iter().flatten();
            let mut gone: Vec<_> = aside.map(|file| path.join(file)).collect();
            if let Some(session) = folder.sessions.get(name) {
                if let Session::Readable(facts) = session
                    && let Some(log) = facts.log.upgrade()
                {
                    // The commit thread may still have the file, which must not be replaced any more.
                    lock(&log).retire();
                }
                gone.push(place.path(name));
            }
            if gone.is_empty() {
                return Ok(false);
            }
            for path in gone {
                match self.files.remove(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        return Err(StoreError::io("delete", path)(error));
                    }
                    _ => {}
                }
            }
            folder.sessions.remove(name);
            folder.aside.remove(name);
            if folder.sessions.is_empty() {
                // A stale index costs only time.
                let _ = self.files.remove(&Index::path(&path));
            }
            let synced = self.files.sync_folder(&path);
            synced.map_err(StoreError::io("sync", &path))?;
            Ok(true)
        })
    }

    /// Checks that this number of bytes may be added to a session.
    ///
    /// # Errors
    /// If the user has reached the limit, or the disk allows no writes.
    pub fn admit(&self, stored: &Stored, bytes: u64) -> Result<(), StoreError> {
        let (user, most) = (stored.user, self.quota().bytes);
        self.with(user, |folder| within(user, &folder.sessions, bytes, most))?;
        // A log that is locked is being written, so it is writable.
        let Some(mut log) = stored.log.try_lock() else {
            return Ok(());
        };
        let writable = log.make_writable();
        writable.map_err(|error| StoreError::io("write", log.path())(error))
    }

    /// Appends an entry to a session without waiting. Another thread calls `done` once the entry is as durable as
    /// `sessions.durability` asks. If `done` gets an error, nothing of the entry is in the file.
    pub fn append(
        &self,
        stored: &Stored,
        entry: Entry,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        let facts = stored.facts.clone();
        facts.pending.fetch_add(1, Ordering::SeqCst);
        facts.indexed.store(false, Ordering::SeqCst);
        let change = Change::of(&entry);
        let follow = move |result: Result<(), StoreError>| {
            if result.is_ok() {
                change.apply(&mut facts.summary());
            }
            facts.pending.fetch_sub(1, Ordering::SeqCst);
            done(result);
        };
        let log = (stored.user, stored.log.clone());
        self.committer.append(log, entry, Box::new(follow));
    }

    /// Calls `use_it` with the folder of a user, which is read first if necessary.
    fn with<T>(
        &self,
        user: u32,
        use_it: impl FnOnce(&mut Folder) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let one = {
            let mut users = self.users.lock();
            users.entry(user).or_default().clone()
        };
        let mut one = one.lock();
        let folder = match &mut one.folder {
            Some(folder) => folder,
            empty => empty.insert(self.place(user).read_folder()?),
        };
        let done = use_it(folder);
        let most = UNINDEXED.max(folder.sessions.len() / INDEXED);
        if folder.unindexed() >= most {
            self.place(user).write_index(folder);
        }
        done
    }

    /// Writes the indexes, which make the next start fast. Sessions with pending entries are left out.
    pub fn finish(&self) {
        let users: Vec<_> = {
            let users = self.users.lock();
            users
                .iter()
                .map(|(user, one)| (*user, one.clone()))
                .collect()
        };
        for (user, one) in users {
            let one = one.lock();
            if let Some(folder) = &one.folder
                && folder.sessions.len() >= UNINDEXED
                && folder.unindexed() > 0
            {
                self.place(user).write_index(folder);
            }
        }
    }

    fn place(&self, user: u32) -> Place<'_> {
        Place {
            files: &self.files,
            root: &self.root,
            user,
            longest: self
                .quota()
                .bytes
                .saturating_mul(2)
                .saturating_add(LONGEST_TURN),
        }
    }
}

impl Stored {
    fn new(user: u32, log: Log, facts: Facts) -> Self {
        let log = Arc::new(Mutex::new(log));
        let facts = Facts {
            log: Arc::downgrade(&log),
            ..facts
        };
        Self { user, log, facts }
    }

    fn session(&self) -> Session {
        Session::Readable(self.facts.clone())
    }
}

fn within(
    user: u32,
    sessions: &BTreeMap<Name, Session>,
    more: u64,
    most: u64,
) -> Result<(), StoreError> {
    let bytes = sessions
        .values()
        .map(|session| session.summary().bytes)
        .sum();
    if more + bytes > most {
        return Err(StoreError::Bytes { user, bytes, most });
    }
    Ok(())
}

/// Returns the seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
