//! A file system that records every call, and derives each state that a power cut could leave.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, MutexGuard};

use crate::files::{File, Files};

const SECTOR: usize = 512;

/// A call that changes something, or a mark of a test.
#[derive(Clone, Debug)]
pub(super) enum Call {
    MakeFolder(PathBuf),
    Create(PathBuf, usize),
    Write(usize, u64, Vec<u8>),
    Cut(usize, u64),
    Sync(usize),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncFolder(PathBuf),
    /// A sync of a file has failed: the data since the last sync never reaches the disk, even if a later sync succeeds.
    Dropped(usize),
    /// The test received the confirmation of this number of turns of a session.
    Confirmed(&'static str, usize),
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: Vec<Call>,
    folders: Vec<PathBuf>,
    names: BTreeMap<PathBuf, usize>,
    files: Vec<Vec<u8>>,
    /// The number of changes of each file, which stands for its modification time.
    changes: BTreeMap<usize, u64>,
    /// The number of files that were read, and their bytes.
    reads: (usize, usize),
    /// Bytes that may still be written, if the disk has a limit.
    room: Option<usize>,
    /// The error of every call that writes.
    refuses: Option<ErrorKind>,
    /// The error of making a file.
    unmade: Option<ErrorKind>,
    /// The error of every sync.
    unsynced: Option<ErrorKind>,
    /// The owner of the files.
    owner: u32,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn confirmed(&self, session: &'static str, turns: usize) {
        self.lock().calls.push(Call::Confirmed(session, turns));
    }

    pub(super) fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    pub(super) fn has_room(&self, room: Option<usize>) {
        self.lock().room = room;
    }

    pub(super) fn refuses(&self, with: Option<ErrorKind>) {
        self.lock().refuses = with;
    }

    pub(super) fn does_not_sync(&self, with: Option<ErrorKind>) {
        self.lock().unsynced = with;
    }

    pub(super) fn makes_none(&self, with: Option<ErrorKind>) {
        self.lock().unmade = with;
    }

    pub(super) fn belongs_to(&self, owner: u32) {
        self.lock().owner = owner;
    }

    pub(super) fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.lock();
        state.names.get(path).map(|file| state.files[*file].clone())
    }

    pub(super) fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut state = self.lock();
        let file = state.names[path];
        state.files[file] = bytes;
        *state.changes.entry(file).or_default() += 1;
    }

    /// Returns the number of files read since the last call, and their bytes.
    pub(super) fn reads(&self) -> (usize, usize) {
        std::mem::take(&mut self.lock().reads)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        self.lock().names.keys().map(name).collect()
    }

    /// Returns the possible states of the disk after a power cut behind these calls.
    pub(super) fn after_a_cut(calls: &[Call]) -> Vec<Arc<Self>> {
        let mut left = Left::default();
        calls.iter().for_each(|call| left.follow(call));
        left.states()
    }
}

/// A file on the disk, and its changes since the last sync.
#[derive(Clone, Debug, Default)]
struct Content {
    synced: Vec<u8>,
    pending: Vec<Call>,
}

/// The certain content of the disk, and the possible changes.
#[derive(Default)]
struct Left {
    folders: Vec<PathBuf>,
    names: BTreeMap<PathBuf, usize>,
    files: BTreeMap<usize, Content>,
    /// Changes of names in folders that were not synced since.
    pending: Vec<Call>,
}

impl Left {
    fn follow(&mut self, call: &Call) {
        match call {
            Call::Confirmed(..) => {}
            Call::Dropped(file) => self.files.get_mut(file).expect("made").pending.clear(),
            Call::MakeFolder(_) | Call::Rename(..) | Call::Remove(_) => {
                self.pending.push(call.clone());
            }
            Call::Create(_, file) => {
                self.files.insert(*file, Content::default());
                self.pending.push(call.clone());
            }
            Call::Write(file, ..) | Call::Cut(file, _) => {
                let content = self.files.get_mut(file).expect("made");
                content.pending.push(call.clone());
            }
            Call::Sync(file) => {
                let content = self.files.get_mut(file).expect("made");
                let pending = std::mem::take(&mut content.pending);
                pending
                    .iter()
                    .for_each(|call| apply(&mut content.synced, call, |_| true));
            }
            Call::SyncFolder(folder) => {
                let of = |call: &Call| match call {
                    Call::MakeFolder(path)
                    | Call::Create(path, _)
                    | Call::Rename(_, path)
                    | Call::Remove(path) => path.parent() == Some(folder),
                    _ => false,
                };
                let (now, later) = std::mem::take(&mut self.pending).into_iter().partition(of);
                self.pending = later;
                let now: Vec<Call> = now;
                now.iter()
                    .for_each(|call| rename(&mut self.folders, &mut self.names, call));
            }
        }
    }

