//! `ganglionctl setup`: a configuration for this board's memory, and the service started with it.
//!
//! It writes one drop-in, which it owns, and says each thing that it does. What fits is admission's answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use ganglion::config::{self, Backend, Config, ConfigError};
use ganglion::engine::runner::Settings;
use ganglion::engine::{LoadError, MemoryRefusal, Site, forecast};
use ganglion::model::Checkpoint;
use ganglion::service;

use crate::doctor::Machine;
use crate::failure::{Exit, Failure};
use crate::{models, output};

/// The drop-in, beside the configuration file.
const DROP_IN: &str = "gangliond.toml.d/50-setup.toml";
const UNIT: &str = "gangliond";

/// Tokens of a conversation: no more than this is taken unasked, and below this fewer conversations are kept.
const MOST: usize = 32_768;
const PLENTY: usize = 8192;
/// Contexts are multiples of this, and none is shorter.
const STEP: usize = 256;
const SLOTS: [usize; 2] = [4, 2];

/// What of the memory that is there is left to the robot: one part of so many.
const LEFT: u64 = 4;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A model file or folder, or a name that pull knows [default: the configured one, or the only one that is there]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Write below DIR, for the board that its files describe, and start nothing
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    context: usize,
    slots: usize,
    /// MiB that the model will take.
    takes: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let machine = Machine::new(arguments.root.as_deref());
    let file = machine.path(Path::new(config::DEFAULT_FILE));
    let before = match Config::read(&file) {
        Ok(config) => config,
        // The drop-in stands without it.
        Err(ConfigError::Unreadable { source, .. })
            if source.kind() == std::io::ErrorKind::NotFound =>
        {
            Config::default()
        }
        Err(error) => return Err(Failure::new(Exit::Config, error.to_string())),
    };
    let model = model(&machine, arguments.model.as_deref(), &before)?;
    let checkpoint = Checkpoint::open(&machine.path(&model))
        .map_err(|error| Failure::new(Exit::Data, error.to_string()))?;
    let does = |what: &str| {
        output::print(&format!(
            "{}{what}\n",
            if arguments.dry_run { "would: " } else { "" }
        ))
    };
    does(&format!("board: {}", machine.name()))?;
    does(&format!(
        "model: {} ({} MiB of weights)",
        model.display(),
        checkpoint.weight_bytes() >> 20
    ))?;

    let acts = machine.is_live() && !arguments.dry_run;
    if machine.is_live() && is_active() {
        does("stop gangliond: what its model takes would count as used")?;
        if acts {
            systemctl(&["stop", UNIT])?;
        }
    }
    let choice = choose(&machine, &model, &checkpoint, &before)?;
    does(&format!(
        "kv.context = {}, kv.slots = {}: {} MiB in all, and a quarter of the memory left to others",
        choice.context, choice.slots, choice.takes
    ))?;

    let drop_in = file.with_file_name(DROP_IN);
    does(&format!("write {}", drop_in.display()))?;
    if arguments.dry_run {
        output::print(&text(&machine, &model, choice))?;
    } else {
        write(&drop_in, &text(&machine, &model, choice))?;
        Config::read(&file).map_err(|error| Failure::new(Exit::Config, error.to_string()))?;
    }
    if machine.is_live() {
        does("systemctl enable --now gangliond: wait until it is ready")?;
        if acts {
            systemctl(&["enable", "--now", UNIT])?;
            output::print("ready: ganglionctl ask 'Name three sensors of a robot.'\n")?;
        }
    }
    Ok(Exit::Ok)
}

