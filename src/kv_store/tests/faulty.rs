//! A disk that becomes full, and files that belong to another user.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::SystemTime;

use crate::files::{Disk, File, Files};

/// The system's disk with a limited size.
#[derive(Clone, Debug)]
pub(super) struct Faulty {
    /// Bytes that can still be written.
    room: Arc<AtomicI64>,
    /// Added to the user of this process.
    user: Arc<AtomicU32>,
}

impl Faulty {
    pub(super) fn new() -> Self {
        Self {
            room: Arc::new(AtomicI64::new(i64::MAX)),
            user: Arc::default(),
        }
    }

    pub(super) fn has_room(&self, bytes: i64) {
        self.room.store(bytes, Ordering::Relaxed);
    }

    /// Sets whether files seem to belong to another user.
    pub(super) fn set_other_user(&self, they_are: bool) {
        self.user.store(they_are.into(), Ordering::Relaxed);
    }
}

impl Files for Faulty {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        Disk.make_folder(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        Disk.list(folder)
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn File>> {
        let (file, room) = (Disk.open(path, new)?, self.room.clone());
        Ok(Box::new(Open { file, room }))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let (file, room) = (Disk.open_to_read(path)?, self.room.clone());
        Ok(Box::new(Open { file, room }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk.remove(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        Disk.sync_folder(folder)
    }

    fn user(&self) -> u32 {
        Disk.user() + self.user.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct Open {
    file: Box<dyn File>,
    room: Arc<AtomicI64>,
}

impl File for Open {
    fn owner(&self) -> io::Result<u32> {
        self.file.owner()
    }

    fn stat(&self) -> io::Result<(u64, SystemTime)> {
        self.file.stat()
    }

    fn touch(&mut self) -> io::Result<()> {
        self.file.touch()
    }

    fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        self.file.read(most)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(at, out)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let length = i64::try_from(bytes.len()).expect("short");
        if self.room.fetch_sub(length, Ordering::Relaxed) < length {
            return Err(ErrorKind::StorageFull.into());
        }
        self.file.write(at, bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }
}
