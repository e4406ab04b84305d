//! The calls of the file system that what is kept of sessions makes, and no others: a test can stand in for all of them.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::SystemTime;

/// Folders and the names in them.
pub trait Files: Debug + Send + Sync {
    /// Makes a folder for its owner alone; one that is there is as good.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder; of one that is not there, none.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Opens a file to read and to write, for its owner alone; where `new`, one that is there is emptied first.
    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn File>>;

    /// Opens a file only to read it, also where nothing may be written.
    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn File>>;

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns when the names in a folder are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The user that this process runs as.
    fn user(&self) -> u32;
}

/// One open file.
pub trait File: Debug + Send + Sync {
    /// Whose it is.
    fn owner(&self) -> io::Result<u32>;

    /// Its bytes, and when it was written or touched last.
    fn stat(&self) -> io::Result<(u64, SystemTime)>;

    /// It was of use now.
    fn touch(&mut self) -> io::Result<()>;

    /// All of it, from its first byte.
    fn read(&mut self) -> io::Result<Vec<u8>>;

    /// As many bytes as `out` has, from its byte `at` on.
    ///
    /// # Errors
    /// As the system's, and if there are fewer.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()>;

    /// # Errors
    /// As the system's; some of the bytes may be written.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Returns when all that was written and cut is on the disk.
    ///
    /// # Errors
    /// As the system's; what of it is on the disk is unknown then.
    fn sync(&mut self) -> io::Result<()>;
}

/// The system's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn make_folder(&self, path: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // A name that is no text is none of ours.
        names.filter_map(io::Result::transpose).collect()
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        // Nobody's link is followed to a file elsewhere.
        options.custom_flags(nix::libc::O_NOFOLLOW);
        let file = options.create(new).truncate(new).open(path)?;
        Ok(Box::new(file))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nix::libc::O_NOFOLLOW);
        Ok(Box::new(options.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        fs::File::open(folder)?.sync_all()
    }

    fn user(&self) -> u32 {
        nix::unistd::geteuid().as_raw()
    }
}

impl File for fs::File {
    fn owner(&self) -> io::Result<u32> {
        Ok(self.metadata()?.uid())
    }

    fn stat(&self) -> io::Result<(u64, SystemTime)> {
        let metadata = self.metadata()?;
        Ok((metadata.len(), metadata.modified()?))
    }

    fn touch(&mut self) -> io::Result<()> {
        self.set_modified(SystemTime::now())
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.rewind()?;
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(out, at)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
