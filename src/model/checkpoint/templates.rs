//! Finds a model's chat templates in its files and keys, in the order of transformers and llama.cpp.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::files::read_text;
use crate::model::error::{Defect, ModelError};

/// `tokenizer_config.json` with many added tokens has some hundred kilobytes.
const LONGEST: u64 = 4 << 20;

/// The names of the template that transformers uses by default, and of the one for tools.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// The file of a single template.
const FILE: &str = "chat_template.jinja";
/// The folder of further templates.
const FOLDER: &str = "additional_chat_templates";

/// The chat templates of a model. It derefs to the one for conversations without tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChatTemplates {
    default: Option<String>,
    tool_use: Option<String>,
    /// Names of templates that no request uses.
    others: Vec<String>,
    /// The file or key of the templates.
    origin: String,
}

impl ChatTemplates {
    /// Builds it from templates by name.
    #[must_use]
    pub fn named(
        templates: impl IntoIterator<Item = (String, String)>,
        origin: impl Into<String>,
    ) -> Self {
        let mut named = Self {
            origin: origin.into(),
            ..Self::default()
        };
        for (name, text) in templates {
            match name.as_str() {
                DEFAULT => named.default = Some(text),
                TOOL_USE => named.tool_use = Some(text),
                _ => named.others.push(name),
            }
        }
        named
    }

    fn one(text: String, origin: impl Into<String>) -> Self {
        Self::named([(DEFAULT.into(), text)], origin)
    }

    /// Returns the template of conversations without tools.
    #[must_use]
    pub fn without_tools(&self) -> Option<&str> {
        self.default.as_deref()
    }

    /// Returns the separate template of conversations with tools, if there is one.
    #[must_use]
    pub fn with_tools(&self) -> Option<&str> {
        self.tool_use.as_deref()
    }

    /// Lists the names of the templates.
    #[must_use]
    pub fn names(&self) -> String {
        let tool_use = self.tool_use.iter().map(|_| TOOL_USE);
        let others = self.others.iter().map(String::as_str);
        tool_use.chain(others).collect::<Vec<_>>().join(", ")
    }

    /// Returns the file or key of the templates.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl Deref for ChatTemplates {
    type Target = str;

    fn deref(&self) -> &str {
        self.default.as_deref().unwrap_or_default()
    }
}

impl From<String> for ChatTemplates {
    fn from(text: String) -> Self {
        Self::one(text, "")
    }
}

impl From<&str> for ChatTemplates {
    fn from(text: &str) -> Self {
        Self::one(text.into(), "")
    }
}

/// Reads a template in a file of its own.
pub(super) fn of_file(path: &Path) -> Result<ChatTemplates, ModelError> {
    let text = read_text(path, LONGEST).map_err(|defect| defect.at(path))?;
    Ok(ChatTemplates::one(text, path.display().to_string()))
}

/// Returns the template file of a GGUF file: one of the same name, or of the name that transformers uses.
pub(super) fn next_to_model(model: &Path) -> Option<PathBuf> {
    let own = model.with_extension("jinja");
    [own, model.with_file_name(FILE)]
        .into_iter()
        .find(|path| path.is_file())
}

/// Reads the templates of a directory. Template files take precedence over `tokenizer_config.json`, and that over a
/// processor's `chat_template.json`.
pub(super) fn of_directory(path: &Path) -> Result<Option<ChatTemplates>, ModelError> {
    let mut files = Vec::new();
    let file = path.join(FILE);
    if file.is_file() {
        files.push((DEFAULT.to_owned(), file));
    }
    for file in additional(path) {
        let name = file.file_stem().unwrap_or_default();
        files.push((name.to_string_lossy().into_owned(), file));
    }
    if !files.is_empty() {
        let each = files.iter().map(|(name, file)| {
            let text = read_text(file, LONGEST).map_err(|defect| defect.at(file))?;
            Ok((name.clone(), text))
        });
        let each = each.collect::<Result<Vec<_>, ModelError>>()?;
        let origin = if path.join(FILE).is_file() {
            FILE
        } else {
            FOLDER
        };
        return Ok(Some(ChatTemplates::named(each, origin)));
    }
    for name in [
        "tokenizer_config.json",
        "chat_template.json",
        "processor_config.json",
    ] {
        let file = path.join(name);
        if !file.is_file() {
            continue;
        }
        let found = read_text(&file, LONGEST).and_then(|text| in_json(&text, name));
        if let Some(found) = found.map_err(|defect| defect.at(&file))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Lists the further templates of a directory, sorted.
pub(super) fn additional(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path.join(FOLDER)) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "jinja"));
    files.sort();
    files
}

