//! `ganglionctl use`: switches to another downloaded model by `setup`'s drop-in and a reload, while requests continue.
//!
//! The length and number of conversations stay. If a model does not fit with them, the daemon refuses it, and model and
//! configuration stay as they were.

use clap::Parser;
use ganglion::bus::proxy::ManagerProxy;
use ganglion::config::Config;
use ganglion::load::{self, OpenDraft, OpenModel};
use ganglion::service;

use super::configured_with;
use super::drop_in::DropIn;
use super::unit::BlockedSignals;
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
    /// Print what would be written, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let Paths { dir, config } = &arguments.paths;
    let config = std::path::absolute(config).or_fail(Exit::Usage, "--config")?;
    let machine = Machine::new(None);
    let model = find(&machine, dir, &arguments.model)?;
    // An invalid configuration is reported after the write.
    let before = Config::read(&config);
    let template = before.as_ref().ok();
    let template = template.and_then(|before| before.model.chat_template.as_deref());
    let opened = OpenModel::read(&machine.outside(&model), template).or_exit(Exit::Data)?;
    if let Ok(before) = before {
        let mut settings = service::settings(&model, &before).runner;
        settings.draft = settings.draft.map(|draft| machine.outside(&draft));
        let draft = load::open_draft(&model, &opened.language, &settings).or_exit(Exit::Data)?;
        let assistant = draft.as_ref().and_then(OpenDraft::assistant);
        opened.check(assistant, &settings).or_exit(Exit::Data)?;
    }
    if let Some(why) = machine.hides(&model) {
        bail!(Data: "{why}");
    }
    let drop_in = DropIn::of(&config);
    let text = drop_in.with_model(&model)?;
    if arguments.dry_run {
        return output::print(&text);
    }
    // Signals wait until the change is complete or undone.
    let _blocked = BlockedSignals::begin();
    drop_in.write(&text)?;
    let done = configured_with(&config, &model)
        .and_then(|_| client::block_on(reload(bus, &arguments.model)));
    let when = match done {
        Ok(true) => "is active",
        Ok(false) => "will be used after the next start: sudo systemctl start gangliond",
        Err(failure) => {
            drop_in.restore()?;
            return Err(failure);
        }
    };
    output::note(&format!("{} {when}", model.display()));
    Ok(())
}

/// Reloads a running daemon; returns whether the new configuration is active.
async fn reload(bus: Option<String>, named: &str) -> Outcome<bool> {
    let Some(connection) = client::running(bus).await? else {
        return Ok(false);
    };
    let manager = ManagerProxy::new(&connection).await?;
    let mut waiting = Waiting::new(false);
    let reloading = waiting.during(Ask::Daemon(&connection), manager.reload());
    reloading.await.map_err(|error| {
        Failure::from(error).and(format_args!(
            "gangliond keeps the previous model. sudo ganglionctl setup --model {named} finds conversations that \
             fit, if it is memory that is short"
        ))
    })?;
    Ok(true)
}
