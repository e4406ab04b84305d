//! Measures the restore of a session whose pages are evicted: from the disk, from the host's memory, and by prefill. It
//! also prints the first token of a session that was not evicted, which of disk and prefill the daemon selects, and the
//! cost of a branch. A single reader of the same file, with or without the page cache, gives the disk's own speed.
//!
//! Run `cargo run --release --example restored -- MODEL FOLDER [cpu|cuda] [TOKENS...]`. The disk of FOLDER holds the
//! pages. Each restore starts without its file in the page cache. The program prints figures; it judges nothing.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ganglion::engine::{
    Client, Event, Handle, Limits, Message, Name, Opening, Options, Outcome, Role, SessionId,
    Share, State, UserLimits, channel, worker,
};
use ganglion::files::Disk;
use ganglion::guide::Grammar;
use ganglion::kv_store::{HostRules, Rules, Store as Pages};
use ganglion::load::{self, Backend, KvMemory};
use ganglion::sampler::Parameters;
use ganglion::session_store::{Durability, Quota, Store};

const USER: u32 = 1000;
const OTHER: u32 = 1001;
/// Measurements per speed of the disk. The best one counts, because other work on the machine only slows it down.
const TIMES: usize = 5;
/// Restores of long sessions, each of which writes gigabytes of a large model first.
const LONG: usize = 8000;
const TIMES_LONG: usize = 2;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(model), Some(folder)) = (arguments.next(), arguments.next()) else {
        eprintln!("restored MODEL FOLDER [cpu|cuda] [TOKENS...]");
        std::process::exit(2);
    };
    let backend = match arguments.next().as_deref() {
        Some("cuda") => Backend::Cuda,
        _ => Backend::Cpu,
    };
    let lengths: Vec<usize> = arguments.filter_map(|length| length.parse().ok()).collect();
    let lengths = if lengths.is_empty() {
        vec![500, 4000, 16_000]
    } else {
        lengths
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(measure(model.into(), Path::new(&folder), backend, &lengths));
}

async fn measure(model: PathBuf, folder: &Path, backend: Backend, lengths: &[usize]) {
    let root = folder.join("restored-pages");
    let (handle, pages) = start(model, &root, backend).await;
    let context = handle.status().borrow().model.context as usize;
    let bench = Bench {
        handle,
        pages,
        root,
        context,
    };
    println!(
        "tokens  restored  first token, ms: restored  in cache  computed  from memory     prefill   times  chosen      file, MiB  read, MB/s  disk alone   share  \
         branch, us"
    );
    for length in lengths {
        if length + 64 > context {
            println!("{length:>6}  not run: the model's context is {context}");
            continue;
        }
        println!("{length:>6}  {}", bench.row(*length).await);
    }
    let _ = std::fs::remove_dir_all(bench.root);
}

/// An engine, and the place of its pages.
struct Bench {
    handle: Handle,
    pages: Arc<Pages>,
    root: PathBuf,
    context: usize,
}

