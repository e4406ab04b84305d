//! `ganglionctl use`: another of the models that are here, written where `setup` writes, and put in force by a reload.
//!
//! Requests go on meanwhile. How long and how many conversations are stays as it is; a model that they make too large is
//! refused by the daemon, which then goes on with the one from before, and so does the configuration.

use clap::Parser;
use ganglion::bus::proxy::ManagerProxy;
use ganglion::config::Config;
use ganglion::load::OpenModel;
use ganglion::service;

use super::drop_in::DropIn;
use super::named_in_force;
use super::unit::Whole;
use crate::client::{self, Ask, Waiting};
use crate::doctor::Machine;
use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail};
use crate::output;
use crate::stored::{Paths, find};

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A name that `ganglionctl models` lists, one that pull knows, or a path
    model: String,
    #[command(flatten)]
    paths: Paths,
    /// Say what would be written, and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let Paths { dir, config } = &arguments.paths;
    let config = std::path::absolute(config).or_fail(Exit::Usage, "--config")?;
    let machine = Machine::new(None);
    let model = find(&machine, dir, &arguments.model)?;
    // A configuration that cannot be read is refused once it is written.
    let before = Config::read(&config);
    let template = before.as_ref().ok();
    let template = template.and_then(|before| before.model.chat_template.as_deref());
    let opened = OpenModel::read(&machine.outside(&model), template).or_exit(Exit::Data)?;
    if let Ok(before) = before {
        let settings = service::settings(&model, &before).runner;
        opened.check(&settings).or_exit(Exit::Data)?;
    }
    if let Some(why) = machine.hides(&model) {
        bail!(Data: "{why}");
    }
    let drop_in = DropIn::of(&config);
    let text = drop_in.with_model(&model)?;
    if arguments.dry_run {
        return output::print(&text);
    }
    // What is written is in force, or taken back.
    let _whole = Whole::begin();
    drop_in.write(&text)?;
    let done = named_in_force(&config, &model)
        .and_then(|_| client::block_on(reload(bus, &arguments.model)));
    let when = match done {
        Ok(true) => "is in force",
        Ok(false) => "is used from the next start on: sudo systemctl start gangliond",
        Err(failure) => {
            drop_in.restore()?;
            return Err(failure);
        }
    };
    output::tell(&format!("{} {when}", model.display()));
    Ok(())
}

/// Whether a daemon runs that has it in force now.
async fn reload(bus: Option<String>, named: &str) -> Outcome<bool> {
    let Some(connection) = client::running(bus).await? else {
        return Ok(false);
    };
    let manager = ManagerProxy::new(&connection).await?;
    let mut waiting = Waiting::new(false);
    let reloading = waiting.during(Ask::Daemon(&connection), manager.reload());
    reloading.await.map_err(|error| {
        Failure::from(error).and(format_args!(
            "gangliond goes on with the model from before. sudo ganglionctl setup --model {named} finds conversations that \
             fit, if it is memory that is short"
        ))
    })?;
    Ok(true)
}
