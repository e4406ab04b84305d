//! Errors of loading a language and of encoding a conversation.

use std::io;
use std::path::PathBuf;

use super::shown::{sentence, shown};

/// An error of a tokenizer or chat template. Text from a file is escaped and bounded.
#[derive(Debug, thiserror::Error)]
pub enum LanguageError {
    #[error(
        "{}: {source}; put the model's own file there, or use a GGUF file of the model, which has its \
         tokenizer inside",
        path.display()
    )]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {}; fetch the file again", path.display(), sentence(defect))]
    File { path: PathBuf, defect: String },
    #[error("the {what} is {}; supported: {supported}", shown(found))]
    Unsupported {
        what: &'static str,
        found: String,
        supported: &'static str,
    },
    #[error("the vocabulary contradicts itself: {}; fetch the model again", sentence(.0))]
    Vocabulary(String),
    #[error(
        "the model has no chat template: use an instruction-tuned model, put its chat_template.jinja \
         next to it, or set model.chat_template"
    )]
    NoTemplate,
    /// The file or key of the template.
    #[error(
        "the chat template of {} is empty: set model.chat_template to the file of a template",
        shown(.0)
    )]
    EmptyTemplate(String),
    /// The names of the templates.
    #[error(
        "the model has several chat templates ({}), and none is called default: set model.chat_template to \
         the file of one",
        shown(.0)
    )]
    NoDefaultTemplate(String),
    #[error("the chat template cannot be used: {}", sentence(.0))]
    Template(String),
    /// The template's reason for refusing the conversation.
    #[error("the chat template refuses the conversation: {}", sentence(.0))]
    Refused(String),
    #[error(
        "the chat template writes {places} of the {images} images of the conversation: put images into messages of the user \
         alone, or set model.chat_template to the template of the model's own files"
    )]
    Images { places: usize, images: usize },
    /// The template exceeded a limit of time, memory, depth or text.
    #[error("the chat template was stopped: {0}; use another file of the model")]
    Stopped(String),
    #[error("the process that runs the chat template cannot be started: {0}")]
    Process(io::Error),
}

impl LanguageError {
    /// Whether the template did not come to its own end, so that the same conversation may be rendered at another time.
    #[must_use]
    pub fn is_interruption(&self) -> bool {
        matches!(self, Self::Stopped(_) | Self::Process(_))
    }
}