impl Bench {
    /// Prints the figures of a session of that many tokens.
    async fn row(&self, length: usize) -> String {
        let Self { handle, pages, .. } = self;
        let name = Name::new(&format!("of-{length}")).expect("a name");
        let file = self.root.join(USER.to_string());
        let file = file.join(format!("{name}.pages"));
        let session = open(handle, &name).await;
        let before = pages.counts().saved;
        // A word is a token.
        say(handle, session, &" hello".repeat(length)).await;
        let branched = Instant::now();
        let branch = handle.branch(session, client(USER)).await;
        let branched = branched.elapsed();
        handle.close_session(branch.expect("there is room"));
        self.written(before + 1).await;
        // The next turn of a session that is still in the cache.
        let before = pages.counts().saved;
        let next = say(handle, session, "a").await;
        handle.rewind(session, 1).await.expect("it has two");
        self.written(before + 1).await;

        pages.configure(RULES);
        let mut all = Vec::new();
        let times = if length > LONG { TIMES_LONG } else { TIMES };
        for _ in 0..times {
            let (restored, bytes, reading) = self.again(session, &file).await;
            #[allow(clippy::cast_precision_loss)] // for people
            all.push((restored, bytes as f64 / reading.as_secs_f64() / 1e6));
        }
        all.sort_by(|(_, one), (_, other)| one.total_cmp(other));
        let (restored, read) = all.swap_remove(all.len() - 1);
        let rate = alone(&file);
        let size = std::fs::metadata(&file).expect("it is there").len();
        let from_memory = self.again_from_memory(session).await;
        self.pages.delete(&ganglion::kv_store::Place {
            user: USER,
            name: name.clone(),
        });
        let before = pages.counts().saved;
        // Without pages there is no restore.
        let (again, ..) = self.again(session, &file).await;
        assert_eq!(again.usage.restored, 0, "it was deleted");
        self.written(before + 1).await;
        // The choice by both measured speeds.
        pages.configure(Rules {
            measured: true,
            ..RULES
        });
        let (chosen, ..) = self.again(session, &file).await;
        handle.release_session(session, &":1.1000".into());
        let deleted = handle.delete_session(USER, name).await;
        deleted.expect("it is free");

        #[allow(clippy::cast_precision_loss)] // for people
        let ms = |outcome: &Outcome| outcome.usage.first_token_us as f64 / 1e3;
        format!(
            "{:>8}  {:>25.1}  {:>9.1}  {:>8}  {:>11.1}  {:>10.1}  {:>6.1}  {:<10}  {:>9}  {read:>10.0}  {rate:>10.0}  {:>5.0}%  {:>10.1}",
            restored.usage.restored,
            ms(&restored),
            ms(&next),
            next.usage.prompt_tokens - next.usage.cached_tokens,
            ms(&from_memory),
            ms(&again),
            ms(&again) / ms(&restored),
            if chosen.usage.restored > 0 {
                "disk"
            } else {
                "prefill"
            },
            size >> 20,
            100.0 * read / rate,
            branched.as_secs_f64() * 1e6,
        )
    }

    /// Rewinds a turn of a session without pages. Returns the bytes that were read from the disk and the time.
    /// Afterwards the disk holds the same pages.
    async fn again(&self, session: SessionId, file: &Path) -> (Outcome, u64, Duration) {
        evict(&self.handle, self.context).await;
        if file.exists() {
            drop_from_page_cache(file);
        }
        let before = self.pages.counts();
        let outcome = say(&self.handle, session, "a").await;
        self.handle.rewind(session, 1).await.expect("it has two");
        self.written(before.saved + 1).await;
        let now = self.pages.counts();
        (
            outcome,
            now.read - before.read,
            now.reading.saturating_sub(before.reading),
        )
    }

    /// Does this with pages in the host's memory only.
    async fn again_from_memory(&self, session: SessionId) -> Outcome {
        self.handle.keep_in_host(IN_HOST);
        self.pages.configure(NOWHERE);
        // The session becomes idle once more.
        say(&self.handle, session, "a").await;
        self.handle.rewind(session, 1).await.expect("it has two");
        while self.handle.live().work.pages_in_host == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        evict(&self.handle, self.context).await;
        let outcome = say(&self.handle, session, "a").await;
        assert_ne!(outcome.usage.restored, 0, "it is in the host's memory");
        self.handle.rewind(session, 1).await.expect("it has two");
        self.handle.keep_in_host(HostRules::default());
        self.pages.configure(RULES);
        outcome
    }

