//! The store and its thread, which writes files and passes on the pages that `ahead` reads.
//!
//! Callers send pages to be written one by one, and receive pages as they are read. Only a few pages are in flight.
//! `save` and `load` do not wait for the disk; `open` and `delete` do.

use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ahead;
use super::cost::{Cost, Rate};
use super::file::{Layout, Reading, Tokens, Writing};
use super::key::Key;
use super::place::Place;
use super::refusal::Refusal;
use super::rules::Rules;
use super::shelf::Shelf;
use crate::files::Files;
use crate::journal;
use crate::kv::{self, Family, PAGE, PagePlace, Reuse, Wanted, common_prefix};

/// Pages in flight.
const IN_FLIGHT: usize = 2;

/// Notifies a caller that it can send or receive the next page.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A sequence to write.
pub struct Save {
    pub place: Place,
    pub key: Key,
    pub tokens: Vec<(u32, Family)>,
    /// The places of its pages, in order.
    pub places: Vec<PagePlace>,
    /// Bytes of each page.
    pub page_bytes: usize,
    /// The time of the session's last use. If the session was deleted later, nothing is stored.
    pub used: Instant,
    /// Called for each page that was taken.
    pub wake: Wake,
}

/// A request for the pages that serve a prompt.
pub struct Load {
    pub place: Place,
    pub key: Key,
    /// The prompt, without the tokens that are run in any case.
    pub tokens: Vec<u32>,
    pub said: Vec<Range<usize>>,
    pub reuse: Reuse,
    /// Bytes of each page.
    pub page_bytes: usize,
    pub layout: kv::Layout,
    /// Tokens that are in the cache already.
    pub held: usize,
    /// The cost of computing the positions again.
    pub again: Cost,
    /// Called for each arrival, and at the end.
    pub wake: Wake,
}

/// A message of a reading.
#[derive(Debug)]
pub enum Arrived {
    /// The tokens of the restored sequence, and the places of the pages that follow. This is the first message.
    Sequence(Vec<(u32, Family)>, Vec<PagePlace>),
    /// The next page.
    Page(Vec<u8>),
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files written.
    pub saved: u64,
    /// Files from which pages were restored.
    pub restored: u64,
    /// Files that did not match or were damaged.
    pub refused: u64,
    /// Bytes of restored pages, and the time until the last of them was taken.
    pub read: u64,
    pub reading: Duration,
}

enum Job {
    Save(Save, Receiver<Vec<u8>>),
    Load(Box<Load>, SyncSender<Arrived>),
    /// Finishes all earlier jobs.
    Flush(SyncSender<()>),
}

/// The pages of all sessions on disk.
pub struct Store {
    jobs: Mutex<Sender<Job>>,
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    files: Arc<dyn Files>,
    pub(super) root: PathBuf,
    rules: Mutex<Rules>,
    /// Nothing waits for the disk while it holds this lock, because the engine needs it.
    shelf: Mutex<Shelf>,
    /// Held while a file gets or loses its name, so that the disk and the shelf change in the same order.
    names: Mutex<()>,
    counts: Mutex<Counts>,
}

