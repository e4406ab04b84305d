//! A model's own chat template: a conversation as the text that the model was trained on.
//!
//! Templates are Jinja programs in the model's file, and whoever wrote that file wrote them: they may nest without
//! end, double a text forty times, or never finish. Their interpreter bounds none of this, and an overflowing stack
//! or a refused allocation ends a process. So each model's template is compiled and run in a process of its own
//! (`serve`), which the operating system bounds and which holds nothing but that template; what ends it is an error
//! of this model alone. Messages reach it by a pipe, and no other way.

mod environment;
mod frame;
mod guard;
mod json;
mod renderer;
mod serve;

pub(super) use guard::Guard;
pub use serve::serve_if_asked;

use serde::Serialize;

use super::language::LanguageError;
use super::tokenizer::{Names, Specials};
use super::{Message, Role};
use renderer::Renderer;

/// Real templates are below 50 KB.
const LONGEST_SOURCE: usize = 1 << 20;

/// A template that has been compiled, and that ends.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    renderer: Renderer,
    source: String,
}

/// What a template knows.
#[derive(Debug, Serialize)]
struct Variables<'a> {
    messages: Vec<Turn<'a>>,
    add_generation_prompt: bool,
    tools: (),
    documents: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    bos_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eos_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pad_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_thinking: Option<bool>,
}

#[derive(Debug, Serialize)]
struct Turn<'a> {
    role: &'static str,
    content: &'a str,
}

impl ChatTemplate {
    pub(super) fn new(source: String, names: &Names) -> Result<Self, LanguageError> {
        if source.len() > LONGEST_SOURCE {
            return Err(LanguageError::Template(format!(
                "it is {} bytes long, and {LONGEST_SOURCE} are allowed",
                source.len()
            )));
        }
        let template = Self {
            renderer: Renderer::start(&source)?,
            source,
        };
        let question = Message {
            role: Role::User,
            content: "Hello".into(),
        };
        // A template may refuse a conversation, but one that has to be stopped would stop every answer.
        match template.render(&[question], names, None) {
            Err(error @ (LanguageError::Stopped(_) | LanguageError::Process(_))) => Err(error),
            _ => Ok(template),
        }
    }

    /// Whether it asks for `enable_thinking`.
    pub(super) fn knows_thinking(&self) -> bool {
        self.source.contains("enable_thinking")
    }

    /// Protects the messages of one rendering.
    pub(super) fn guard<'a>(
        &self,
        specials: &'a Specials,
        messages: &[Message],
    ) -> Result<Guard<'a>, LanguageError> {
        let contents = messages.iter().map(|message| message.content.as_str());
        Guard::new(specials, contents.chain([self.source.as_str()]))
    }

    /// The conversation as text, ending where the answer begins.
    pub(super) fn render(
        &self,
        messages: &[Message],
        names: &Names,
        thinking: Option<bool>,
    ) -> Result<String, LanguageError> {
        let messages = messages.iter().map(|Message { role, content }| Turn {
            role: role.name(),
            content,
        });
        let variables = Variables {
            messages: messages.collect(),
            add_generation_prompt: true,
            tools: (),
            documents: (),
            bos_token: names.bos.as_deref(),
            eos_token: names.eos.as_deref(),
            pad_token: names.pad.as_deref(),
            enable_thinking: thinking,
        };
        let variables = serde_json::to_vec(&variables)
            .map_err(|error| LanguageError::Template(error.to_string()))?;
        self.renderer.render(&self.source, &variables)
    }
}