    fn states(&self) -> Vec<Arc<Memory>> {
        let mut states = Vec::new();
        // The names: any number of the pending changes in order, or one of them alone.
        let mut namings: Vec<Vec<&Call>> = (0..=self.pending.len())
            .map(|count| self.pending[..count].iter().collect())
            .collect();
        namings.extend(self.pending.iter().map(|one| vec![one]));
        for naming in namings {
            let (mut folders, mut names) = (self.folders.clone(), self.names.clone());
            naming
                .iter()
                .for_each(|call| rename(&mut folders, &mut names, call));
            names.retain(|path, _| folders.iter().any(|folder| path.parent() == Some(folder)));
            for files in self.contents() {
                states.push(Arc::new(Memory {
                    state: Mutex::new(State {
                        folders: folders.clone(),
                        names: names.clone(),
                        files,
                        ..State::default()
                    }),
                }));
            }
        }
        states
    }

    /// The files: all treated in one of several ways, or one alone with all of its writes, or without.
    fn contents(&self) -> Vec<Vec<Vec<u8>>> {
        let sectors = self.files.values().map(|content| {
            let ends = content.pending.iter().map(|call| match call {
                Call::Write(_, at, bytes) => usize::try_from(*at).expect("short") + bytes.len(),
                _ => 0,
            });
            ends.max().unwrap_or(0).div_ceil(SECTOR)
        });
        let sectors = sectors.max().unwrap_or(0);
        let mut ways: Vec<Box<dyn Fn(usize, usize) -> bool>> =
            vec![Box::new(|_, _| true), Box::new(|_, _| false)];
        for sector in 0..sectors {
            ways.push(Box::new(move |_, one| one == sector));
            ways.push(Box::new(move |_, one| one != sector));
            ways.push(Box::new(move |_, one| one < sector));
            ways.push(Box::new(move |_, one| one >= sector));
        }
        let written = self.files.iter();
        for (file, _) in written.filter(|(_, content)| !content.pending.is_empty()) {
            let file = *file;
            ways.push(Box::new(move |of, _| of == file));
            ways.push(Box::new(move |of, _| of != file));
        }
        let mut contents = Vec::new();
        for way in ways {
            // With the last length of the file, or without.
            for longer in [true, false] {
                let all = self.files.iter().map(|(file, content)| {
                    let way = |sector| way(*file, sector);
                    let mut bytes = content.synced.clone();
                    content
                        .pending
                        .iter()
                        .for_each(|call| apply(&mut bytes, call, way));
                    if !longer {
                        let last = (0..bytes.len().div_ceil(SECTOR))
                            .rev()
                            .find(|one| way(*one));
                        let written = last.map_or(0, |last| (last + 1) * SECTOR);
                        bytes.truncate(written.max(content.synced.len()));
                    }
                    bytes
                });
                contents.push(all.collect());
            }
        }
        contents
    }
}

/// Applies a call to a file; sectors that `wrote` does not name keep their content.
fn apply(bytes: &mut Vec<u8>, call: &Call, wrote: impl Fn(usize) -> bool) {
    match call {
        Call::Write(_, at, written) => {
            let at = usize::try_from(*at).expect("short");
            bytes.resize(bytes.len().max(at + written.len()), 0);
            for (place, byte) in (at..).zip(written) {
                if wrote(place / SECTOR) {
                    bytes[place] = *byte;
                }
            }
        }
        Call::Cut(_, length) => bytes.truncate(usize::try_from(*length).expect("short")),
        _ => {}
    }
}

