//! The service: owns the name, lets the engine load, tells systemd how it goes, and stops in order.
//!
//! It knows the engine by its handle and the bus by what it promises; requests pass it by.

mod announce;
mod arguments;
mod extension;
mod failure;
mod notify;
mod origin;
mod panics;
mod reload;
mod sessions;
mod signals;
mod source;
mod stop;
mod threads;
mod watchdog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::runtime::Runtime;

pub use arguments::{Arguments, EXIT_CODES};
pub use failure::Failure;
pub use origin::Origin;
use source::Thread;
pub use source::{Source, settings};

use crate::bus::{self, Address, BusConfig};
use crate::config::Config;
use crate::engine::{self, Handle, State, Status};
use crate::front::{self, Front};
use crate::guide;
use crate::journal::{self, Journal};
use panics::Panics;
use reload::Reloader;
use signals::Signals;
use watchdog::Watchdog;

/// A daemon that cannot serve stays for so long: whoever has read why may still ask for its state.
const LINGER: Duration = Duration::from_millis(250);
/// The same where what it lacks may come: systemd gives up after five starts, which together are to wait for most of a minute.
const LATE: Duration = Duration::from_secs(8);

/// The parts that the daemon is made of.
#[derive(Debug)]
pub struct World {
    pub bus: Address,
    pub origin: Origin,
    pub journal: Journal,
}

/// Runs the service on a reactor of its own until it is told to stop.
pub fn start(world: World) -> Result<(), Failure> {
    raise_open_files();
    let panics = Panics::report();
    let runtime = Runtime::new()?;
    let result = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(world, panics))));
    // Whatever still encodes or loads has nobody to tell.
    runtime.shutdown_background();
    result.unwrap_or(Err(Failure::Panic))
}

/// Serves until SIGTERM or SIGINT, and then ends every stream.
async fn run(world: World, mut panics: Panics) -> Result<(), Failure> {
    let mut signals = Signals::listen()?;
    let mut hangups = signals::hangups()?;
    let (engine, inbox) = engine::channel(limits(&Config::default()));

    // The name comes before all that can take long or fail: whoever activated the daemon waits 25 seconds for it.
    let front = Front::new(engine.clone());
    let bus = bus::serve(&world.bus, front.clone()).await?;
    let reloads = bus.take_reloads();
    journal::started(env!("CARGO_PKG_VERSION"), &world.bus.to_string());
    tokio::spawn(announce::announce(engine.status()));
    let (config, source, formats) = match world.origin.read() {
        Ok(read) => read,
        Err(error) => {
            inbox.fail(&error.to_string());
            // Nobody is going to read another one.
            drop(reloads);
            front.configure(front::Config::default());
            bus.configure(BusConfig::default());
            tokio::time::sleep(LINGER).await;
            stop::tell(bus).await;
            return Err(error.into());
        }
    };
    let stall = config.watchdog.stall;
    let mut reloader = Reloader {
        origin: world.origin,
        front,
        journal: world.journal,
        watchdog: Watchdog::start(engine.clone(), &bus, stall)?,
        config: Config::default(),
    };
    engine.set_formats(formats);
    engine.set_store(sessions::open(&config)?);
    engine.set_pages(sessions::open_pages(&config)?);
    reloader.enforce(config, &engine, &bus);
    tokio::spawn(extension::of_start(engine.clone(), stall));
    let mut thread = source.start(inbox, &reloader.config)?;

    tokio::select! {
        () = signals.next() => {}
        failure = ended(&engine, &mut thread, &mut panics) => {
            stop::tell(bus).await;
            return Err(failure);
        }
        () = reloader.serve(&engine, &bus, reloads, &mut hangups) => {}
        never = bus.keep() => match never {},
    }
    let time = stop::Time {
        grace: reloader.config.stop.grace,
        pages: reloader.config.kv.stop,
    };
    stop::stop(&engine, bus, thread, time, &mut signals).await;
    if panics.seen() {
        return Err(Failure::Panic);
    }
    journal::stopped();
    Ok(())
}

/// Returns once the service cannot go on, with the reason.
async fn ended(engine: &Handle, thread: &mut Thread, panics: &mut Panics) -> Failure {
    tokio::select! {
        // A model that cannot be loaded, or a panic, also ends the thread: that reason is the better one.
        biased;
        failed = load_failed(engine) => {
            let detail = failed.detail.clone();
            let (linger, failure) = if failed.passes {
                (LATE, Failure::Early(detail))
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

/// How much may wait and be held.
fn limits(config: &Config) -> engine::Limits {
    let limits = &config.limits;
    engine::Limits {
        requests: limits.requests,
        queue: config.queue.capacity,
        sessions: limits.sessions,
        prefill: engine::Share {
            slice: config.engine.prefill_slice,
            percent: config.engine.prefill_share,
        },
        grammar: guide::Limits {
            bytes: limits.grammar_bytes,
            work: limits.grammar_work,
            compile: limits.grammar_time,
            mask: limits.mask_time,
        },
        user: engine::UserLimits {
            requests: limits.requests_per_user,
            sessions: limits.sessions_per_user,
            queue_percent: limits.queue_percent_per_user,
            kv_percent: limits.kv_percent_per_user,
        },
    }
}

/// Returns the settings of the bus alone.
fn bus_config(config: &Config) -> BusConfig {
    BusConfig {
        stream_stall: config.stream.stall,
        ..BusConfig::default()
    }
}

/// Returns the limits and defaults of requests for all front ends.
fn front_config(config: &Config) -> front::Config {
    front::Config {
        max_tokens: config.sampling.max_tokens,
        max_tokens_limit: config.limits.max_tokens,
        sampling: config.sampling.set(),
        sampling_from_model: config.sampling.from_model,
        seed: config.sampling.seed,
        thinking: config.model.thinking,
        tools_bytes: config.limits.grammar_bytes,
        hold_longest: config.hold.longest,
        realtime_group: config.limits.realtime_group.clone(),
        ..front::Config::default()
    }
}

/// Each stream is a pipe: the soft limit of 1024 is for programs that use select(2), which this is not.
fn raise_open_files() {
    // Refused, it only means fewer streams at once.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