/// Reads `chat_template` of a JSON file: a template, a list of named ones, or an object of them.
fn in_json(text: &str, origin: &str) -> Result<Option<ChatTemplates>, Defect> {
    #[derive(Deserialize)]
    struct Config {
        chat_template: Option<Templates>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Templates {
        One(String),
        List(Vec<Named>),
        Object(serde_json::Map<String, serde_json::Value>),
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
        template: String,
    }
    let config: Config =
        serde_json::from_str(text).map_err(|error| Defect::Malformed(error.to_string()))?;
    Ok(match config.chat_template {
        None => None,
        Some(Templates::One(text)) => Some(ChatTemplates::one(text, origin)),
        Some(Templates::List(each)) => {
            let each = each.into_iter().map(|one| (one.name, one.template));
            Some(ChatTemplates::named(each, origin))
        }
        Some(Templates::Object(each)) => {
            let each = each.into_iter().map(|(name, text)| match text {
                serde_json::Value::String(text) => Ok((name, text)),
                _ => Err(Defect::bad_value(
                    "chat_template",
                    format!("a value of {name}"),
                    "each template must be a text",
                )),
            });
            let each = each.collect::<Result<Vec<_>, Defect>>()?;
            Some(ChatTemplates::named(each, origin))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(files: &[(&str, &str)]) -> Option<ChatTemplates> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        of_directory(folder.path()).unwrap()
    }

    fn found(files: &[(&str, &str)]) -> (String, Option<String>) {
        let found = directory(files).unwrap();
        (found.default.unwrap_or_default(), found.tool_use)
    }

    #[test]
    fn templates_are_found_as_transformers_finds_them() {
        const LIST: &str = r#"{"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}, {"name": "rag", "template": "r"}]}"#;
        const OBJECT: &str = r#"{"chat_template": {"default": "o", "tool_use": "u"}}"#;
        let config = "tokenizer_config.json";
        assert_eq!(found(&[(config, LIST)]), ("d".into(), Some("t".into())));
        assert_eq!(found(&[(config, OBJECT)]), ("o".into(), Some("u".into())));
        let file = (FILE, "f");
        assert_eq!(found(&[(config, LIST), file]), ("f".into(), None));
        let more = ("additional_chat_templates/tool_use.jinja", "a");
        assert_eq!(
            found(&[(config, LIST), file, more]),
            ("f".into(), Some("a".into()))
        );
        assert_eq!(
            found(&[(config, LIST), more]),
            (String::new(), Some("a".into()))
        );
        let json = ("chat_template.json", r#"{"chat_template": "j"}"#);
        assert_eq!(found(&[(config, "{}"), json]), ("j".into(), None));
        assert_eq!(found(&[(config, OBJECT), json]).0, "o");
        assert_eq!(directory(&[(config, "{}")]), None);
        let listed = directory(&[(config, LIST)]).unwrap();
        assert_eq!(
            (listed.names().as_str(), listed.origin()),
            ("tool_use, rag", config)
        );
    }

    #[test]
    fn a_template_next_to_a_file_has_its_name_or_the_usual_one() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model.gguf");
        assert_eq!(next_to_model(&model), None);
        let usual = folder.path().join(FILE);
        fs::write(&usual, "").unwrap();
        assert_eq!(next_to_model(&model), Some(usual));
        let own = folder.path().join("model.jinja");
        fs::write(&own, "").unwrap();
        assert_eq!(next_to_model(&model), Some(own));
    }
}