/// Applies a call to names.
fn rename(folders: &mut Vec<PathBuf>, names: &mut BTreeMap<PathBuf, usize>, call: &Call) {
    match call {
        Call::MakeFolder(path) => folders.push(path.clone()),
        Call::Create(path, file) => drop(names.insert(path.clone(), *file)),
        Call::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Call::Remove(path) => drop(names.remove(path)),
        _ => {}
    }
}

impl State {
    fn writes(&self) -> io::Result<()> {
        self.refuses.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

/// A shared handle, as the store has it.
#[derive(Clone, Debug)]
pub(super) struct Shared(pub(super) Arc<Memory>);

impl Files for Shared {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.writes()?;
        if !state.folders.contains(&path.to_owned()) {
            state.folders.push(path.to_owned());
            state.calls.push(Call::MakeFolder(path.to_owned()));
        }
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let state = self.0.lock();
        let inside = state
            .names
            .keys()
            .filter(|path| path.parent() == Some(folder));
        let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
        Ok(inside.map(name).collect())
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn File>> {
        let mut state = self.0.lock();
        state.writes()?;
        let file = if new {
            state
                .unmade
                .map_or(Ok(()), |kind| Err(io::Error::from(kind)))?;
            let file = state.files.len();
            state.files.push(Vec::new());
            state.names.insert(path.to_owned(), file);
            state.calls.push(Call::Create(path.to_owned(), file));
            file
        } else {
            *state.names.get(path).ok_or(ErrorKind::NotFound)?
        };
        Ok(Box::new(Open(self.0.clone(), file)))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let file = self.0.lock().names.get(path).copied();
        Ok(Box::new(Open(
            self.0.clone(),
            file.ok_or(ErrorKind::NotFound)?,
        )))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let call = Call::Rename(from.to_owned(), to.to_owned());
        let state = &mut *self.0.lock();
        state.writes()?;
        rename(&mut state.folders, &mut state.names, &call);
        state.calls.push(call);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let call = Call::Remove(path.to_owned());
        let state = &mut *self.0.lock();
        state.writes()?;
        rename(&mut state.folders, &mut state.names, &call);
        state.calls.push(call);
        Ok(())
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.0
            .lock()
            .calls
            .push(Call::SyncFolder(folder.to_owned()));
        Ok(())
    }

    fn user(&self) -> u32 {
        0
    }
}

#[derive(Debug)]
struct Open(Arc<Memory>, usize);

impl File for Open {
    fn owner(&self) -> io::Result<u32> {
        Ok(self.0.lock().owner)
    }

    fn stat(&self) -> io::Result<(u64, SystemTime)> {
        let state = self.0.lock();
        let changes = state.changes.get(&self.1).copied().unwrap_or_default();
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(changes);
        Ok((state.files[self.1].len() as u64, time))
    }

    fn touch(&mut self) -> io::Result<()> {
        self.0.lock().writes()
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let at = usize::try_from(at).expect("short");
        let held = state.files[self.1].get(at..at + out.len());
        out.copy_from_slice(held.ok_or(ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut state = self.0.lock();
        let bytes = state.files[self.1].clone();
        if bytes.len() as u64 > most {
            return Err(ErrorKind::FileTooLarge.into());
        }
        state.reads.0 += 1;
        state.reads.1 += bytes.len();
        Ok(bytes)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let state = &mut *self.0.lock();
        state.writes()?;
        let fits = state.room.map_or(bytes.len(), |room| room.min(bytes.len()));
        state.room = state.room.map(|room| room - fits);
        let call = Call::Write(self.1, at, bytes[..fits].to_vec());
        apply(&mut state.files[self.1], &call, |_| true);
        *state.changes.entry(self.1).or_default() += 1;
        state.calls.push(call);
        if fits < bytes.len() {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let state = &mut *self.0.lock();
        state.writes()?;
        let call = Call::Cut(self.1, length);
        apply(&mut state.files[self.1], &call, |_| true);
        *state.changes.entry(self.1).or_default() += 1;
        state.calls.push(call);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.0.lock();
        if let Some(kind) = state.unsynced {
            state.calls.push(Call::Dropped(self.1));
            return Err(kind.into());
        }
        let call = Call::Sync(self.1);
        state.calls.push(call);
        Ok(())
    }
}
