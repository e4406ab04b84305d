//! `ganglionctl setup`: a configuration for this board's memory, and the service started with it.
//!
//! It writes one drop-in, which it owns, and says each thing that it does. A service that ran before runs again
//! whatever happens: with the configuration from before if the new one does not do.

mod bus;
mod choice;
mod drop_in;
pub(crate) mod switch;
mod unit;

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::config::{self, Config, ConfigError};
use ganglion::model::Checkpoint;
use nix::unistd::Uid;

use self::choice::{Choice, choose};
use self::drop_in::DropIn;
use self::unit::Held;
use crate::doctor::Machine;
use crate::failure::{Exit, Failure};
use crate::{models, output};

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
    let checkpoint = Checkpoint::open(&machine.outside(&model))
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

    if let Some(why) = machine.hides(&model) {
        return Err(Failure::new(Exit::Data, why));
    }

    let acts = machine.is_live() && !arguments.dry_run;
    if acts && !Uid::effective().is_root() {
        let message = "it writes below /etc and starts the service: run it with sudo";
        return Err(Failure::new(Exit::Forbidden, message));
    }
    let ran = machine.is_live() && unit::runs();
    if ran {
        does("stop gangliond: what its model takes would count as used")?;
    }
    let drop_in = DropIn::of(&file);
    let held = acts.then(|| Held::still(ran)).transpose()?;
    let written = choose(&machine, &model, &checkpoint, &before).and_then(|choice| {
        does(&format!(
            "kv.context = {}, kv.slots = {}: {} MiB in all, and a quarter of the memory left to others",
            choice.context, choice.slots, choice.takes
        ))?;
        does(&format!("write {}", drop_in.file().display()))?;
        let text = drop_in::text(machine.name(), &model, choice);
        if arguments.dry_run {
            return output::print(&text);
        }
        drop_in.write(&text)?;
        in_force(&file, &model, choice)
    });
    if acts && written.is_err() {
        // What is there when it is let go is what it starts with.
        let _ = drop_in.restore();
    }
    drop(held);
    let started = written.and_then(|()| {
        if !machine.is_live() {
            return Ok(());
        }
        does("systemctl enable and restart gangliond: wait until it is ready")?;
        if acts {
            bus::reload();
            unit::enable()?;
            if ran { unit::ready() } else { unit::restart() }?;
            output::print("ready: ganglionctl ask 'Name three sensors of a robot.'\n")?;
        }
        Ok(())
    });
    match started {
        Ok(()) => Ok(Exit::Ok),
        Err(failure) if acts && ran => Err(back(&drop_in, failure)),
        Err(failure) => Err(failure),
    }
}

/// Whether the configuration now says what was written: a file that comes later may say otherwise.
///
/// # Errors
/// If it names another model, or cannot be read.
fn in_force(file: &Path, model: &Path, choice: Choice) -> Result<(), Failure> {
    let told = |why: String| Failure::new(Exit::Config, why);
    let config = Config::read(file).map_err(|error| told(error.to_string()))?;
    let later = "a file in gangliond.toml.d that comes after 50-setup.toml says";
    match config.model.path {
        Some(path) if path != model => {
            return Err(told(format!(
                "{later} model.path = {}: remove that line, or name that model",
                path.display()
            )));
        }
        _ => {}
    }
    if (config.kv.context, config.kv.slots) != (choice.context, choice.slots) {
        let (context, slots) = (config.kv.context, config.kv.slots);
        output::print(&format!(
            "{later} kv.context = {context}, kv.slots = {slots}: that is in force\n"
        ))?;
    }
    Ok(())
}

/// Lets the service run again as it did before, and adds that to why it must.
fn back(drop_in: &DropIn, failure: Failure) -> Failure {
    let Failure { exit, message } = failure;
    let message = message.unwrap_or_default();
    let how = match drop_in.restore().and_then(|()| unit::restart()) {
        Ok(()) => "gangliond runs again as it was configured before".into(),
        Err(failure) => failure.message.unwrap_or_default(),
    };
    Failure::new(exit, format!("{message}; {how}"))
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
        if machine.outside(&path).exists() {
            return Ok(path);
        }
        let message = format!(
            "{} is not there: sudo ganglionctl pull {named}",
            path.display()
        );
        return Err(Failure::new(Exit::Data, message));
    }
    let configured = config.model.path.as_deref();
    if let Some(path) = configured.filter(|path| machine.outside(path).exists()) {
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
