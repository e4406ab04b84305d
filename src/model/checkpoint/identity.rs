//! The identity of a model's files: detects that files were replaced, and recognizes the same files after a boot. A few
//! blocks of each file are hashed, because reading all would take as long as loading.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::{parts, templates};

/// The number of hashed blocks of a file, which include its first and its last, and the bytes of each.
const BLOCKS: u64 = 16;
const BLOCK: u64 = 1 << 16;

/// The identity of a model's files at one moment: of the file, or of all files in its directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity(Vec<One>);

/// One file. A replaced file has another number, and a rewritten one another time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct One {
    path: PathBuf,
    /// The file's place until the next boot, which may number devices and files anew.
    device: u64,
    number: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    modified: [i64; 2],
    /// The hash of some blocks.
    hash: [u8; 32],
}

impl Identity {
    pub fn of(model: &Path) -> io::Result<Self> {
        if !fs::metadata(model)?.is_dir() {
            let mut files: Vec<_> = parts::all_parts(model)
                .into_iter()
                .map(One::of)
                .collect::<io::Result<_>>()?;
            files.extend(templates::next_to_model(model).map(One::of).transpose()?);
            return Ok(Self(files));
        }
        let mut files = Vec::new();
        for file in fs::read_dir(model)? {
            files.push(One::of(file?.path())?);
        }
        for file in templates::additional(model) {
            files.push(One::of(file)?);
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(Self(files))
    }

    /// Adds another file that belongs to the model.
    pub fn with(mut self, file: &Path) -> io::Result<Self> {
        self.0.push(One::of(file.to_owned())?);
        Ok(self)
    }
}

/// Writes the parts that stay the same after a boot.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|one| {
            let (path, bytes, [seconds, nanoseconds]) =
                (one.path.display(), one.bytes, one.modified);
            write!(f, "{path} {bytes} {seconds}.{nanoseconds:09} ")?;
            one.hash
                .iter()
                .try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str(" ")
        })
    }
}

impl One {
    fn of(path: PathBuf) -> io::Result<Self> {
        let metadata = fs::metadata(&path)?;
        let hash = if metadata.is_file() {
            sampled(&File::open(&path)?, &metadata)?
        } else {
            [0; 32]
        };
        Ok(Self {
            path,
            device: metadata.dev(),
            number: metadata.ino(),
            bytes: metadata.len(),
            modified: [metadata.mtime(), metadata.mtime_nsec()],
            hash,
        })
    }
}

/// Hashes blocks that are spread evenly over the file.
fn sampled(file: &File, metadata: &Metadata) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let (length, mut block) = (metadata.len(), Vec::new());
    let last = length.saturating_sub(BLOCK);
    let mut end = 0;
    for n in 0..BLOCKS {
        // A small file is read once, as a whole.
        let begin = (last / (BLOCKS - 1) * n + last % (BLOCKS - 1) * n / (BLOCKS - 1)).max(end);
        end = (begin + BLOCK).min(length).max(end);
        block.resize(usize::try_from(end - begin).unwrap_or(0), 0);
        file.read_exact_at(&mut block, begin)?;
        hash.update(&block);
    }
    Ok(hash.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a boot with new device numbers; and after a replacement by a similar model.
    #[test]
    fn a_file_is_identified_by_its_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let put = |bytes: &[u8]| {
            let new = folder.path().join("new");
            fs::write(&new, bytes).unwrap();
            let file = File::options().write(true).open(&new).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
            fs::rename(&new, &path).unwrap();
            Identity::of(&path).unwrap()
        };
        for length in [0, 1, 100, 1 << 16, (1 << 20) + 7, 3 << 20] {
            let mut bytes = vec![7; length];
            let before = put(&bytes);
            let kept = folder.path().join("kept");
            fs::hard_link(&path, &kept).unwrap();
            let again = put(&bytes);
            fs::remove_file(kept).unwrap();
            assert_ne!(again, before, "it was replaced");
            assert_eq!(again.to_string(), before.to_string(), "by the same");
            for at in [0, length / 3, length.saturating_sub(1)] {
                // Changes between the hashed blocks of a large file are not detected.
                if at < length && (at == 0 || at + 1 == length || length <= 1 << 20) {
                    bytes[at] = 8;
                    assert_ne!(
                        put(&bytes).to_string(),
                        before.to_string(),
                        "{at} of {length}"
                    );
                    bytes[at] = 7;
                }
            }
        }
    }
}
