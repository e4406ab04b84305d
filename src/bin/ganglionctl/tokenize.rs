//! `ganglionctl tokenize`: the ids of plain text.

use std::path::PathBuf;

use clap::Parser;
use ganglion::model::{Checkpoint, Language};

use crate::failure::{Exit, OrFail as _, Outcome};
use crate::offline::bad_model;
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A .gguf file, or a directory with config.json and tokenizer.json
    #[arg(long, value_name = "M")]
    model: PathBuf,
    /// The text; put -- before it
    #[arg(required = true)]
    text: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let checkpoint = Checkpoint::open(&arguments.model).map_err(bad_model)?;
    let source = checkpoint.language_source();
    let language = Language::load(source.map_err(bad_model)?).or_exit(Exit::Data)?;
    let ids = language.encode_plain(&arguments.text.join(" "));
    let ids: Vec<_> = ids.iter().map(u32::to_string).collect();
    output::print(&format!("{}\n", ids.join(" ")))
}
