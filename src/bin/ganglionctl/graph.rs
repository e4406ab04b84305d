//! `ganglionctl graph`: the decode graph of the daemon, to be read, saved or reset.

use std::fs::{self, File};
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};

use clap::Parser;
use ganglion::bus::{self, proxy::DiagnosticsProxy};

use crate::client;
use crate::client::info::{Object, object, text};
use crate::failure::{Exit, OrFail as _, Outcome, bail};
use crate::{output, view};

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

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    client::block_on(async {
        let connection = client::connect(bus).await?;
        let diagnostics = DiagnosticsProxy::new(&connection).await?;
        if let Some(file) = &arguments.dot {
            return save(&diagnostics, file).await;
        }
        if arguments.reset {
            diagnostics.reset_graph().await?;
        }
        let graph = async { Ok(diagnostics.decode_graph().await?) };
        let graph = object(&client::at_once(graph).await?);
        if arguments.json {
            output::print_json(&graph)
        } else {
            output::print(&rows(&graph))
        }
    })
}

async fn save(diagnostics: &DiagnosticsProxy<'_>, file: &Path) -> Outcome {
    let dot: std::os::fd::OwnedFd = diagnostics.dump_graph().await?.into();
    let mut dot = File::from(dot);
    let read = dot.rewind().and_then(|()| io::read_to_string(dot));
    let text = read.or_fail(Exit::Unavailable, "the daemon's graph")?;
    if text.is_empty() {
        bail!(
            Unavailable,
            "nothing is recorded: ask something first, and see that graph.mode is not \"none\""
        );
    }
    if file == Path::new("-") {
        return output::print(&text);
    }
    fs::write(file, text).or_fail(Exit::Failed, file.display())
}

fn rows(graph: &Object) -> String {
    let known: Vec<&str> = bus::graph_keys().collect();
    // What a newer daemon tells besides follows.
    let more = graph.keys().map(String::as_str);
    let more = more.filter(|key| !known.contains(key));
    let keys = known.iter().copied().chain(more);
    view::named(keys.map(|key| (key.replace('_', " "), text(graph, key))))
}
