//! `ganglionctl tokenize`: the ids of plain text.

use std::path::PathBuf;

use clap::Parser;
use ganglion::model::{Checkpoint, Language};

use crate::failure::{Exit, Failure};
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

pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let checkpoint = Checkpoint::open(&arguments.model).map_err(|error| bad_model(&error))?;
    let source = checkpoint
        .language_source()
        .map_err(|error| bad_model(&error))?;
    let language =
        Language::load(source).map_err(|error| Failure::new(Exit::Data, error.to_string()))?;
    let ids: Vec<String> = language
        .encode_plain(&arguments.text.join(" "))
        .iter()
        .map(u32::to_string)
        .collect();
    output::print(&format!("{}\n", ids.join(" ")))?;
    Ok(Exit::Ok)
}
