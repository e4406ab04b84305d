//! The file-system calls of session storage. A test can replace all of them.
//!
//! Only regular files are opened. A FIFO, a device, a socket or a symbolic link is an error, without waiting.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
};
use std::path::Path;
use std::time::SystemTime;

/// The error for a path that is not a regular file.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it is {0}, and no regular file")]
pub struct NotAFile(&'static str);

impl NotAFile {
    /// Whether a call failed for this reason.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        let inner = error.get_ref();
        inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

/// Operations on folders and names.
pub trait Files: Debug + Send + Sync {
    /// Makes a folder for its owner alone. An existing folder is not an error.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Lists the names in a folder; a missing folder has none. A symbolic link to a folder is an error.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Opens a file for reading and writing by its owner alone. With `new`, an existing file is emptied.
    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn File>>;

    /// Opens a file for reading, which also works on a read-only disk.
    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn File>>;

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Waits until the names in a folder are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The user that this process runs as.
    fn user(&self) -> u32;
}

/// An open file.
pub trait File: Debug + Send + Sync {
    /// The user that owns the file.
    fn owner(&self) -> io::Result<u32>;

    /// Returns its length, and when it was last written or touched.
    fn stat(&self) -> io::Result<(u64, SystemTime)>;

    /// Sets its modification time to the present.
    fn touch(&mut self) -> io::Result<()>;

    /// Reads the whole file.
    ///
    /// # Errors
    /// As the system's, and `FileTooLarge` if there are more bytes than `most`.
    fn read(&mut self, most: u64) -> io::Result<Vec<u8>>;

    /// Fills `out` with the bytes from position `at` on.
    ///
    /// # Errors
    /// As the system's, and if there are fewer bytes.
    fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<()>;

    /// Writes bytes at position `at`.
    ///
    /// # Errors
    /// As the system's; a part of the bytes may be written.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Waits until all changes are on the disk.
    ///
    /// # Errors
    /// As the system's; the state of the disk is then unknown.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system of the operating system.
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
        let found = match fs::symlink_metadata(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found?,
        };
        // A symbolic link is never followed to another folder.
        if !found.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let entries = fs::read_dir(folder)?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // Names that are not UTF-8 are foreign files.
        names.filter_map(io::Result::transpose).collect()
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600).create(new);
        let file = open_regular(path, options)?;
        if new {
            file.set_len(0)?;
        }
        Ok(Box::new(file))
    }

    fn open_to_read(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let mut options = OpenOptions::new();
        options.read(true);
        Ok(Box::new(open_regular(path, options)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(nix::libc::O_DIRECTORY);
        options.open(folder)?.sync_all()
    }

    fn user(&self) -> u32 {
        nix::unistd::geteuid().as_raw()
    }
}

/// Opens a regular file without waiting.
fn open_regular(path: &Path, mut options: OpenOptions) -> io::Result<fs::File> {
    // Opening a device may have effects, so its type is checked first.
    match fs::symlink_metadata(path) {
        Ok(found) => is_regular(found.file_type())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // A symbolic link is never followed, and a FIFO never waits.
    options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let file = options.open(path)?;
    is_regular(file.metadata()?.file_type())?;
    Ok(file)
}

fn is_regular(kind: FileType) -> io::Result<()> {
    let what = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(ErrorKind::InvalidInput, NotAFile(what)))
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

    fn read(&mut self, most: u64) -> io::Result<Vec<u8>> {
        if self.metadata()?.len() > most {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let mut bytes = Vec::new();
        self.rewind()?;
        // The file may grow during the read.
        let mut rest = (&*self).take(most.saturating_add(1));
        rest.read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(ErrorKind::FileTooLarge.into());
        }
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
