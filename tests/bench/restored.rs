//! What it takes to have a session again whose pages are gone: from the disk, from the host's memory, and by reading its text
//! again; which of the first and the last the daemon chooses by what it has measured; and what a branch takes. How fast pages come
//! back is held against what one reader gets of the same file in its order, with or without the page cache, whichever is faster.
//!
//! `cargo run --release --example restored -- MODEL FOLDER [cpu|cuda] [TOKENS...]`: pages are written below the folder, whose
//! disk is what is measured; before each restore its file is dropped from the page cache. It prints figures and judges nothing.

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
use ganglion::kv_store::{HostRules, Rules, Store as Pages};
use ganglion::load::{self, Backend, KvMemory};
use ganglion::sampler::Parameters;
use ganglion::session_store::{Durability, Quota, Store};

const USER: u32 = 1000;
const OTHER: u32 = 1001;
/// Each speed of the disk is the best of so many: what else the machine does makes none faster.
const TIMES: usize = 5;
/// Sessions of more tokens come back only so often: each time they are written anew, gigabytes of a large model.
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
        "tokens  restored  first token, ms: restored  from memory  read again   times  chosen      file, MiB  read, MB/s  disk alone   share  \
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

/// An engine, and where its pages are.
struct Bench {
    handle: Handle,
    pages: Arc<Pages>,
    root: PathBuf,
    context: usize,
}

impl Bench {
    /// The figures of a session of so many tokens.
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
        // What is not there cannot come back.
        let (again, ..) = self.again(session, &file).await;
        assert_eq!(again.usage.restored, 0, "it was deleted");
        self.written(before + 1).await;
        // By what both have taken.
        pages.configure(Rules {
            measured: true,
            ..RULES
        });
        let (chosen, ..) = self.again(session, &file).await;
        handle.release_session(session, ":1.1000");
        let deleted = handle.delete_session(USER, name).await;
        deleted.expect("nobody holds it");

        #[allow(clippy::cast_precision_loss)] // for people
        let ms = |outcome: &Outcome| outcome.usage.first_token_us as f64 / 1e3;
        format!(
            "{:>8}  {:>25.1}  {:>11.1}  {:>10.1}  {:>6.1}  {:<10}  {:>9}  {read:>10.0}  {rate:>10.0}  {:>5.0}%  {:>10.1}",
            restored.usage.restored,
            ms(&restored),
            ms(&from_memory),
            ms(&again),
            ms(&again) / ms(&restored),
            if chosen.usage.restored > 0 {
                "disk"
            } else {
                "read again"
            },
            size >> 20,
            100.0 * read / rate,
            branched.as_secs_f64() * 1e6,
        )
    }

    /// A turn of a session that has lost its pages, which is taken back; the bytes that came from the disk for it, and what that
    /// took. Afterwards they are on the disk as they were.
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

    /// The same, where pages are in the host's memory and nowhere else.
    async fn again_from_memory(&self, session: SessionId) -> Outcome {
        self.handle.keep_in_host(IN_HOST);
        self.pages.configure(NOWHERE);
        // It rests once more.
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

    /// Returns when so many files have been written.
    async fn written(&self, files: u64) {
        while self.pages.counts().saved < files {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// Whatever is on the disk comes back.
const RULES: Rules = Rules {
    bytes: 1 << 40,
    writes: None,
    rest: Duration::ZERO,
    stop: Duration::ZERO,
    measured: false,
};

const NOWHERE: Rules = Rules { bytes: 0, ..RULES };

/// The same of the host's memory, wherever the cache lies.
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
    let options = Options::new(2, Parameters::default());
    let sent = handle.send(session, text.into(), options);
    let mut ticket = sent.await.expect("there is room");
    ended(&mut ticket.events).await
}

/// Another user takes all pages.
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

/// How many MB a second the disk gives of a file where nothing else is done with them, in the better of both ways.
fn alone(path: &Path) -> f64 {
    let ways = [nix::libc::O_DIRECT, 0].repeat(TIMES);
    let rates = ways.into_iter().map(|flags| {
        drop_from_page_cache(path);
        in_order(path, flags).unwrap_or(0.0)
    });
    rates.fold(0.0, f64::max)
}

/// What one reader gets. Not every file system reads without the page cache.
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
