//! A user's folder on disk: reading its sessions, setting damaged files aside, and writing its index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::brief::Brief;
use super::error::StoreError;
use super::facts::{Facts, Session};
use super::index::{Index, Stamp};
use super::log::{DAMAGED, Found, Log, NEW, SESSION, Scanned};
use super::name::Name;
use super::past::Past;
use crate::files::Files;
use crate::journal;

/// The content of a user's folder.
#[derive(Debug, Default)]
pub(super) struct Folder {
    pub(super) sessions: BTreeMap<Name, Session>,
    /// Damaged files under their present names, by the session that each belonged to.
    pub(super) aside: BTreeMap<Name, Vec<String>>,
}

impl Folder {
    /// Returns the number of sessions for which the index is missing or out of date.
    pub(super) fn unindexed(&self) -> usize {
        let is_unindexed = |session: &&Session| match session {
            Session::Readable(facts) => !facts.indexed.load(Ordering::Relaxed),
            Session::Unreadable(_) => false,
        };
        self.sessions.values().filter(is_unindexed).count()
    }
}

/// The place of a user's folder.
pub(super) struct Place<'a> {
    pub(super) files: &'a Arc<dyn Files>,
    /// The folder of all users.
    pub(super) root: &'a Path,
    pub(super) user: u32,
    /// The most bytes that are read of a session's file.
    pub(super) longest: u64,
}

impl Place<'_> {
    /// Writes the index of a user's folder. If the disk refuses, the next start takes longer.
    pub(super) fn write_index(&self, folder: &Folder) {
        let line = |(name, session): (&Name, &Session)| {
            let Session::Readable(facts) = session else {
                return None;
            };
            let is_still = || facts.pending.load(Ordering::SeqCst) == 0;
            // Later changes are not in the index.
            facts.indexed.store(true, Ordering::SeqCst);
            let line = is_still().then(|| {
                let file = self.files.open_to_read(&self.path(name)).ok()?;
                let stamp = Stamp::of(&**self.files, &*file)?;
                Some((name.as_str().to_owned(), stamp, facts.brief()))
            });
            // Otherwise the stamp may belong to another version of the file.
            let line = line.flatten().filter(|_| is_still());
            if line.is_none() {
                facts.indexed.store(false, Ordering::SeqCst);
            }
            line
        };
        let lines: Vec<_> = folder.sessions.iter().filter_map(line).collect();
        let _ = Index::write(&**self.files, &self.folder(), lines.into_iter());
    }

    /// Reads a user's folder, and removes unfinished files.
    pub(super) fn read_folder(&self) -> Result<Folder, StoreError> {
        let folder = self.folder();
        let listed = self.files.list(&folder);
        let listed = listed.map_err(StoreError::io("read", &folder))?;
        let index = Index::read(&**self.files, &folder);
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
                    let indexed = index.find(&**self.files, &path, name.as_str());
                    let is_indexed = indexed.is_some();
                    let found = match indexed {
                        Some(brief) => Ok(Ok(brief)),
                        None => self.scan(&name),
                    };
                    let session = match found {
                        Ok(Err(aside)) => {
                            read.aside.entry(name).or_default().push(aside);
                            continue;
                        }
                        Ok(Ok(brief)) => Session::Readable(Facts::of(brief, is_indexed)),
                        Err(error) => {
                            journal::session_unreadable(&error.to_string(), self.user);
                            Session::Unreadable(error)
                        }
                    };
                    read.sessions.insert(name, session);
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

    /// Reads the facts about a session; the inner error is the name of the file that was set aside.
    fn scan(&self, name: &Name) -> Result<Result<Brief, String>, StoreError> {
        let path = self.path(name);
        let of = (self.user, name.as_str());
        match Log::scan(&**self.files, &path, of, self.longest)? {
            Scanned::Whole(brief) => Ok(Ok(brief)),
            Scanned::Damaged => Ok(Err(self.damaged(&path)?)),
        }
    }

    /// Sets a damaged file aside, and reports it to the journal.
    fn damaged(&self, path: &Path) -> Result<String, StoreError> {
        let aside = self.set_aside(path)?;
        let now = path.with_file_name(&aside).display().to_string();
        journal::session_damaged(&path.display().to_string(), self.user, &now);
        Ok(aside)
    }

    /// Reads a session's file; the inner error is the name of the file that was set aside.
    pub(super) fn read(&self, name: &Name) -> Result<Result<(Log, Past), String>, StoreError> {
        let path = self.path(name);
        let of = (self.user, name.as_str());
        match Log::read(self.files, &path, of, self.longest)? {
            Found::Whole(log, past) => Ok(Ok((log, past))),
            Found::Torn(log, past, cut) => {
                journal::session_cut(&path.display().to_string(), self.user, cut);
                Ok(Ok((log, past)))
            }
            Found::Damaged => Ok(Err(self.damaged(&path)?)),
        }
    }

    /// Renames a file so that it is not taken for a session, and returns its name.
    fn set_aside(&self, path: &Path) -> Result<String, StoreError> {
        let folder = path.parent().unwrap_or(self.root);
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

    /// Makes a user's folder, and waits until it would survive a power cut.
    pub(super) fn make(&self) -> Result<(), StoreError> {
        let folder = self.folder();
        let parent = self.root.parent().unwrap_or(self.root);
        for (path, parent) in [(self.root, parent), (&*folder, self.root)] {
            let made = self.files.make_folder(path);
            made.map_err(StoreError::io("make", path))?;
            let synced = self.files.sync_folder(parent);
            synced.map_err(StoreError::io("sync", parent))?;
        }
        Ok(())
    }

    pub(super) fn path(&self, name: &Name) -> PathBuf {
        self.folder().join(format!("{name}.{SESSION}"))
    }

    pub(super) fn folder(&self) -> PathBuf {
        self.root.join(self.user.to_string())
    }
}
