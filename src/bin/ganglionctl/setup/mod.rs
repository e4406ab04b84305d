//! `ganglionctl setup`: a configuration for this board's memory, and the service started with it.
//!
//! It writes one drop-in, which it owns, and says each thing that it does. A service that ran before runs again
//! whatever happens: with the configuration from before if the new one does not do.

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
    /// Say what would be done, and do nothing
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
        // The drop-in is enough without that file.
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
        Forbidden: "it writes below /etc and starts the service: run it with sudo"
    );
    let ran = machine.is_live() && machine.unit().runs();
    if ran {
        does("stop gangliond: what its model takes would count as used")?;
        if arguments.dry_run {
            output::print("as it runs, it does count as used here: there may be room for more\n")?;
        }
    }
    let drop_in = DropIn::of(&file);
    let held = acts.then(|| Held::still(ran)).transpose()?;
    let written = choose(&machine, &model, &checkpoint, &before).and_then(|choice| {
        does(&format!(
            "kv.context = {}, kv.memory_mib = {}: {} MiB in all, and a quarter of the memory left to others",
            choice.context, choice.memory_mib, choice.takes
        ))?;
        does(&format!("write {}", drop_in.file.display()))?;
        let text = drop_in::text(machine.name(), &model, choice);
        if arguments.dry_run {
            return output::print(&text);
        }
        drop_in.write(&text)?;
        in_force(&file, &model, choice)
    });
    if acts && written.is_err() {
        // The service starts with what is there when it is let go.
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
            // A service that was held, and ran before, is about to run.
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

/// Whether the configuration now says what was written: a file that comes later may say otherwise.
fn in_force(file: &Path, model: &Path, choice: Choice) -> Outcome {
    let kv = named_in_force(file, model)?.kv;
    if (kv.context, kv.memory_mib) != (choice.context, choice.memory_mib) {
        output::print(&format!(
            "a file in gangliond.toml.d that comes after 50-setup.toml says kv.context = {}, kv.memory_mib = {}: that is \
             in force\n",
            kv.context, kv.memory_mib
        ))?;
    }
    Ok(())
}

/// The configuration, once it names that model.
fn named_in_force(file: &Path, model: &Path) -> Outcome<Config> {
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

/// Lets the service run again as it did before, and adds that to why it must.
fn back(drop_in: &DropIn, failure: Failure) -> Failure {
    match drop_in.restore().and_then(|()| unit::restart()) {
        Ok(()) => failure.and("gangliond runs again as it was configured before"),
        Err(worse) => failure.and(worse.message),
    }
}

/// Which model: the one that was named, the configured one, or the only one that was pulled.
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

/// Has the bus look again who is in which group: dbus 1.12 keeps the groups of whoever is connected, and without this a user
/// who was put into group ganglion since the package came is refused until the next start. What cannot be done is not worth
/// a failure; doctor tells of it.
fn reload_bus() {
    let _ = client::block_on(async {
        let connection = client::connect(None).await?;
        let driver = DBusProxy::new(&connection).await?;
        client::at_once(driver.reload_config()).await
    });
}
