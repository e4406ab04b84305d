//! Which files there are, which of them go first, and how much was written today.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::place::{PAGES, Place, UNFINISHED};
use crate::files::{Files, NotAFile};
use crate::session_store::Name;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The file that says how much was written: the day and the bytes, and their checksum.
const WRITTEN: &str = "pages-written";
/// More bytes than that file has.
const LONGEST_WRITTEN: u64 = 64;

/// The files below a folder.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    files: BTreeMap<Place, Kept>,
    day: u64,
    /// Bytes, that day.
    written: u64,
    /// When sessions were deleted, of which something may still be on its way.
    deleted: HashMap<Place, Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    bytes: u64,
    used: SystemTime,
}

impl Shelf {
    /// Looks at what there is, and takes away what was never finished, and what is no regular file or has more bytes than all
    /// may have, `most`. What cannot be looked at is as good as gone.
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
                        // What was computed can be computed again.
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

    /// Whether so many bytes may be written today.
    pub(super) fn may_write(&mut self, bytes: u64, most: Option<u64>) -> bool {
        self.begin_day();
        most.is_none_or(|most| self.written + bytes <= most)
    }

    /// Nothing was written yet on a day that has begun since.
    fn begin_day(&mut self) {
        let today = today();
        if self.day != today {
            (self.day, self.written) = (today, 0);
        }
    }

    /// So many bytes were; what is to be written down of it, so that it counts after a restart too.
    pub(super) fn wrote(&mut self, bytes: u64) -> Day {
        self.begin_day();
        self.written += bytes;
        Day([self.day, self.written])
    }

    /// What is to be deleted so that a file of so many bytes may take its place: those that were not used for the longest time,
    /// and at last the one before it. `None` if it is too large in any case.
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

    /// A session is deleted: nothing that was computed of it before now may be kept.
    pub(super) fn delete(&mut self, place: &Place) {
        // Nothing rests for a day before it is written.
        self.deleted.retain(|_, at| at.elapsed() < DAY);
        self.deleted.insert(place.clone(), Instant::now());
    }

    pub(super) fn was_deleted(&self, place: &Place, used: Instant) -> bool {
        self.deleted.get(place).is_some_and(|at| *at >= used)
    }

    /// A file is gone; returns its path if there was one.
    pub(super) fn remove(&mut self, place: &Place, root: &Path) -> Option<PathBuf> {
        self.files.remove(place).map(|_| place.path(root))
    }
}

/// A day, and how many bytes were written then.
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
        // Without it a day may have more than it should.
        drop(told);
    }
}

fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() / DAY.as_secs())
}

/// The day and the bytes that the file says, if it says so.
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
