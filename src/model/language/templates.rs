//! The compiled chat templates of a model: one for conversations without tools, and an optional one for those with
//! tools.

use crate::model::chat::ChatTemplate;
use crate::model::checkpoint::ChatTemplates;
use crate::model::language_error::LanguageError;
use crate::model::tokenizer::Names;

/// Compiled templates, and the description of all that the model has.
#[derive(Debug, Default)]
pub(super) struct Templates {
    default: Option<Box<ChatTemplate>>,
    tool_use: Option<Box<ChatTemplate>>,
    found: Option<ChatTemplates>,
}

/// Whether a template writes nothing: it would drop the messages.
fn is_empty(text: &str) -> bool {
    text.trim().is_empty()
}

impl Templates {
    /// Compiles the templates that conversations use.
    pub(super) fn load(
        found: Option<&ChatTemplates>,
        names: &Names,
    ) -> Result<Self, LanguageError> {
        let compiled = |text: Option<&str>| {
            let text = text.filter(|text| !is_empty(text));
            let template = text.map(|text| ChatTemplate::new(text.to_owned(), names));
            template.transpose().map(|template| template.map(Box::new))
        };
        Ok(Self {
            default: compiled(found.and_then(ChatTemplates::without_tools))?,
            tool_use: compiled(found.and_then(ChatTemplates::with_tools))?,
            found: found.cloned(),
        })
    }

    /// Returns the template of a conversation, as transformers chooses it.
    pub(super) fn of(&self, with_tools: bool) -> Result<&ChatTemplate, LanguageError> {
        self.chosen(with_tools).ok_or_else(|| match &self.found {
            None => LanguageError::NoTemplate,
            Some(found) if found.without_tools().is_some_and(is_empty) => {
                LanguageError::EmptyTemplate(found.origin().into())
            }
            Some(found) => LanguageError::NoDefaultTemplate(found.names()),
        })
    }

    /// Returns the template of a conversation, if there is one.
    pub(super) fn chosen(&self, with_tools: bool) -> Option<&ChatTemplate> {
        let for_tools = self.tool_use.as_deref().filter(|_| with_tools);
        for_tools.or(self.default.as_deref())
    }

    /// Returns the file or key of the templates.
    pub(super) fn origin(&self) -> &str {
        self.found.as_ref().map_or("", ChatTemplates::origin)
    }
}
