//! The files, and the thread that reads and writes them. Who has pages written hands them over one after another, and who
//! wants them back takes them as they come: neither ever waits for the disk, and no more than a few pages are on their way.

use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

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
use crate::kv::{Family, PAGE, Reuse, Wanted, common_prefix};

/// Pages that are on their way at once.
const ON_THE_WAY: usize = 2;

/// Tells whoever hands pages over, or takes them, that it can go on.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A sequence that is to be written.
pub struct Save {
    pub place: Place,
    pub key: Key,
    pub tokens: Vec<(u32, Family)>,
    /// Each page has so many.
    pub page_bytes: usize,
    /// Its session was of use then: if it was deleted since, nothing is kept.
    pub used: Instant,
    /// Called for each page that was taken.
    pub wake: Wake,
}

/// A prompt of which as much is wanted as there is.
pub struct Load {
    pub place: Place,
    pub key: Key,
    /// The prompt, without what is to be run in any case.
    pub tokens: Vec<u32>,
    pub said: Vec<Range<usize>>,
    pub reuse: Reuse,
    /// Each page has so many.
    pub page_bytes: usize,
    /// Tokens that are there already.
    pub held: usize,
    /// What it would take without the disk.
    pub again: Cost,
    /// Called for all that arrives, and at the end.
    pub wake: Wake,
}

/// What comes back.
#[derive(Debug)]
pub enum Arrived {
    /// The tokens that its pages hold, as far as they are wanted. It comes first.
    Tokens(Vec<(u32, Family)>),
    /// The next page, from the first on that is not there yet as a whole.
    Page(Vec<u8>),
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that were written.
    pub saved: u64,
    /// Files that something came back from.
    pub restored: u64,
    /// Files that did not match or were damaged.
    pub refused: u64,
    /// Bytes of pages that came back, and what that took until the last of them was taken.
    pub read: u64,
    pub reading: Duration,
}

enum Job {
    Save(Save, Receiver<Vec<u8>>),
    Load(Box<Load>, SyncSender<Arrived>),
    /// All before it is done.
    Flush(SyncSender<()>),
}

/// All pages that are kept.
pub struct Store {
    jobs: Mutex<Sender<Job>>,
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    files: Arc<dyn Files>,
    pub(super) root: PathBuf,
    rules: Mutex<Rules>,
    /// Nobody waits for the disk who holds it: the engine asks it.
    shelf: Mutex<Shelf>,
    /// Whoever gives a file its name or takes it away holds this meanwhile, so that both know of it in the same order.
    names: Mutex<()>,
    counts: Mutex<Counts>,
}

impl Store {
    /// Keeps pages below `root`, in the folders of users. It looks at what there is before it returns.
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

    /// Sets the rules that hold from now on.
    pub fn configure(&self, rules: Rules) {
        *lock(&self.shared.rules) = rules;
    }

    #[must_use]
    pub fn rules(&self) -> Rules {
        *lock(&self.shared.rules)
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        *lock(&self.shared.counts)
    }

    /// Whether something is kept of a session, and may be read.
    #[must_use]
    pub fn has(&self, place: &Place) -> bool {
        self.rules().bytes > 0 && lock(&self.shared.shelf).has(place)
    }

    /// The same, whether it may be read or not.
    #[must_use]
    pub fn keeps(&self, place: &Place) -> bool {
        lock(&self.shared.shelf).has(place)
    }

    /// Has a sequence written, whose pages are to be sent in their order. If the other end goes before the last one, nothing is.
    /// `None` if there is no room for it, or too much was written today.
    #[must_use]
    pub fn save(&self, save: Save) -> Option<SyncSender<Vec<u8>>> {
        let bytes = Layout::new(&save.key, save.tokens.len(), save.page_bytes).bytes();
        let Rules {
            bytes: most,
            writes,
            ..
        } = self.rules();
        if bytes > most || !lock(&self.shared.shelf).may_write(bytes, writes) {
            return None;
        }
        let (pages, taken) = mpsc::sync_channel(ON_THE_WAY);
        self.hand(Job::Save(save, taken)).then_some(pages)
    }

    /// Has what is kept of a session read, as far as it serves. What arrives ends without a word where it does not, or where the
    /// file turns out to be damaged.
    #[must_use]
    pub fn load(&self, load: Load) -> Receiver<Arrived> {
        let (arrived, taken) = mpsc::sync_channel(ON_THE_WAY);
        self.hand(Job::Load(Box::new(load), arrived));
        taken
    }

    /// Deletes what is kept of a session, also if it is being written.
    pub fn delete(&self, place: &Place) {
        self.shared.delete(place);
    }

    /// Returns when all that was asked for is done, or the time is over.
    pub fn flush(&self, wait: Duration) {
        let (done, all) = mpsc::sync_channel(1);
        if self.hand(Job::Flush(done)) {
            let _ = all.recv_timeout(wait);
        }
    }

