//! The folder of all sessions: one below it for each user id, and in that a file for each session. What one user has is
//! never looked for, nor found, on behalf of another.
//!
//! A user's folder is read when the user first asks for it. Its calls wait for the disk, but for `append`.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use super::brief::Brief;
use super::commit::{Commits, Committer, Durability, SharedLog, lock};
use super::entry::Entry;
use super::error::StoreError;
use super::index::{Index, Stamp};
use super::log::{DAMAGED, Found, Log, NEW, SESSION, Scanned};
use super::name::Name;
use super::past::Past;
use crate::files::Files;
use crate::journal;
use crate::model::Message;

/// What one user may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    pub sessions: usize,
    /// All files of the user may have so many.
    pub bytes: u64,
}

/// So many sessions of a user may have changed before its index is written again, and as many are read without one at a start.
const UNINDEXED: usize = 64;
/// An index is written again when at least one of so many has changed, too: of many it costs more.
const INDEXED: usize = 8;
/// The most bytes of a turn, beyond what its user may keep: a file may have grown by one.
const LONGEST_TURN: u64 = 16 << 20;

/// All sessions that are kept.
#[derive(Debug)]
pub struct Store {
    files: Arc<dyn Files>,
    root: PathBuf,
    quota: Mutex<Quota>,
    committer: Committer,
    users: Mutex<HashMap<u32, Arc<Mutex<User>>>>,
}

/// The sessions of a user; `None` until its folder has been read.
#[derive(Debug, Default)]
struct User {
    folder: Option<Folder>,
}

/// What is in a user's folder.
#[derive(Debug, Default)]
struct Folder {
    sessions: BTreeMap<Name, Kept>,
    /// Files that were damaged, by the session that each was of; their names are what they have now.
    aside: BTreeMap<Name, Vec<String>>,
}

#[derive(Debug)]
enum Kept {
    Known(Known),
    /// It is left as it is; this is the reason.
    Unreadable(StoreError),
}

/// What is known of a session, as its entries change it where it is open.
#[derive(Clone, Debug)]
struct Known {
    summary: Arc<Mutex<Summary>>,
    /// Its file has so many.
    bytes: Arc<AtomicU64>,
    log: Weak<Mutex<Log>>,
    /// Entries that are on their way to the disk.
    pending: Arc<AtomicUsize>,
    /// Whether the index says the same.
    indexed: Arc<AtomicBool>,
}

/// What is known of a session without its messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub turns: u32,
    /// Its file has so many.
    pub bytes: u64,
    /// Seconds since 1970.
    pub began: u64,
    /// When its last turn ended.
    pub used: u64,
    /// Why it cannot be read, if it cannot.
    pub error: Option<String>,
    /// Files of it that something had changed: they were set aside, and nobody reads them. Where there is nothing else, the
    /// session is not there any more.
    pub damaged: Vec<PathBuf>,
}

/// The open file of a session.
#[derive(Clone, Debug)]
pub struct Stored {
    user: u32,
    log: SharedLog,
    known: Known,
}

impl Store {
    /// Keeps sessions below `root`, which is made with the first of them.
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

    /// Sets how writes last and what users may keep, from now on.
    pub fn configure(&self, durability: Durability, quota: Quota) {
        self.committer.set_durability(durability);
        *self.quota.lock().unwrap_or_else(PoisonError::into_inner) = quota;
    }