    /// Returns after that many files have been written.
    async fn written(&self, files: u64) {
        while self.pages.counts().saved < files {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Makes the engine restore all pages on the disk.
const RULES: Rules = Rules {
    bytes: 1 << 40,
    writes: None,
    rest: Duration::ZERO,
    stop: Duration::ZERO,
    measured: false,
};

const NOWHERE: Rules = Rules { bytes: 0, ..RULES };

/// Makes the engine restore all pages in the host's memory, on any device.
const IN_HOST: HostRules = HostRules {
    bytes: 1 << 40,
    discrete: false,
    rest: Duration::ZERO,
    measured: false,
};

async fn start(model: PathBuf, root: &Path, backend: Backend) -> (Handle, Arc<Pages>) {
    let (handle, inbox) = channel(Limits {
        requests: 64,
        queue: 64,
        sessions: 8,
        prefill: Share::default(),
        grammar: ganglion::guide::Limits::USUAL,
        user: UserLimits {
            requests: 64,
            sessions: 8,
            queue_percent: 100,
            kv_percent: 100,
        },
    });
    let files = Arc::new(Disk);
    let quota = Quota {
        sessions: 64,
        bytes: 1 << 30,
    };
    let store = Store::new(files.clone(), root.into(), Durability::Turn, quota);
    handle.set_store(Arc::new(store.expect("a thread")));
    let pages = Arc::new(Pages::open(files, root.into(), RULES).expect("a thread"));
    handle.set_pages(pages.clone());
    let settings = worker::Settings {
        chat_template: None,
        model,
        runner: load::Settings {
            backend,
            context: 0,
            kv_memory: KvMemory::Conversations(1),
            ..load::Settings::default()
        },
    };
    std::thread::spawn(move || worker::run(&inbox, &settings));
    let mut status = handle.status();
    let loaded = status.wait_for(|status| status.state != State::Loading);
    let loaded = loaded.await.expect("the engine lives").clone();
    assert_eq!(loaded.state, State::Ready, "{}", loaded.detail);
    (handle, pages)
}

fn client(user: u32) -> Client {
    Client {
        name: format!(":1.{user}").into(),
        user,
    }
}

async fn open(handle: &Handle, name: &Name) -> SessionId {
    let opened = handle.open_named(Opening {
        client: client(USER),
        name: name.clone(),
        persistent: None,
        take: false,
        messages: Vec::new(),
        options: serde_json::Map::new(),
    });
    opened.await.expect("it is new").id
}

async fn say(handle: &Handle, session: SessionId, text: &str) -> Outcome {
    let options = Options {
        // A cut answer of letters is the same tokens in the next prompt. Random ones may not be, and are computed again.
        grammar: Some(Grammar::Regex("[a-z]+".into())),
        ..Options::new(2, Parameters::default())
    };
    let sent = handle.send(session, text.into(), options);
    let mut ticket = sent.await.expect("there is room");
    ended(&mut ticket.events).await
}

/// Lets another user take all pages.
async fn evict(handle: &Handle, context: usize) {
    let messages = vec![Message::new(Role::User, "hello")];
    let options = Options::new(context, Parameters::default());
    let generated = handle.generate(client(OTHER), messages, options);
    let mut ticket = generated.await.expect("there is room");
    ticket.events.recv().await.expect("it ends");
    handle.cancel(ticket.id);
    ended(&mut ticket.events).await;
}

async fn ended(events: &mut tokio::sync::mpsc::UnboundedReceiver<Event>) -> Outcome {
    loop {
        if let Event::Done(outcome) = events.recv().await.expect("it ends") {
            assert_eq!(outcome.error, None);
            return outcome;
        }
    }
}

fn dd(arguments: &[String]) {
    let ran = Command::new("dd").args(arguments).output();
    assert!(ran.expect("dd is there").status.success(), "{arguments:?}");
}

fn drop_from_page_cache(file: &Path) {
    let of = format!("of={}", file.display());
    dd(&[
        of,
        "oflag=nocache".into(),
        "conv=notrunc,fdatasync".into(),
        "count=0".into(),
    ]);
}

/// Returns the disk's MB per second for a file, by the faster of both ways to read it.
fn alone(path: &Path) -> f64 {
    let ways = [nix::libc::O_DIRECT, 0].repeat(TIMES);
    let rates = ways.into_iter().map(|flags| {
        drop_from_page_cache(path);
        in_order(path, flags).unwrap_or(0.0)
    });
    rates.fold(0.0, f64::max)
}

/// Returns one reader's speed. Some file systems cannot read without the page cache.
fn in_order(path: &Path, flags: i32) -> std::io::Result<f64> {
    const BLOCK: usize = 4 << 20;
    const ALIGNMENT: usize = 4096;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let mut memory = vec![0_u8; BLOCK + ALIGNMENT];
    let aligned = memory.as_ptr().align_offset(ALIGNMENT);
    let block = &mut memory[aligned..][..BLOCK];
    let (begun, mut read) = (Instant::now(), 0);
    loop {
        match file.read_at(block, read)? {
            0 => break,
            bytes => read += bytes as u64,
        }
    }
    #[allow(clippy::cast_precision_loss)] // for people
    Ok(read as f64 / begun.elapsed().as_secs_f64() / 1e6)
}
