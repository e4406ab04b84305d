//! Chooses the length and number of conversations: as many as admission allows next to the robot's own programs.

use std::path::Path;

use ganglion::config::Config;
use ganglion::load::{KvMemory, LoadError, Settings, Target, admit, with_tower};
use ganglion::model::Checkpoint;
use ganglion::service;

use crate::doctor::Machine;
use crate::failure::{Outcome, failure};

/// The largest context that is chosen. The number of conversations is lowered before the context.
const MOST: usize = 32_768;
const PLENTY: usize = 8192;
/// The step of contexts, and the shortest one.
const STEP: usize = 256;
const CONVERSATIONS: [usize; 2] = [4, 2];

/// The part of the available memory that is left to the robot, as a divisor.
const LEFT: u64 = 4;

/// The chosen values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) context: usize,
    /// MiB of the cache for all conversations.
    pub(super) memory_mib: u64,
    /// MiB of the model in memory.
    pub(super) takes: u64,
}

/// Returns the most conversations, of at least `PLENTY` tokens if possible, that fit next to the robot's own programs.
pub(super) fn choose(
    machine: &Machine,
    model: &Path,
    checkpoint: &Checkpoint,
    config: &Config,
) -> Outcome<Choice> {
    let site = machine.site(config.backend)?;
    let mut settings = service::settings(&machine.outside(model), config).runner;
    settings.meminfo = machine.path(Path::new("/proc/meminfo"));
    settings.groups = machine.groups();
    let have = match site {
        Target::Discrete(free) => free,
        Target::Cpu | Target::Integrated => machine.meminfo("MemAvailable:").unwrap_or(0),
    };
    settings.reserve = settings.reserve.max(have / LEFT);
    settings.context = checkpoint.shape.context.min(MOST);
    let plenty = PLENTY.min(settings.context);
    let seen = with_tower(&machine.outside(model), checkpoint, settings);
    let mut settings = seen.map_err(|error| failure!(Data: "{error}"))?;
    for count in CONVERSATIONS {
        settings.kv_memory = KvMemory::Conversations(count);
        match largest(checkpoint, &settings, site) {
            Ok(choice) if choice.context >= plenty => return Ok(choice),
            _ => {}
        }
    }
    settings.kv_memory = KvMemory::Conversations(1);
    largest(checkpoint, &settings, site)
        .map_err(|error| failure!(Unavailable: "{error}; a smaller model: ganglionctl pull --list"))
}

/// The longest conversations that fit, up to what `settings` ask for.
fn largest(
    checkpoint: &Checkpoint,
    settings: &Settings,
    site: Target,
) -> Result<Choice, LoadError> {
    let with = |context| {
        let mut settings = settings.clone();
        settings.context = context;
        let admitted = admit(checkpoint, &settings, site)?;
        Ok(Choice {
            context,
            memory_mib: admitted.estimate.kv.div_ceil(1 << 20),
            takes: admitted.estimate.bytes() >> 20,
        })
    };
    match with(settings.context) {
        Err(LoadError::Memory(refusal)) => match refusal.largest() {
            Some(largest) if largest >= STEP => with(largest - largest % STEP),
            _ => Err(refusal.into()),
        },
        result => result,
    }
}