    fn quota(&self) -> Quota {
        *self.quota.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it took to have turns on the disk.
    #[must_use]
    pub fn commits(&self) -> Commits {
        self.committer.took()
    }

    /// What a user has.
    pub fn list(&self, user: u32) -> Result<Vec<(Name, Summary)>, StoreError> {
        let path = self.folder(user);
        self.with(user, |folder| {
            let named = |(name, kept): (&Name, &Kept)| (name.clone(), kept.summary());
            let mut listed: BTreeMap<_, _> = folder.sessions.iter().map(named).collect();
            for (name, files) in &folder.aside {
                let of = listed.entry(name.clone()).or_default();
                of.damaged = files.iter().map(|file| path.join(file)).collect();
            }
            Ok(listed.into_iter().collect())
        })
    }

    /// Opens a session of a user, which is open nowhere else; `None` if there is none.
    pub fn open(&self, user: u32, name: &Name) -> Result<Option<(Stored, Past)>, StoreError> {
        self.with(user, |folder| {
            match folder.sessions.get(name) {
                None => return Ok(None),
                Some(Kept::Known(known)) => settle(&known.log)?,
                Some(Kept::Unreadable(_)) => {}
            }
            let (log, past) = match self.read(user, name)? {
                Ok(read) => read,
                Err(aside) => {
                    folder.sessions.remove(name);
                    folder.aside.entry(name.clone()).or_default().push(aside);
                    return Ok(None);
                }
            };
            let known = known(&log, &past);
            if let Some(Kept::Known(before)) = folder.sessions.get(name) {
                let indexed = before.indexed.load(Ordering::Relaxed);
                known.indexed.store(indexed, Ordering::Relaxed);
            }
            let stored = Stored::new(user, log, known);
            folder.sessions.insert(name.clone(), stored.known());
            Ok(Some((stored, past)))
        })
    }

    /// Reads a session of a user without opening it; `None` if there is none. It may be open.
    pub fn past(&self, user: u32, name: &Name) -> Result<Option<Past>, StoreError> {
        self.with(user, |folder| {
            if let Some(Kept::Known(known)) = folder.sessions.get(name)
                && let Some(log) = known.log.upgrade()
            {
                return lock(&log).past(user, name.as_str()).map(Some);
            }
            if !folder.sessions.contains_key(name) {
                return Ok(None);
            }
            match self.read(user, name)? {
                Ok((_, past)) => Ok(Some(past)),
                Err(aside) => {
                    folder.sessions.remove(name);
                    folder.aside.entry(name.clone()).or_default().push(aside);
                    Ok(None)
                }
            }
        })
    }

    /// Makes a session, which has begun with these messages and options; there is none of that name.
    ///
    /// # Errors
    /// If the user has as many as it may have, or the disk refuses.
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
            let said: usize = messages.iter().map(Message::bytes).sum();
            let given = serde_json::to_vec(&options).map_or(0, |text| text.len());
            within(user, sessions, (said + given) as u64, quota.bytes)?;
            if sessions.is_empty() {
                self.make(&self.folder(user))?;
            }
            let began = now();
            let opened = Entry::Opened {
                user,
                name: name.as_str().to_owned(),
                at: began,
                messages,
                options,
            };
            let log = Log::create(&self.files, &self.path(user, name), &opened)?;
            let summary = Summary {
                began,
                used: began,
                ..Summary::default()
            };
            let known = Known::new(summary, log.bytes());
            let stored = Stored::new(user, log, known);
            sessions.insert(name.clone(), stored.known());
            Ok(stored)
        })
    }

    /// Deletes a session, which is open nowhere, and what was set aside of it; returns whether there was anything.
    ///
    /// # Errors
    /// If the disk refuses: then it may be there again after a power cut.
    pub fn delete(&self, user: u32, name: &Name) -> Result<bool, StoreError> {
        let path = self.folder(user);
        self.with(user, |folder| {
            let aside = folder.aside.get(name).into_iter().flatten();
            let mut gone: Vec<_> = aside.map(|file| path.join(file)).collect();
            if let Some(kept) = folder.sessions.get(name) {
                if let Kept::Known(known) = kept
                    && let Some(log) = known.log.upgrade()
                {
                    // The thread that writes may still have it, and no other file takes its place now.
                    lock(&log).retire();
                }
                gone.push(self.path(user, name));
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
                // At the worst it is of nothing.
                let _ = self.files.remove(&Index::path(&path));
            }
            let synced = self.files.sync_folder(&path);
            synced.map_err(StoreError::io("sync", &path))?;
            Ok(true)
        })
    }

    /// Whether so many bytes may be added to a session.
    ///
    /// # Errors
    /// If the sessions of its user take as many as they may, or its disk takes no writes.
    pub fn admit(&self, stored: &Stored, bytes: u64) -> Result<(), StoreError> {
        let (user, most) = (stored.user, self.quota().bytes);
        self.with(user, |folder| within(user, &folder.sessions, bytes, most))?;
        // One that is being written at this moment can be.
        let Ok(mut log) = stored.log.try_lock() else {
            return Ok(());
        };
        let writable = log.make_writable();
        writable.map_err(|error| StoreError::io("write", log.path())(error))
    }

    /// Appends an entry to a session, and never waits: `done` is told on another thread when it is as durable as
    /// `sessions.durability` says, or why it is not. Then nothing of it is there.
    pub fn append(
        &self,
        stored: &Stored,
        entry: Entry,
        done: impl FnOnce(Result<(), StoreError>) + Send + 'static,
    ) {
        let known = stored.known.clone();
        known.pending.fetch_add(1, Ordering::SeqCst);
        known.indexed.store(false, Ordering::SeqCst);
        let change = Change::of(&entry);
        let follow = move |result: Result<(), StoreError>| {
            if result.is_ok() {
                change.apply(&mut known.summary());
            }
            known.pending.fetch_sub(1, Ordering::SeqCst);
            done(result);
        };
        let log = (stored.user, stored.log.clone());
        self.committer.append(log, entry, Box::new(follow));
    }

    /// Gives what a user has, whose folder is read first if that was not done.
    fn with<T>(
        &self,
        user: u32,
        use_it: impl FnOnce(&mut Folder) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let one = {
            let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            users.entry(user).or_default().clone()
        };
        let mut one = one.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = match &mut one.folder {
            Some(folder) => folder,
            empty => empty.insert(self.read_all(user)?),
        };
        let done = use_it(folder);
        let most = UNINDEXED.max(folder.sessions.len() / INDEXED);
        if folder.unindexed() >= most {
            self.index(user, folder);
        }
        done
    }

    /// Writes what makes the next start quick. What is still being written to the disk is read then.
    pub fn finish(&self) {
        let users: Vec<_> = {
            let users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
            users
                .iter()
                .map(|(user, one)| (*user, one.clone()))
                .collect()
        };
        for (user, one) in users {
            let one = one.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(folder) = &one.folder
                && folder.sessions.len() >= UNINDEXED
                && folder.unindexed() > 0
            {
                self.index(user, folder);
            }
        }
    }

    /// Writes the index of a user's folder. Where the disk refuses, the next start takes longer.
    fn index(&self, user: u32, folder: &Folder) {
        let line = |(name, kept): (&Name, &Kept)| {
            let Kept::Known(known) = kept else {
                return None;
            };
            let is_still = || known.pending.load(Ordering::SeqCst) == 0;
            // What changes from here on is not indexed.
            known.indexed.store(true, Ordering::SeqCst);
            let told = is_still().then(|| {
                let file = self.files.open_to_read(&self.path(user, name)).ok()?;
                let stamp = Stamp::of(&*self.files, &*file)?;
                Some((name.as_str().to_owned(), stamp, known.brief()))
            });
            // Else the file may be another one than was looked at.
            let told = told.flatten().filter(|_| is_still());
            if told.is_none() {
                known.indexed.store(false, Ordering::SeqCst);
            }
            told
        };
        let lines: Vec<_> = folder.sessions.iter().filter_map(line).collect();
        let _ = Index::write(&*self.files, &self.folder(user), lines.into_iter());
    }

    /// The most bytes that are read of a session's file: many more than one may have.
    fn longest(&self) -> u64 {
        self.quota()
            .bytes
            .saturating_mul(2)
            .saturating_add(LONGEST_TURN)
    }

    /// Reads a user's folder, and takes away what was never finished.
    fn read_all(&self, user: u32) -> Result<Folder, StoreError> {
        let folder = self.folder(user);
        let listed = self.files.list(&folder);
        let listed = listed.map_err(StoreError::io("read", &folder))?;
        let index = Index::read(&*self.files, &folder);
        let mut read = Folder::default();
        for file in listed {
            match file.rsplit_once('.') {
                Some((_, NEW)) => {
                    let _ = self.files.remove(&folder.join(&file));
                }
                Some((name, SESSION)) => {
                    let Ok(name) = Name::new(name) else {
                        continue;
                    };
                    let path = folder.join(&file);
                    let known = index.find(&*self.files, &path, name.as_str());
                    let is_known = known.is_some();
                    let found = match known {
                        Some(brief) => Ok(Ok(brief)),
                        None => self.scan(user, &name),
                    };
                    let kept = match found {
                        Ok(Err(aside)) => {
                            read.aside.entry(name).or_default().push(aside);
                            continue;
                        }
                        Ok(Ok(brief)) => Kept::Known(Known::of(brief, is_known)),
                        Err(error) => {
                            journal::session_unreadable(&error.to_string(), user);
                            Kept::Unreadable(error)
                        }
                    };
                    read.sessions.insert(name, kept);
                }
                Some((numbered, DAMAGED)) => {
                    let name = numbered.rsplit_once('.').map(|(name, _)| Name::new(name));
                    if let Some(Ok(name)) = name {
                        read.aside.entry(name).or_default().push(file);
                    }
                }
                _ => {}
            }
        }
        Ok(read)
    }

    /// Reads what there is to say of a session; or else its file's name, if it had to be set aside.
    fn scan(&self, user: u32, name: &Name) -> Result<Result<Brief, String>, StoreError> {
        let path = self.path(user, name);
        let of = (user, name.as_str());
        match Log::scan(&*self.files, &path, of, self.longest())? {
            Scanned::Whole(brief) => Ok(Ok(brief)),
            Scanned::Damaged => Ok(Err(self.damaged(user, &path)?)),
        }
    }

    /// Sets a session's file aside, and tells of it.
    fn damaged(&self, user: u32, path: &Path) -> Result<String, StoreError> {
        let aside = self.set_aside(path)?;
        let now = path.with_file_name(&aside).display().to_string();
        journal::session_damaged(&path.display().to_string(), user, &now);
        Ok(aside)
    }

    /// Reads a session's file; or else its name, if it had to be set aside.
    fn read(&self, user: u32, name: &Name) -> Result<Result<(Log, Past), String>, StoreError> {
        let path = self.path(user, name);
        let of = (user, name.as_str());
        match Log::read(&self.files, &path, of, self.longest())? {
            Found::Whole(log, past) => Ok(Ok((log, past))),
            Found::Torn(log, past, cut) => {
                journal::session_cut(&path.display().to_string(), user, cut);
                Ok(Ok((log, past)))
            }
            Found::Damaged => Ok(Err(self.damaged(user, &path)?)),
        }
    }

    /// Gives a file a name under which nobody looks for a session, and returns it.
    fn set_aside(&self, path: &Path) -> Result<String, StoreError> {
        let folder = path.parent().unwrap_or(&self.root);
        let failed = |what| StoreError::io(what, path);
        let taken = self.files.list(folder).map_err(failed("set aside"))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut names = (1..).map(|n: u64| format!("{stem}.{n}.{DAMAGED}"));
        let name = names.find(|name| !taken.contains(name)).unwrap_or_default();
        self.files
            .rename(path, &folder.join(&name))
            .map_err(failed("set aside"))?;
        self.files
            .sync_folder(folder)
            .map_err(failed("set aside"))?;
        Ok(name)
    }

    /// Makes a user's folder, which is there after a power cut, too.
    fn make(&self, folder: &Path) -> Result<(), StoreError> {
        let parent = self.root.parent().unwrap_or(&self.root);
        for (path, parent) in [(&*self.root, parent), (folder, &*self.root)] {
            let made = self.files.make_folder(path);
            made.map_err(StoreError::io("make", path))?;
            let synced = self.files.sync_folder(parent);
            synced.map_err(StoreError::io("sync", parent))?;
        }
        Ok(())
    }

    fn folder(&self, user: u32) -> PathBuf {
        self.root.join(user.to_string())
    }

    fn path(&self, user: u32, name: &Name) -> PathBuf {
        self.folder(user).join(format!("{name}.{SESSION}"))
    }
}