/// Which model: the one that was named, the configured one, or the only one that was pulled.
fn model(machine: &Machine, named: Option<&str>, config: &Config) -> Result<PathBuf, Failure> {
    let folder = Path::new(models::FOLDER);
    if let Some(named) = named {
        let path = match models::named(named) {
            Some(model) => folder.join(model.file),
            None if Path::new(named).is_absolute() => named.into(),
            None => std::path::absolute(named)
                .map_err(|error| Failure::new(Exit::Data, format!("{named}: {error}")))?,
        };
        if machine.path(&path).exists() {
            return Ok(path);
        }
        let message = format!(
            "{} is not there: sudo ganglionctl pull {named}",
            path.display()
        );
        return Err(Failure::new(Exit::Data, message));
    }
    let configured = config.model.path.as_deref();
    if let Some(path) = configured.filter(|path| machine.path(path).exists()) {
        return Ok(path.into());
    }
    let entries = fs::read_dir(machine.path(folder)).into_iter().flatten();
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|end| end == "gguf"))
        .collect();
    found.sort();
    match &found[..] {
        [only] => Ok(folder.join(only.file_name().unwrap_or_default())),
        [] => {
            let message = format!(
                "no model is in {}: sudo ganglionctl pull MODEL, with one of:\n{}",
                folder.display(),
                models::table()
            );
            Err(Failure::new(Exit::Data, message))
        }
        several => {
            let all: Vec<_> = several
                .iter()
                .map(|file| file.display().to_string())
                .collect();
            let message = format!(
                "there are several models: name one with --model, of {}",
                all.join(", ")
            );
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

/// The most conversations, of at least `PLENTY` tokens where that is possible, that fit beside the robot's own work.
fn choose(
    machine: &Machine,
    model: &Path,
    checkpoint: &Checkpoint,
    config: &Config,
) -> Result<Choice, Failure> {
    let site = match config.backend {
        Backend::Cpu => Site::Cpu,
        backend => machine.site(backend)?,
    };
    let mut settings = service::settings(&machine.path(model), config).runner;
    settings.meminfo = machine.path(Path::new("/proc/meminfo"));
    let have = match site {
        Site::Discrete(free) => free,
        Site::Cpu | Site::Integrated => machine.available(),
    };
    settings.reserve = settings.reserve.max(have / LEFT);
    settings.context = checkpoint.shape.context.min(MOST);
    let plenty = PLENTY.min(settings.context);
    for slots in SLOTS {
        settings.slots = slots;
        match largest(checkpoint, &settings, site) {
            Ok(choice) if choice.context >= plenty => return Ok(choice),
            _ => {}
        }
    }
    settings.slots = 1;
    largest(checkpoint, &settings, site).map_err(|error| {
        let message = format!("{error}; a smaller model: ganglionctl pull --list");
        Failure::new(Exit::Unavailable, message)
    })
}

/// The longest conversations that fit, up to what `settings` ask for.
fn largest(checkpoint: &Checkpoint, settings: &Settings, site: Site) -> Result<Choice, LoadError> {
    let with = |context| {
        let settings = Settings {
            context,
            ..settings.clone()
        };
        let admitted = forecast(checkpoint, &settings, site)?;
        Ok(Choice {
            context,
            slots: settings.slots,
            takes: admitted.footprint.bytes() >> 20,
        })
    };
    match with(settings.context) {
        Err(LoadError::Memory(
            MemoryRefusal::Memory { largest, .. } | MemoryRefusal::Buffer { largest, .. },
        )) if largest >= STEP => with(largest - largest % STEP),
        result => result,
    }
}

fn text(machine: &Machine, model: &Path, choice: Choice) -> String {
    let Choice { context, slots, .. } = choice;
    format!(
        "# Written by `ganglionctl setup` for {}. It is written anew when that is run again;\n# your own settings belong \
         in a file that comes after it, such as 60-local.toml.\n[model]\npath = {}\n\n[kv]\ncontext = {context}\nslots = \
         {slots}\n",
        machine.name(),
        toml::Value::String(model.display().to_string()),
    )
}

/// Replaces the file at once, or not at all.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let part = file.with_extension("toml.part");
    let folder = file.parent().unwrap_or(Path::new("/"));
    let written = fs::create_dir_all(folder)
        .and_then(|()| fs::write(&part, text))
        .and_then(|()| fs::File::open(&part)?.sync_all())
        .and_then(|()| fs::rename(&part, file));
    written.map_err(|error| {
        let helps = match error.kind() {
            std::io::ErrorKind::PermissionDenied => "; run it with sudo",
            _ => "",
        };
        Failure::new(Exit::Failed, format!("{}: {error}{helps}", file.display()))
    })
}

fn is_active() -> bool {
    let asked = Command::new("systemctl")
        .args(["--quiet", "is-active", UNIT])
        .status();
    asked.is_ok_and(|status| status.success())
}

fn systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let told = |why: String| {
        let asked = arguments.join(" ");
        Failure::new(
            Exit::Failed,
            format!("systemctl {asked}: {why}; sudo ganglionctl doctor says more"),
        )
    };
    match Command::new("systemctl").args(arguments).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(told(status.to_string())),
        Err(error) => Err(told(error.to_string())),
    }
}
