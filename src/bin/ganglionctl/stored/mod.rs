//! `ganglionctl models`: what is in the folder that `pull` fills, and which of it is served.

mod listing;
mod remove;
mod served;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use ganglion::config;

use crate::client::info::megabytes;
use crate::failure::{Exit, Failure};
use crate::{models, output};
pub(crate) use listing::find;
use listing::{Stored, list};
use served::InForce;

#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    place: Place,
    /// Print one JSON array
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Remove one that is not served, with its checksum and what an interrupted download has left. Root does it as
    /// the folder's owner
    Remove(Removal),
}

#[derive(Debug, Parser)]
struct Removal {
    /// As the list has it, or as `pull` knows it
    name: String,
    #[command(flatten)]
    place: Place,
}

/// Where to look.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The folder that they are in
    #[arg(long, value_name = "DIR", default_value = models::FOLDER)]
    pub(crate) dir: PathBuf,
    /// The daemon's configuration file
    #[arg(long, value_name = "FILE", default_value = config::DEFAULT_FILE)]
    pub(crate) config: PathBuf,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    if let Some(Verb::Remove(Removal { name, place })) = &arguments.verb {
        return remove::run(bus, name, place);
    }
    let place = &arguments.place;
    let stored = list(&place.dir)?;
    let in_force = InForce::ask(bus, &place.config);
    if let Some(why) = &in_force.unknown {
        output::tell(&format!("ganglionctl: which one is served: {why}"));
    }
    if arguments.json {
        let entries: Vec<_> = stored.iter().map(|one| one.entry(&in_force)).collect();
        output::print_json(&entries)?;
    } else if stored.is_empty() {
        let dir = place.dir.display();
        output::tell(&format!(
            "there is none in {dir}: sudo ganglionctl pull MODEL; ganglionctl pull --list says what suits which board"
        ));
    } else {
        output::print(&table(&stored, &in_force))?;
    }
    Ok(Exit::Ok)
}

/// For people.
fn table(stored: &[Stored], in_force: &InForce) -> String {
    let rows = stored.iter().map(|one| {
        let state = in_force.of(&one.path).unwrap_or_default();
        [
            one.name.clone(),
            megabytes(one.bytes),
            one.format(),
            state.to_owned(),
        ]
    });
    let heading = ["name", "size", "format", ""].map(str::to_owned);
    let rows: Vec<_> = [heading].into_iter().chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let [name, size, format] = [0, 1, 2].map(|column| width(column).unwrap_or(0));
    let lines = rows.iter().map(|[a, b, c, d]| {
        let line = format!("{a:name$}  {b:>size$}  {c:format$}  {d}");
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}
