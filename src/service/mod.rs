//! The service: owns the bus name, serves HTTP on its sockets, loads the model, reports its state to systemd and the
//! journal (`announce`, `watchdog`), follows the board, reloads the configuration and stops in order.
//! Not here: requests, which go from the bus and from HTTP to the engine directly.

mod announce;
mod arguments;
mod board;
mod derived;
mod extension;
mod failure;
mod notify;
mod origin;
mod panics;
mod pressure;
mod reload;
mod sessions;
mod signals;
mod source;
mod stop;
mod threads;
mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::Runtime;

pub use arguments::{Arguments, EXIT_CODES};
pub use failure::Failure;
pub use origin::{Origin, Read};
use source::Thread;
pub use source::{TokenSource, settings};

use crate::bus::{self, Address, BusConfig};
use crate::config::Config;
use crate::engine::{self, Handle, State, Status};
use crate::front::{self, Front};
use crate::http::listen::{self, Inherited};
use crate::http::{self, Http, HttpConfig};
use crate::journal::{self, Journal};
use derived::limits;
use panics::Panics;
use pressure::{Pressure, Sources};
use reload::Reloader;
use signals::Signals;
use watchdog::Watchdog;

/// The time before a failed daemon exits, in which clients can read the reason.
const LINGER: Duration = Duration::from_millis(250);
/// The same time if a later start may succeed. systemd gives up after five starts, which together should take most of a
/// minute.
const LINGER_TEMPORARY: Duration = Duration::from_secs(8);

/// The parts that the daemon is made of.
#[derive(Debug)]
pub struct Parts {
    pub bus: Address,
    /// The descriptors that the process was started with.
    pub inherited: Inherited,
    /// The path of a socket for HTTP to make.
    pub http: Option<PathBuf>,
    /// The folder with the files of the board; `/` on a real one.
    pub board: PathBuf,
    pub origin: Origin,
    pub journal: Journal,
}

/// Runs the service on a new reactor until a signal stops it.
pub fn start(parts: Parts) -> Result<(), Failure> {
    raise_open_files();
    let panics = Panics::report();
    let runtime = Runtime::new()?;
    let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(parts, panics))));
    // Tasks that still encode or load have no callers left.
    runtime.shutdown_background();
    result.unwrap_or(Err(Failure::Panic))
}

/// Serves until SIGTERM or SIGINT, and then ends every stream.
async fn run(parts: Parts, mut panics: Panics) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut hangups = signals::hangups()?;
    let (engine, inbox) = engine::channel(limits(&Config::default()));

    // The name comes before everything that can take long or fail: D-Bus activation times out after 25 seconds.
    let front = Front::new(engine.clone());
    let bus = bus::serve(&parts.bus, front.clone()).await?;
    let reloads = bus.take_reloads();
    journal::started(env!("CARGO_PKG_VERSION"), &parts.bus.to_string());
    let http = Arc::new(serve_http(parts.inherited, parts.http, front.clone()));
    tokio::spawn(announce::announce(engine.status()));
    let read = match parts.origin.read() {
        Ok(read) => read,
        Err(error) => {
            inbox.fail(&error.to_string());
            // Reload calls are refused from here on.
            drop(reloads);
            front.configure(front::Config::default());
            bus.configure(BusConfig::default());
            http.configure(HttpConfig::default());
            tokio::time::sleep(LINGER).await;
            stop::deliver_failure(bus, &http).await;
            return Err(error.into());
        }
    };
    let stall = read.config.watchdog.stall;
    let mut reloader = Reloader {
        origin: parts.origin,
        front,
        http: http.clone(),
        journal: parts.journal,
        watchdog: Watchdog::start(engine.clone(), &bus, stall)?,
        pressure: Pressure::watch(engine.clone(), Sources::default()),
        config: Config::default(),
        keys: None,
    };
    engine.set_formats(read.formats);
    engine.set_store(sessions::open(&read.config)?);
    engine.set_pages(sessions::open_pages(&read.config)?);
    reloader.apply(read.config, read.keys, &engine, &bus);
    tokio::spawn(extension::of_start(engine.clone(), stall));
    engine.board().set_root(&parts.board);
    tokio::spawn(board::follow(engine.clone()));
    let mut thread = read.source.start(inbox, &reloader.config)?;

    tokio::select! {
        () = signals.next() => {}
        failure = failure(&engine, &mut thread, &mut panics) => {
            stop::deliver_failure(bus, &http).await;
            return Err(failure);
        }
        () = reloader.serve(&engine, &bus, reloads, &mut hangups) => {}
        never = bus.keep() => match never {},
    }
    let time = stop::Time {
        grace: reloader.config.stop.grace,
        pages: reloader.config.kv.stop,
    };
    stop::stop(&engine, bus, &http, thread, time, &mut signals).await;
    if panics.seen() {
        return Err(Failure::Panic);
    }
    journal::stopped();
    Ok(())
}

/// Serves HTTP on the sockets of systemd and on the one at `path`. Without sockets there is no HTTP.
fn serve_http(inherited: Inherited, path: Option<PathBuf>, front: Front) -> Http {
    let mut sockets = inherited.open();
    if let Some(path) = path {
        let named = |error| (format!("unix {}", path.display()), error);
        sockets.push(listen::bind(&path).map_err(named));
    }
    http::serve(sockets, front)
}

/// Waits until the service cannot go on, and returns the reason.
async fn failure(engine: &Handle, thread: &mut Thread, panics: &mut Panics) -> Failure {
    tokio::select! {
        // A failed load or a panic also ends the thread, and is the more precise reason.
        biased;
        failed = load_failed(engine) => {
            let detail = failed.detail.clone();
            let (linger, failure) = if failed.passes {
                (LINGER_TEMPORARY, Failure::Temporary(detail))
            } else {
                (LINGER, Failure::Model(detail))
            };
            tokio::time::sleep(linger).await;
            failure
        }
        () = panics.any() => Failure::Panic,
        () = thread.ended() => Failure::Engine,
    }
}

async fn load_failed(engine: &Handle) -> Arc<Status> {
    match engine
        .status()
        .wait_for(|status| status.state == State::Failed)
        .await
    {
        Ok(status) => status.clone(),
        Err(_) => std::future::pending().await,
    }
}

/// Raises the soft limit of open files. Each stream is a pipe, and the default of 1024 is for programs that use
/// select(2).
fn raise_open_files() {
    // A refusal only means fewer streams at once.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