impl Store {
    /// Opens the store below `root`, in the folders of users. It lists the files before it returns.
    pub fn open(files: Arc<dyn Files>, root: PathBuf, rules: Rules) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            shelf: Mutex::new(Shelf::read(&*files, &root, rules.bytes)),
            names: Mutex::default(),
            files,
            root,
            rules: Mutex::new(rules),
            counts: Mutex::default(),
        });
        let (jobs, received) = mpsc::channel();
        let works = shared.clone();
        thread::Builder::new()
            .name("pages".into())
            .spawn(move || works.serve(&received))?;
        Ok(Self {
            jobs: Mutex::new(jobs),
            shared,
        })
    }

    /// Sets the limits.
    pub fn configure(&self, rules: Rules) {
        *self.shared.rules.lock() = rules;
    }

    #[must_use]
    pub fn rules(&self) -> Rules {
        *self.shared.rules.lock()
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.shared.counts.lock()
    }

    /// Whether pages of a session can be restored.
    #[must_use]
    pub fn has(&self, place: &Place) -> bool {
        self.rules().bytes > 0 && self.shared.shelf.lock().has(place)
    }

    /// Whether there is a file for a session, readable or not.
    #[must_use]
    pub fn keeps(&self, place: &Place) -> bool {
        self.shared.shelf.lock().has(place)
    }

    /// Starts writing a sequence whose pages are sent in order. If the sender is dropped early, nothing is stored.
    /// Returns `None` without room, or if too much was written today.
    #[must_use]
    pub fn save(&self, save: Save) -> Option<SyncSender<Vec<u8>>> {
        let pages = (save.places.len(), save.page_bytes);
        let bytes = Layout::new(&save.key, save.tokens.len(), pages).bytes();
        let Rules {
            bytes: most,
            writes,
            ..
        } = self.rules();
        if bytes > most || !self.shared.shelf.lock().may_write(bytes, writes) {
            return None;
        }
        let (pages, taken) = mpsc::sync_channel(IN_FLIGHT);
        self.hand(Job::Save(save, taken)).then_some(pages)
    }

    /// Starts reading the pages of a session that serve a prompt. The channel closes without a message if there are
    /// none, or if the file is damaged.
    #[must_use]
    pub fn load(&self, load: Load) -> Receiver<Arrived> {
        let (arrived, taken) = mpsc::sync_channel(IN_FLIGHT);
        self.hand(Job::Load(Box::new(load), arrived));
        taken
    }

    /// Deletes the pages of a session, including those that are being written. Waits for the disk.
    pub fn delete(&self, place: &Place) {
        self.shared.delete(place);
    }

    /// Waits until all earlier jobs are done, but not longer than `wait`.
    pub fn flush(&self, wait: Duration) {
        let (done, all) = mpsc::sync_channel(1);
        if self.hand(Job::Flush(done)) {
            let _ = all.recv_timeout(wait);
        }
    }

    fn hand(&self, job: Job) -> bool {
        self.jobs.lock().send(job).is_ok()
    }
}

