//! `ganglionctl graph`: shows, saves or resets the daemon's decode graph.

use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::bus::{self, proxy::DiagnosticsProxy};
use serde_json::{Map, Value};

use crate::client::{self, object, plain};
use crate::failure::{Exit, OrFail as _, Outcome, ensure};
use crate::{output, view};

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Save the graph in DOT, one digraph a segment; - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reset", "json"])]
    dot: Option<PathBuf>,
    /// Reset the graph first: the next step records it again, even if failures had disabled it
    #[arg(long)]
    reset: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let connection = client::connect(bus).await?;
    let diagnostics = DiagnosticsProxy::new(&connection).await?;
    if let Some(file) = &arguments.dot {
        return save(&diagnostics, file).await;
    }
    if arguments.reset {
        diagnostics.reset_graph().await?;
    }
    let graph = object(&client::at_once(diagnostics.decode_graph()).await?);
    if arguments.json {
        return output::print_json(&graph);
    }
    output::print(&rows(&graph))
}

async fn save(diagnostics: &DiagnosticsProxy<'_>, file: &Path) -> Outcome {
    let dot: std::os::fd::OwnedFd = diagnostics.dump_graph().await?.into();
    let mut dot = File::from(dot);
    let read = dot.rewind().and_then(|()| io::read_to_string(dot));
    let text = read.or_fail(Exit::Unavailable, "the daemon's graph")?;
    ensure!(
        !text.is_empty(),
        Unavailable: "nothing is recorded: ask something first, and see that graph.mode is not \"none\""
    );
    if file == Path::new("-") {
        return output::print(&text);
    }
    fs::write(file, text).or_fail(Exit::Failed, file.display())
}

fn rows(graph: &Value) -> String {
    let known: Vec<&str> = bus::graph_keys().collect();
    // Further values of a newer daemon follow.
    let keys = graph.as_object().into_iter().flat_map(Map::keys);
    let more = keys.map(String::as_str).filter(|key| !known.contains(key));
    let keys = known.iter().copied().chain(more);
    let value = |key| graph.get(key).map(plain).unwrap_or_default();
    view::named(keys.map(|key| (key.replace('_', " "), value(key))))
}
