//! `ganglionctl models`: lists and removes the models in the folder of `pull`. Not here: downloads, and the choice of
//! the served model.

mod listing;
mod paths;
mod remove;
mod served;

use clap::{Parser, Subcommand};

use crate::failure::{Failure, Outcome};
use crate::{output, view};
pub(crate) use listing::find;
use listing::list;
pub(crate) use paths::Paths;
use served::Active;

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    paths: Paths,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Remove one that is not served, with its checksum and the remains of an interrupted download. Root works as the
    /// folder's owner
    Remove {
        /// A name of the list, or one that `pull` knows
        name: String,
        #[command(flatten)]
        paths: Paths,
    },
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    if let Some(Verb::Remove { name, paths }) = &arguments.verb {
        return remove::run(bus, name, paths);
    }
    let Paths { dir, config } = &arguments.paths;
    let mut stored = list(dir)?;
    let active = Active::ask(bus, config);
    if let Err(Failure { message, .. }) = &active.served {
        output::note(&format!("ganglionctl: which one is served: {message}"));
    }
    for one in &mut stored {
        one.state = active.of(&one.path);
    }
    if stored.is_empty() && !arguments.json {
        output::note(&format!(
            "there is none in {}: sudo ganglionctl pull MODEL; ganglionctl pull --list says what suits which board",
            dir.display()
        ));
        return Ok(());
    }
    view::print(arguments.json, include_str!("listing.txt"), &stored)
}