    fn hand(&self, job: Job) -> bool {
        lock(&self.jobs).send(job).is_ok()
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
        let layout = Layout::new(&save.key, tokens.len(), save.page_bytes);
        let unfinished = place.unfinished(&self.root);
        let mut bytes = 0;
        let whole = self.write(save, pages, layout, &mut bytes);
        // It wears the disk whatever becomes of it.
        let record = lock(&self.shelf).wrote(bytes);
        record.write(&*self.files, &self.root);
        let written = match whole {
            Ok(true) => self.put(place, layout.bytes(), save.used),
            unfinished => unfinished,
        };
        match written {
            Ok(true) => {
                lock(&self.counts).saved += 1;
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

    /// Writes a file that has no name yet; tells whether all of it is there, and how many bytes were written.
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
        writing.finish(&save.key, &save.tokens)?;
        Ok(true)
    }

    /// Deletes what goes before a file of so many bytes.
    fn make_room(&self, place: &Place, bytes: u64) -> io::Result<()> {
        let most = lock(&self.rules).bytes;
        let leaving = lock(&self.shelf).leaving(place, bytes, most);
        let leaving = leaving.ok_or(io::ErrorKind::QuotaExceeded)?;
        for one in leaving {
            self.remove(&one);
        }
        Ok(())
    }

    /// Gives a file that is whole its name, unless its session was deleted meanwhile.
    fn put(&self, place: &Place, bytes: u64, used: Instant) -> io::Result<bool> {
        let _names = lock(&self.names);
        if lock(&self.shelf).was_deleted(place, used) {
            return Ok(false);
        }
        let unfinished = place.unfinished(&self.root);
        self.files.rename(&unfinished, &place.path(&self.root))?;
        self.files.sync_folder(&place.folder(&self.root))?;
        lock(&self.shelf).add(place.clone(), bytes);
        Ok(true)
    }

    fn load(&self, load: &Load, arrived: &SyncSender<Arrived>, rate: &mut Rate) {
        if !lock(&self.shelf).has(&load.place) {
            return;
        }
        let path = load.place.path(&self.root);
        let positions = match self.restore(load, arrived, rate) {
            Ok(positions) => positions,
            Err(refusal) => {
                // What cannot be read now may be read the next time.
                if !refusal.is_passing() {
                    self.remove(&load.place);
                }
                lock(&self.counts).refused += 1;
                let (path, refusal) = (path.display().to_string(), refusal.to_string());
                journal::pages_refused(&path, load.place.user, &refusal);
                return;
            }
        };
        if positions > 0 {
            lock(&self.shelf).touch(&load.place);
            lock(&self.counts).restored += 1;
            let path = path.display().to_string();
            journal::pages_restored(&path, load.place.user, positions);
        }
    }

    /// Tells how many positions there were that serve.
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
        let shared = common_prefix(&reading.tokens, wanted, load.reuse);
        let pages = load.held / PAGE..shared.div_ceil(PAGE);
        // Less than a page is not worth a word.
        if shared < load.held + PAGE {
            return Ok(0);
        }
        let bytes = (pages.len() * load.page_bytes) as u64;
        let missing = reading.tokens[load.held..shared].iter();
        let missing = missing.map(|(_, family)| *family);
        let measured = lock(&self.rules).measured;
        if measured && !rate.pays(bytes, &load.again, load.held, missing) {
            return Ok(0);
        }
        let tokens: Tokens = reading.tokens[..shared].to_vec();
        if arrived.send(Arrived::Tokens(tokens)).is_err() {
            return Ok(0);
        }
        let begun = Instant::now();
        let all = ahead::read(&reading, pages, |page| {
            let taken = arrived.send(Arrived::Page(page)).is_ok();
            (load.wake)();
            taken
        })?;
        if !all {
            return Ok(0);
        }
        let took = begun.elapsed();
        rate.measure(bytes, took);
        let mut counts = lock(&self.counts);
        counts.read += bytes;
        counts.reading += took;
        drop(counts);
        reading.touch();
        Ok(shared - load.held)
    }

    fn delete(&self, place: &Place) {
        lock(&self.shelf).delete(place);
        self.remove(place);
    }

    fn remove(&self, place: &Place) {
        let _names = lock(&self.names);
        let removed = lock(&self.shelf).remove(place, &self.root);
        if let Some(path) = removed {
            let removed = self.files.remove(&path);
            // After a power cut it may be there again: its session is not, and it goes before others.
            let synced = self.files.sync_folder(&place.folder(&self.root));
            if let Err(error) = removed.and(synced) {
                let path = path.display().to_string();
                journal::pages_unwritten(&path, place.user, &error.to_string());
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change of what it guards is whole before anything could panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
