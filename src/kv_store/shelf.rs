//! The files, their order of eviction, and the bytes written today.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::place::{PAGES, Place, UNFINISHED};
use crate::files::{Files, NotAFile};
use crate::session_store::Name;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The file with the day, the bytes written, and their checksum.
const WRITTEN: &str = "pages-written";
/// More bytes than that file has.
const LONGEST_WRITTEN: u64 = 64;

/// The files below a folder.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    files: BTreeMap<Place, Kept>,
    day: u64,
    /// The bytes written on `day`.
    written: u64,
    /// The times at which sessions were deleted, for which a file may still be in progress.
    deleted: HashMap<Place, Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    bytes: u64,
    used: SystemTime,
}

impl Shelf {
    /// Lists the files, and deletes unfinished ones, special files and files above the limit `most`. Unreadable folders
    /// are ignored.
    pub(super) fn read(files: &dyn Files, root: &Path, most: u64) -> Self {
        let (mut shelf, mut unfinished) = (Self::default(), 0);
        // The root itself may be a link.
        for folder in files.list(&root.join(".")).unwrap_or_default() {
            let Ok(user) = folder.parse::<u32>() else {
                continue;
            };
            let path = root.join(&folder);
            for file in files.list(&path).unwrap_or_default() {
                let path = path.join(&file);
                let Some((name, end)) = file.rsplit_once('.') else {
                    continue;
                };
                if end == UNFINISHED {
                    let stat = files.open_to_read(&path).and_then(|file| file.stat());
                    unfinished += stat.map_or(0, |(bytes, _)| bytes);
                    let _ = files.remove(&path);
                } else if let (PAGES, Ok(name)) = (end, Name::new(name)) {
                    match files.open_to_read(&path).and_then(|file| file.stat()) {
                        Ok((bytes, written)) if most == 0 || bytes <= most => {
                            let kept = Kept {
                                bytes,
                                used: written,
                            };
                            shelf.files.insert(Place { user, name }, kept);
                        }
                        Err(error) if !NotAFile::is(&error) => {}
                        // The values can be computed again.
                        _ => drop(files.remove(&path)),
                    }
                }
            }
        }
        if let Some((day, written)) = written(files, root) {
            (shelf.day, shelf.written) = (day, written);
        }
        if unfinished > 0 {
            shelf.wrote(unfinished).write(files, root);
        }
        shelf
    }

    pub(super) fn has(&self, place: &Place) -> bool {
        self.files.contains_key(place)
    }

    /// Whether a number of bytes may be written today.
    pub(super) fn may_write(&mut self, bytes: u64, most: Option<u64>) -> bool {
        self.begin_day();
        most.is_none_or(|most| self.written + bytes <= most)
    }

    /// Resets the count if a new day has begun.
    fn begin_day(&mut self) {
        let today = today();
        if self.day != today {
            (self.day, self.written) = (today, 0);
        }
    }

    /// Adds written bytes. Returns the record to store, so that they also count after a restart.
    pub(super) fn wrote(&mut self, bytes: u64) -> Day {
        self.begin_day();
        self.written += bytes;
        Day([self.day, self.written])
    }

    /// The files to delete for a file of a size: the least recently used ones, and last the file that it replaces.
    /// Returns `None` if the size exceeds the limit.
    pub(super) fn leaving(&self, place: &Place, bytes: u64, most: u64) -> Option<Vec<Place>> {
        if bytes > most {
            return None;
        }
        let mut all: u64 = self.files.values().map(|kept| kept.bytes).sum();
        let mut oldest: Vec<_> = self.files.iter().collect();
        oldest.sort_by_key(|(one, kept)| (*one == place, kept.used));
        let mut leaving = Vec::new();
        for (one, kept) in oldest {
            if all + bytes <= most {
                break;
            }
            all -= kept.bytes;
            leaving.push(one.clone());
        }
        Some(leaving)
    }

    pub(super) fn add(&mut self, place: Place, bytes: u64) {
        let used = SystemTime::now();
        self.files.insert(place, Kept { bytes, used });
    }

    pub(super) fn touch(&mut self, place: &Place) {
        if let Some(kept) = self.files.get_mut(place) {
            kept.used = SystemTime::now();
        }
    }

    /// Notes that a session was deleted. Pages computed earlier must not be stored.
    pub(super) fn delete(&mut self, place: &Place) {
        // No session is idle for a day before its pages are written.
        self.deleted.retain(|_, at| at.elapsed() < DAY);
        self.deleted.insert(place.clone(), Instant::now());
    }

    pub(super) fn was_deleted(&self, place: &Place, used: Instant) -> bool {
        self.deleted.get(place).is_some_and(|at| *at >= used)
    }

    /// Removes a file from the list. Returns its path if there was one.
    pub(super) fn remove(&mut self, place: &Place, root: &Path) -> Option<PathBuf> {
        self.files.remove(place).map(|_| place.path(root))
    }
}

/// A day and the bytes written then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Day([u64; 2]);

impl Day {
    pub(super) fn write(self, files: &dyn Files, root: &Path) {
        let numbers = self.0.map(u64::to_le_bytes).concat();
        let sum = crc32fast::hash(&numbers).to_le_bytes();
        let path = root.join(WRITTEN);
        let opened = files.open(&path, true).or_else(|error| {
            if !NotAFile::is(&error) {
                return Err(error);
            }
            files.remove(&path)?;
            files.open(&path, true)
        });
        let told = opened.and_then(|mut file| file.write(0, &[&numbers[..], &sum].concat()));
        // Without the record, more than the limit may be written that day.
        drop(told);
    }
}

fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / DAY.as_secs())
}

/// The day and the bytes in the file, if it is valid.
fn written(files: &dyn Files, root: &Path) -> Option<(u64, u64)> {
    let mut file = files.open_to_read(&root.join(WRITTEN)).ok()?;
    let bytes = file.read(LONGEST_WRITTEN).ok()?;
    let (numbers, sum) = bytes.split_last_chunk::<4>().map(|(numbers, sum)| {
        let sum = u32::from_le_bytes(*sum);
        (numbers, sum)
    })?;
    let (day, written) = numbers.split_first_chunk::<8>()?;
    let written = u64::from_le_bytes(written.try_into().ok()?);
    (crc32fast::hash(numbers) == sum).then_some((u64::from_le_bytes(*day), written))
}
