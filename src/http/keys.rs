//! The keys of callers over TCP: a file with a user and a key in each line.
//!
//! Only digests of the keys stay in memory.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::unistd::User;
use sha2::{Digest, Sha256};

/// The least characters of a key.
const LEAST: usize = 32;
/// The most bytes of a file.
const MOST_BYTES: u64 = 1 << 20;
/// The permissions of users other than the owner: the callers are in the daemon's group.
const OTHERS: u32 = 0o077;

/// Why a key file cannot be used. Its text names the file and the remedy, and never a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("{}: {source}; let the daemon's user read it", file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{}: other users have access to it; run \"chmod go= {}\"", .0.display(), .0.display())]
    Open(PathBuf),
    #[error("{}: it has no key; add a line with a user and a key", .0.display())]
    Empty(PathBuf),
    #[error("{}:{line}: {why}", file.display())]
    Line {
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        why: LineError,
    },
}

/// Why a line of a key file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    #[error("a line has a user and a key, with a space between them")]
    Form,
    #[error(
        "the key has {0} characters; make one of at least {LEAST} with \"openssl rand -hex 32\""
    )]
    Short(usize),
    #[error(
        "the key has characters other than visible ASCII; make one with \"openssl rand -hex 32\""
    )]
    Characters,
    #[error("there is no user {0:?}; give the name of a user of this system, or a user id")]
    NoUser(String),
    #[error("the key is also that of line {0}; give each user a key of its own")]
    Twice(usize),
}

/// The keys of a file.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Keys(Vec<Key>);

#[derive(Clone, PartialEq, Eq)]
struct Key {
    digest: [u8; 32],
    user: u32,
    line: usize,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

impl Keys {
    /// Reads a file. A line that is empty or begins with `#` is skipped.
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        let unreadable = |source| KeyError::Unreadable {
            file: file.to_owned(),
            source,
        };
        let opened = fs::File::open(file).map_err(unreadable)?;
        let mode = opened.metadata().map_err(unreadable)?.permissions().mode();
        if mode & OTHERS != 0 {
            return Err(KeyError::Open(file.to_owned()));
        }
        let mut text = String::new();
        let read = opened.take(MOST_BYTES).read_to_string(&mut text);
        read.map_err(unreadable)?;
        Self::parse(&text, user_id).map_err(|error| match error {
            None => KeyError::Empty(file.to_owned()),
            Some((line, why)) => KeyError::Line {
                file: file.to_owned(),
                line,
                why,
            },
        })
    }

    /// Reads a text; `None` if it has no key, or else the wrong line.
    fn parse(
        text: &str,
        user_id: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, Option<(usize, LineError)>> {
        let mut keys = Self::default();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let key = key(text, line, &user_id).map_err(|why| Some((line, why)))?;
            if let Some(other) = keys.0.iter().find(|other| other.digest == key.digest) {
                return Err(Some((line, LineError::Twice(other.line))));
            }
            keys.0.push(key);
        }
        if keys.0.is_empty() {
            return Err(None);
        }
        Ok(keys)
    }

    /// Returns the user of a key. The time depends on neither the key nor its place in the file.
    #[must_use]
    pub fn user(&self, key: &[u8]) -> Option<u32> {
        let digest = digest(key);
        let mut found = None;
        for known in &self.0 {
            let pairs = known.digest.iter().zip(&digest);
            if pairs.fold(0, |differ, (one, other)| differ | (one ^ other)) == 0 {
                found = Some(known.user);
            }
        }
        found
    }
}

fn key(text: &str, line: usize, user_id: impl Fn(&str) -> Option<u32>) -> Result<Key, LineError> {
    let mut words = text.split_whitespace();
    let (Some(user), Some(key), None) = (words.next(), words.next(), words.next()) else {
        return Err(LineError::Form);
    };
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(LineError::Characters);
    }
    if key.len() < LEAST {
        return Err(LineError::Short(key.len()));
    }
    let user = user_id(user).ok_or_else(|| LineError::NoUser(user.to_owned()))?;
    Ok(Key {
        digest: digest(key.as_bytes()),
        user,
        line,
    })
}

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Returns the id of a user, given by number or by name.
fn user_id(user: &str) -> Option<u32> {
    if let Ok(id) = user.parse() {
        return Some(id);
    }
    let found = User::from_name(user).ok()??;
    Some(found.uid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";
    const OTHER: &str = "fedcba9876543210fedcba9876543210";

    fn parse(text: &str) -> Result<Keys, Option<(usize, LineError)>> {
        Keys::parse(text, |user| {
            (user == "robot").then_some(7).or(user.parse().ok())
        })
    }

    #[test]
    fn a_key_is_that_of_one_user() {
        let keys = parse(&format!("# of programs\n\nrobot {KEY}\n1000\t{OTHER}\n")).unwrap();
        assert_eq!(keys.user(KEY.as_bytes()), Some(7));
        assert_eq!(keys.user(OTHER.as_bytes()), Some(1000));
        for wrong in ["", &KEY[1..], &format!("{KEY}0"), &KEY.to_uppercase()] {
            assert_eq!(keys.user(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_wrong_line_is_named() {
        let wrong = |text: &str| parse(text).unwrap_err();
        assert_eq!(wrong("# none\n"), None);
        assert_eq!(wrong(KEY), Some((1, LineError::Form)));
        assert_eq!(
            wrong(&format!("\nrobot {KEY} more")),
            Some((2, LineError::Form))
        );
        assert_eq!(wrong("robot short"), Some((1, LineError::Short(5))));
        assert_eq!(
            wrong(&format!("robot {KEY}é")),
            Some((1, LineError::Characters))
        );
        let unknown = LineError::NoUser("nobody-here".into());
        assert_eq!(wrong(&format!("nobody-here {KEY}")), Some((1, unknown)));
        let twice = format!("robot {KEY}\n1 {KEY}");
        assert_eq!(wrong(&twice), Some((2, LineError::Twice(1))));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        fs::write(&file, format!("0 {KEY}\n")).unwrap();
        let allow = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        allow(0o644);
        assert!(matches!(Keys::read(&file), Err(KeyError::Open(_))));
        allow(0o640);
        assert!(matches!(Keys::read(&file), Err(KeyError::Open(_))));
        allow(0o600);
        assert_eq!(Keys::read(&file).unwrap().user(KEY.as_bytes()), Some(0));
    }
}
