//! A model's own chat template: a conversation as the text that the model was trained on.
//!
//! Templates are Jinja programs in the model's file. They run without files or other templates, and
//! are stopped when they take too long.

mod environment;
mod guard;
mod json;

pub(super) use guard::Guard;

use std::collections::BTreeMap;

use minijinja::{Environment, ErrorKind, Value};

use super::Message;
use super::language::LanguageError;
use super::tokenizer::{Names, Specials};

const NAME: &str = "chat template";

/// A template that has been compiled.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
}

impl ChatTemplate {
    pub(super) fn new(source: String) -> Result<Self, LanguageError> {
        let mut environment = environment::hugging_face();
        environment
            .add_template_owned(NAME, source.clone())
            .map_err(|error| failed(&error))?;
        Ok(Self {
            environment,
            source,
        })
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
        let messages: Vec<Value> = messages
            .iter()
            .map(|Message { role, content }| minijinja::context! { role => role.name(), content })
            .collect();
        let mut variables = vec![
            ("messages", Value::from(messages)),
            ("add_generation_prompt", Value::from(true)),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
        ];
        let optional = [
            ("bos_token", names.bos.as_deref().map(Value::from)),
            ("eos_token", names.eos.as_deref().map(Value::from)),
            ("pad_token", names.pad.as_deref().map(Value::from)),
            ("enable_thinking", thinking.map(Value::from)),
        ];
        variables.extend(
            optional
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        self.environment
            .get_template(NAME)
            .and_then(|template| template.render(variables.into_iter().collect::<BTreeMap<_, _>>()))
            .map_err(|error| failed(&error))
    }
}

fn failed(error: &minijinja::Error) -> LanguageError {
    let raised = std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<environment::Raised>());
    if let Some(environment::Raised(message)) = raised {
        return LanguageError::Refused(message.clone());
    }
    if error.kind() == ErrorKind::OutOfFuel {
        return LanguageError::Refused("it took too many steps".into());
    }
    LanguageError::Template(error.to_string())
}
