//! `ganglionctl use`: another of the models that are here, written where `setup` writes, and put in force by a reload.
//!
//! Requests go on meanwhile. How long and how many conversations are stays as it is; a model that they make too large is
//! refused by the daemon, which then goes on with the one from before, and so does the configuration.

use std::path::Path;

use clap::Parser;
use ganglion::config::Config;
use ganglion::model::Checkpoint;

use super::drop_in::DropIn;
use crate::client::waiting::{Ask, Waiting};
use crate::client::{self, refused};
use crate::doctor::Machine;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::stored::{Place, find};

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A name that `ganglionctl models` lists, one that pull knows, or a path
    model: String,
    #[command(flatten)]
    place: Place,
    /// Say what would be written, and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    let Place { dir, config } = &arguments.place;
    let config = std::path::absolute(config)
        .map_err(|error| Failure::new(Exit::Usage, format!("--config: {error}")))?;
    let machine = Machine::new(None);
    let model = find(dir, &arguments.model)?;
    let data = |why: String| Failure::new(Exit::Data, why);
    Checkpoint::open(&machine.outside(&model)).map_err(|error| data(error.to_string()))?;
    if let Some(why) = machine.hides(&model) {
        return Err(data(why));
    }
    let drop_in = DropIn::of(&config);
    let text = drop_in.with_model(&model)?;
    if arguments.dry_run {
        return output::print(&text).map(|()| Exit::Ok);
    }
    drop_in.write(&text)?;
    let done =
        in_force(&config, &model).and_then(|()| client::block_on(reload(bus, &arguments.model)));
    match done {
        Ok(true) => output::tell(&format!("{} is in force", model.display())),
        Ok(false) => output::tell(&format!(
            "{} is used from the next start on: sudo systemctl start gangliond",
            model.display()
        )),
        Err(failure) => {
            drop_in.restore()?;
            return Err(failure);
        }
    }
    Ok(Exit::Ok)
}

/// Whether the configuration names it now.
///
/// # Errors
/// If a file that comes later names another, or something is wrong with one of them.
fn in_force(config: &Path, model: &Path) -> Result<(), Failure> {
    let told = |why: String| Err(Failure::new(Exit::Config, why));
    match Config::read(config) {
        Ok(read) if read.model.path.as_deref() == Some(model) => Ok(()),
        Ok(read) => told(format!(
            "a file that comes after 50-setup.toml says model.path = {}: remove that line",
            read.model.path.unwrap_or_default().display()
        )),
        Err(error) => told(error.to_string()),
    }
}

/// Whether a daemon runs that has it in force now.
///
/// # Errors
/// Why it goes on with the model from before.
async fn reload(bus: Option<String>, named: &str) -> Result<bool, Failure> {
    let connection = match client::connect(bus).await {
        Err(failure) if failure.exit == Exit::Unavailable => return Ok(false),
        connected => connected?,
    };
    if !client::is_there(&connection).await? {
        return Ok(false);
    }
    let manager = client::manager(&connection).await?;
    let mut waiting = Waiting::new(false);
    let reloading = waiting.during(Ask::Daemon(&connection), manager.reload());
    reloading.await.map_err(|error| {
        let Failure { exit, message } = refused(error);
        let message = message.unwrap_or_default();
        Failure::new(
            exit,
            format!(
                "{message}; gangliond goes on with the model from before. sudo ganglionctl setup --model {named} finds \
                 conversations that fit, if it is memory that is short"
            ),
        )
    })?;
    Ok(true)
}