impl Stored {
    fn new(user: u32, log: Log, known: Known) -> Self {
        let log = Arc::new(Mutex::new(log));
        let known = Known {
            log: Arc::downgrade(&log),
            ..known
        };
        Self { user, log, known }
    }

    fn known(&self) -> Kept {
        Kept::Known(self.known.clone())
    }
}

/// Has what was written to a file on the disk before it is read again. The thread that writes may still have it: nothing is left
/// for that to write then, and it puts no other in its place.
fn settle(log: &Weak<Mutex<Log>>) -> Result<(), StoreError> {
    let Some(log) = log.upgrade() else {
        return Ok(());
    };
    let mut log = lock(&log);
    log.retire();
    // Of what nobody was told nothing is found.
    let synced = log.cut().and_then(|()| log.sync());
    synced.map_err(|error| StoreError::io("sync", log.path())(error))
}

impl Folder {
    /// How many sessions the index says nothing of, or something else.
    fn unindexed(&self) -> usize {
        let is_unindexed = |kept: &&Kept| match kept {
            Kept::Known(known) => !known.indexed.load(Ordering::Relaxed),
            Kept::Unreadable(_) => false,
        };
        self.sessions.values().filter(is_unindexed).count()
    }
}

impl Known {
    fn new(summary: Summary, bytes: Arc<AtomicU64>) -> Self {
        Self {
            summary: Arc::new(Mutex::new(summary)),
            bytes,
            log: Weak::new(),
            pending: Arc::default(),
            indexed: Arc::default(),
        }
    }

