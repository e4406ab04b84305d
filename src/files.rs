//! The calls of the file system that what is kept of sessions makes, and no others: a test can stand in for all of them.
//!
//! Only regular files are opened. A FIFO, a device, a socket or a link in the place of one is an error that comes at once.

use std::fmt::Debug;
use std::fs::{self, DirBuilder, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _,
};
use std::path::Path;
use std::time::SystemTime;

/// Something that is no regular file has a file's name.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("it is {0}, and no regular file")]
pub struct NotAFile(&'static str);

impl NotAFile {
    /// Whether that is why a call failed.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        let inner = error.get_ref();
        inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<Self>)
    }
}

/// Folders and the names in them.
pub trait Files: Debug + Send + Sync {
    /// Makes a folder for its owner alone; one that is there is as good.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// The names in a folder; of one that is not there, none. A link to a folder is an error.
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
    ///
    /// # Errors
    /// As the system's, and `FileTooLarge` if there are more bytes than `most`.
    fn read(&mut self, most: u64) -> io::Result<Vec<u8>>;

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
        let found = match fs::symlink_metadata(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            found => found?,
        };
        // Nobody's link is followed to a folder elsewhere.
        if !found.is_dir() {
            return Err(ErrorKind::NotADirectory.into());
        }
        let entries = fs::read_dir(folder)?;
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        // A name that is no text is none of ours.
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

/// Opens a regular file, and waits for nothing else.
fn open_regular(path: &Path, mut options: OpenOptions) -> io::Result<fs::File> {
    // A device may do something when it is opened: first the name alone is looked at.
    match fs::symlink_metadata(path) {
        Ok(found) => is_regular(found.file_type())?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Nobody's link is followed to a file elsewhere, and a FIFO keeps nobody waiting.
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
        // It may grow meanwhile.
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
