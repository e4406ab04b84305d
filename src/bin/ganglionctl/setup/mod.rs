//! `ganglionctl setup`: writes a drop-in for this board's memory, and starts the service with it. If the new
//! configuration fails, a service that ran before runs again with the previous one.
//! Not here: other files than the drop-in.

mod choice;
mod drop_in;
pub(crate) mod switch;
mod unit;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::config::{self, Config, ConfigError};
use ganglion::load::OpenModel;
use ganglion::model::checkpoint::{files_of, first_part};
use nix::unistd::Uid;
use zbus::fdo::DBusProxy;

use self::choice::{Choice, choose};
use self::drop_in::DropIn;
use self::unit::Held;
use crate::doctor::Machine;
use crate::doctor::unit::NAME;
use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail, ensure};
use crate::stored::find;
use crate::{client, models, output};

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A model file or folder, or a name that pull knows [default: the configured one, or the only one that is there]
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Write below DIR, for the board that its files describe, and start nothing
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let machine = Machine::new(arguments.root.as_deref());
    let file = machine.path(Path::new(config::DEFAULT_FILE));
    let before = match Config::read(&file) {
        // The drop-in works without that file.
        Err(ConfigError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
            Config::default()
        }
        read => read.or_exit(Exit::Config)?,
    };
    let model = model(&machine, arguments.model.as_deref(), &before)?;
    let opened = OpenModel::read(
        &machine.outside(&model),
        before.model.chat_template.as_deref(),
    );
    let OpenModel { checkpoint, .. } = opened.or_exit(Exit::Data)?;
    let would = if arguments.dry_run { "would: " } else { "" };
    let does = |what: &str| output::print(&format!("{would}{what}\n"));
    does(&format!("board: {}", machine.name()))?;
    let (shown, mib) = (model.display(), checkpoint.weight_bytes() >> 20);
    does(&format!("model: {shown} ({mib} MiB of weights)"))?;

    if let Some(why) = machine.hides(&model) {
        bail!(Data: "{why}");
    }

    let acts = machine.is_live() && !arguments.dry_run;
    ensure!(
        !acts || Uid::effective().is_root(),
        Forbidden: "setup writes to /etc and starts the service: run it with sudo"
    );
    let ran = machine.is_live() && machine.unit().runs();
    if ran {
        does("stop gangliond: the memory of its model would count as used")?;
        if arguments.dry_run {
            output::print(
                "gangliond still runs, so its memory does count as used: there may be room for more\n",
            )?;
        }
    }
    let drop_in = DropIn::of(&file);
    let held = acts.then(|| Held::stop(ran)).transpose()?;
    let written = choose(&machine, &model, &checkpoint, &before).and_then(|choice| {
        does(&format!(
            "kv.context = {}, kv.memory_mib = {}: {} MiB in all; a quarter of the memory is left to other programs",
            choice.context, choice.memory_mib, choice.takes
        ))?;
        does(&format!("write {}", drop_in.file.display()))?;
        let text = drop_in::text(machine.name(), &model, choice);
        if arguments.dry_run {
            return output::print(&text);
        }
        drop_in.write(&text)?;
        check_written(&file, &model, choice)
    });
    if acts && written.is_err() {
        // The service starts with the present configuration when it is released.
        let _ = drop_in.restore();
    }
    drop(held);
    let started = written.and_then(|()| {
        if !machine.is_live() {
            return Ok(());
        }
        does("systemctl enable and restart gangliond: wait until it is ready")?;
        if acts {
            reload_bus();
            unit::systemctl(&["--quiet", "enable", NAME])?;
            // A service that ran before starts again.
            if ran {
                unit::systemctl(&["start", NAME])?;
            } else {
                unit::restart()?;
            }
            output::print("ready: ganglionctl ask 'Name three sensors of a robot.'\n")?;
        }
        Ok(())
    });
    match started {
        Err(failure) if acts && ran => Err(back(&drop_in, failure)),
        started => started,
    }
}

/// Checks that the configuration has the written values, because a later file may override them.
fn check_written(file: &Path, model: &Path, choice: Choice) -> Outcome {
    let kv = configured_with(file, model)?.kv;
    if (kv.context, kv.memory_mib) != (choice.context, choice.memory_mib) {
        output::print(&format!(
            "a file in gangliond.toml.d that comes after 50-setup.toml says kv.context = {}, kv.memory_mib = {}: these values \
             apply\n",
            kv.context, kv.memory_mib
        ))?;
    }
    Ok(())
}

/// Returns the configuration if it names that model.
fn configured_with(file: &Path, model: &Path) -> Outcome<Config> {
    let config = Config::read(file).or_exit(Exit::Config)?;
    if let Some(path) = config.model.path.as_deref().filter(|path| *path != model) {
        bail!(
            Config: "a file in gangliond.toml.d that comes after 50-setup.toml says model.path = {}: remove that line, or name that \
             model",
            path.display()
        );
    }
    Ok(config)
}

/// Lets the service run again as before, and adds that to the failure.
fn back(drop_in: &DropIn, failure: Failure) -> Failure {
    match drop_in.restore().and_then(|()| unit::restart()) {
        Ok(()) => failure.and("gangliond runs again with its previous configuration"),
        Err(worse) => failure.and(worse.message),
    }
}

/// Returns the model: the named one, the configured one, or the only one in the folder.
fn model(machine: &Machine, named: Option<&str>, config: &Config) -> Outcome<PathBuf> {
    let folder = Path::new(models::FOLDER);
    if let Some(named) = named {
        return find(machine, folder, named);
    }
    let configured = config.model.path.as_deref();
    if let Some(path) = configured.filter(|path| machine.outside(path).exists()) {
        return Ok(path.into());
    }
    let mut found = files_of(&machine.path(folder));
    found.retain(|file| file.extension().is_some_and(|end| end == "gguf"));
    found.retain(|file| first_part(file).is_none());
    match &found[..] {
        [only] => Ok(folder.join(only.file_name().unwrap_or_default())),
        [] => bail!(
            Data: "no model is in {}: sudo ganglionctl pull MODEL, with one of:\n{}", folder.display(), models::table()?
        ),
        several => {
            let all: Vec<_> = several.iter().map(|file| file.to_string_lossy()).collect();
            bail!(Usage: "there are several models: name one with --model, of {}", all.join(", "))
        }
    }
}

/// Makes the bus read group memberships again. dbus 1.12 keeps the groups of connected users, so a user who was added
/// to group ganglion would be refused until the next boot. A failure is ignored here, and doctor reports it.
fn reload_bus() {
    let _ = client::block_on(async {
        let connection = client::connect(None).await?;
        let driver = DBusProxy::new(&connection).await?;
        client::at_once(driver.reload_config()).await
    });
}