    /// What is known of a session whose file nobody has opened.
    fn of(brief: Brief, indexed: bool) -> Self {
        let Brief {
            turns,
            bytes,
            began,
            used,
        } = brief;
        let summary = Summary {
            turns,
            began,
            used,
            ..Summary::default()
        };
        let known = Self::new(summary, Arc::new(AtomicU64::new(bytes)));
        known.indexed.store(indexed, Ordering::Relaxed);
        known
    }

    fn summary(&self) -> MutexGuard<'_, Summary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn brief(&self) -> Brief {
        let summary = self.summary();
        Brief {
            turns: summary.turns,
            bytes: self.bytes.load(Ordering::Relaxed),
            began: summary.began,
            used: summary.used,
        }
    }
}

impl Kept {
    fn summary(&self) -> Summary {
        match self {
            Self::Known(known) => Summary {
                bytes: known.bytes.load(Ordering::Relaxed),
                ..known.summary().clone()
            },
            Self::Unreadable(error) => Summary {
                error: Some(error.to_string()),
                ..Summary::default()
            },
        }
    }
}

/// What an entry changes of a summary.
enum Change {
    Nothing,
    Turn { at: u64, dropped: u32 },
    Left(u32),
}

impl Change {
    fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Turn(turn) => Self::Turn {
                at: turn.at,
                dropped: turn.dropped,
            },
            Entry::Rewound { turns } => Self::Left(*turns),
            Entry::Opened { .. } | Entry::Options { .. } | Entry::Appended { .. } => Self::Nothing,
        }
    }

    fn apply(&self, summary: &mut Summary) {
        match *self {
            Self::Nothing => {}
            Self::Turn { at, dropped } => {
                summary.turns = summary.turns.saturating_sub(dropped) + 1;
                // A clock may have been set back.
                summary.used = summary.used.max(at);
            }
            Self::Left(turns) => summary.turns = turns,
        }
    }
}

/// What there is to know of a session that has been read.
fn known(log: &Log, past: &Past) -> Known {
    let summary = Summary {
        turns: u32::try_from(past.turns.len()).unwrap_or(u32::MAX),
        began: past.began,
        used: past.used,
        ..Summary::default()
    };
    Known::new(summary, log.bytes())
}

fn within(
    user: u32,
    sessions: &BTreeMap<Name, Kept>,
    more: u64,
    most: u64,
) -> Result<(), StoreError> {
    let bytes = sessions.values().map(|kept| kept.summary().bytes).sum();
    if more + bytes > most {
        return Err(StoreError::Bytes { user, bytes, most });
    }
    Ok(())
}

/// Seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