impl Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Store");
        shown
            .field("root", &self.shared.root)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn serve(&self, jobs: &Receiver<Job>) {
        let mut rate = Rate::default();
        for job in jobs {
            match job {
                Job::Save(save, pages) => self.save(&save, &pages),
                Job::Load(load, arrived) => {
                    self.load(&load, &arrived, &mut rate);
                    drop(arrived);
                    (load.wake)();
                }
                Job::Flush(done) => drop(done.send(())),
            }
        }
    }

    fn save(&self, save: &Save, pages: &Receiver<Vec<u8>>) {
        let (place, tokens) = (&save.place, &save.tokens);
        let layout = Layout::new(
            &save.key,
            tokens.len(),
            (save.places.len(), save.page_bytes),
        );
        let unfinished = place.unfinished(&self.root);
        let mut bytes = 0;
        let whole = self.write(save, pages, layout, &mut bytes);
        // The write counts even if it fails, because it wears the disk.
        let record = self.shelf.lock().wrote(bytes);
        record.write(&*self.files, &self.root);
        let written = match whole {
            Ok(true) => self.put(place, layout.bytes(), save.used),
            unfinished => unfinished,
        };
        match written {
            Ok(true) => {
                self.counts.lock().saved += 1;
                let path = place.path(&self.root).display().to_string();
                journal::pages_saved(&path, place.user, tokens.len(), layout.bytes());
            }
            Ok(false) => drop(self.files.remove(&unfinished)),
            Err(error) => {
                let _ = self.files.remove(&unfinished);
                let path = unfinished.display().to_string();
                journal::pages_unwritten(&path, place.user, &error.to_string());
            }
        }
    }

    /// Writes a file that has no name yet. Returns whether it is complete, and the bytes written.
    fn write(
        &self,
        save: &Save,
        pages: &Receiver<Vec<u8>>,
        layout: Layout,
        bytes: &mut u64,
    ) -> io::Result<bool> {
        self.make_room(&save.place, layout.bytes())?;
        let unfinished = save.place.unfinished(&self.root);
        let mut writing = Writing::begin(&*self.files, &unfinished, layout)?;
        for page in pages {
            *bytes += page.len() as u64;
            writing.page(&page)?;
            (save.wake)();
        }
        if !writing.is_whole() {
            return Ok(false);
        }
        *bytes = layout.bytes();
        writing.finish(&save.key, &save.tokens, &save.places)?;
        Ok(true)
    }

    /// Deletes files so that a file of a size fits.
    fn make_room(&self, place: &Place, bytes: u64) -> io::Result<()> {
        let most = self.rules.lock().bytes;
        let leaving = self.shelf.lock().leaving(place, bytes, most);
        let leaving = leaving.ok_or(io::ErrorKind::QuotaExceeded)?;
        for one in leaving {
            self.remove(&one);
        }
        Ok(())
    }

    /// Gives a complete file its name, unless its session was deleted meanwhile.
    fn put(&self, place: &Place, bytes: u64, used: Instant) -> io::Result<bool> {
        let _names = self.names.lock();
        if self.shelf.lock().was_deleted(place, used) {
            return Ok(false);
        }
        let unfinished = place.unfinished(&self.root);
        self.files.rename(&unfinished, &place.path(&self.root))?;
        self.files.sync_folder(&place.folder(&self.root))?;
        self.shelf.lock().add(place.clone(), bytes);
        Ok(true)
    }

    fn load(&self, load: &Load, arrived: &SyncSender<Arrived>, rate: &mut Rate) {
        if !self.shelf.lock().has(&load.place) {
            return;
        }
        let path = load.place.path(&self.root);
        let positions = match self.restore(load, arrived, rate) {
            Ok(positions) => positions,
            Err(refusal) => {
                // A file that cannot be read for a temporary reason may be good.
                if !refusal.is_passing() {
                    self.remove(&load.place);
                }
                self.counts.lock().refused += 1;
                let (path, refusal) = (path.display().to_string(), refusal.to_string());
                journal::pages_refused(&path, load.place.user, &refusal);
                return;
            }
        };
        if positions > 0 {
            self.shelf.lock().touch(&load.place);
            self.counts.lock().restored += 1;
            let path = path.display().to_string();
            journal::pages_restored(&path, load.place.user, positions);
        }
    }

    /// Sends the pages that serve a prompt. Returns the number of positions.
    fn restore(
        &self,
        load: &Load,
        arrived: &SyncSender<Arrived>,
        rate: &mut Rate,
    ) -> Result<usize, Refusal> {
        let path = load.place.path(&self.root);
        let mut reading = Reading::open(&*self.files, &path, &load.key)?;
        if reading.page_bytes() != load.page_bytes {
            return Err(Refusal::Key("size of pages".into()));
        }
        let wanted = Wanted {
            tokens: &load.tokens,
            said: &load.said,
        };
        let common = common_prefix(&reading.tokens, wanted, load.reuse);
        let shared = load.layout.usable(&reading.places, common);
        let places: Vec<_> = load.layout.missing(load.held, shared).collect();
        let at = |place| reading.places.binary_search(place).ok();
        let pages: Vec<usize> = places.iter().filter_map(at).collect();
        // Less than a page is not worth restoring.
        if shared < load.held + PAGE {
            return Ok(0);
        }
        let bytes = (pages.len() * load.page_bytes) as u64;
        let missing = reading.tokens[load.held..shared].iter();
        let missing = missing.map(|(_, family)| *family);
        let measured = self.rules.lock().measured;
        if measured && !rate.pays(bytes, &load.again, load.held, missing) {
            return Ok(0);
        }
        let tokens: Tokens = reading.tokens[..shared].to_vec();
        if arrived.send(Arrived::Sequence(tokens, places)).is_err() {
            return Ok(0);
        }
        let begun = Instant::now();
        let all = ahead::read(&reading, &pages, |page| {
            let taken = arrived.send(Arrived::Page(page)).is_ok();
            (load.wake)();
            taken
        })?;
        if !all {
            return Ok(0);
        }
        let took = begun.elapsed();
        rate.measure(bytes, took);
        let mut counts = self.counts.lock();
        counts.read += bytes;
        counts.reading += took;
        drop(counts);
        reading.touch();
        Ok(shared - load.held)
    }

    fn delete(&self, place: &Place) {
        self.shelf.lock().delete(place);
        self.remove(place);
    }

    fn remove(&self, place: &Place) {
        let _names = self.names.lock();
        let removed = self.shelf.lock().remove(place, &self.root);
        if let Some(path) = removed {
            let removed = self.files.remove(&path);
            // After a power cut the file may be back. Its session is not, so it is evicted early.
            let synced = self.files.sync_folder(&place.folder(&self.root));
            if let Err(error) = removed.and(synced) {
                let path = path.display().to_string();
                journal::pages_unwritten(&path, place.user, &error.to_string());
            }
        }
    }
}
