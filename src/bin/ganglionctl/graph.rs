//! `ganglionctl graph`: the decode graph of the daemon, to be read, saved or reset.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::bus::proxy::DiagnosticsProxy;
use zbus::OwnedFd;

use crate::client::info::{Object, object, plain, table};
use crate::client::{self, refused};
use crate::failure::{Exit, Failure};
use crate::output;

/// Names first, then figures; what a newer daemon tells besides follows.
const ORDER: [&str; 15] = [
    "state",
    "mode",
    "reason",
    "last_error",
    "epoch",
    "nodes",
    "recordings",
    "verified",
    "updates",
    "instantiations",
    "recording_us",
    "launches",
    "eager_steps",
    "failures",
    "failures_in_a_row",
];

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Save the graph in DOT, one digraph a segment; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reset", "json"])]
    dot: Option<PathBuf>,
    /// Drop what was recorded first: the next step records anew, also where failures had disabled it
    #[arg(long)]
    reset: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    client::block_on(async {
        let connection = client::connect(bus).await?;
        let diagnostics = client::diagnostics(&connection).await?;
        if let Some(file) = &arguments.dot {
            return save(&diagnostics, file).await;
        }
        if arguments.reset {
            diagnostics.reset_graph().await.map_err(refused)?;
        }
        let graph = async { diagnostics.decode_graph().await.map_err(refused) };
        let graph = object(&client::at_once(graph).await?);
        if arguments.json {
            output::print_json(&graph)?;
        } else {
            output::print(&rows(&graph))?;
        }
        Ok(Exit::Ok)
    })
}

async fn save(diagnostics: &DiagnosticsProxy<'_>, file: &Path) -> Result<Exit, Failure> {
    let dot = diagnostics.dump_graph().await.map_err(refused)?;
    let dot = read(dot)
        .map_err(|error| Failure::new(Exit::Unavailable, format!("the daemon's graph: {error}")))?;
    if dot.is_empty() {
        return Err(Failure::new(
            Exit::Unavailable,
            "nothing is recorded: ask something first, and see that graph.mode is not \"none\"",
        ));
    }
    if file == Path::new("-") {
        output::print(&dot)?;
    } else {
        fs::write(file, dot)
            .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", file.display())))?;
    }
    Ok(Exit::Ok)
}

fn read(file: OwnedFd) -> io::Result<String> {
    let mut file = File::from(std::os::fd::OwnedFd::from(file));
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn rows(graph: &Object) -> String {
    let known = ORDER.iter().filter_map(|key| graph.get_key_value(*key));
    let more = graph
        .iter()
        .filter(|(key, _)| !ORDER.contains(&key.as_str()));
    table(
        known
            .chain(more)
            .map(|(key, value)| (key.replace('_', " "), plain(value))),
    )
}
