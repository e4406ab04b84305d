//! Tools and calls of endpoints whose forms differ from that of chat completions, which the engine takes.

use std::fmt::Write as _;

use serde_json::value::RawValue;

use super::super::error::Error;
use super::super::raw;
use super::given::Given;
use super::table::{Object, Table};
use crate::front::shortened;

/// Tools of one request.
const TOOLS: usize = 1024;

/// The names of a tool's fields.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct ToolForm {
    pub(in crate::http) table: &'static Table,
    /// The only type of a tool.
    pub(in crate::http) kind: &'static str,
    /// Whether a tool may have no type.
    pub(in crate::http) is_default: bool,
    /// The field with the schema of the arguments.
    pub(in crate::http) schema: &'static str,
}

impl ToolForm {
    /// Returns an array of tools in the form of chat completions; `None` if it is empty.
    ///
    /// # Errors
    /// An error names the tool and its field.
    pub(in crate::http) fn read(self, raw: &RawValue) -> Result<Option<String>, Error> {
        let wrong = |path: &str, why: &str| {
            Error::invalid(Some(path), format!("{path}: {why}")).with_code("invalid_value")
        };
        let each = raw::array(raw, TOOLS).map_err(|why| wrong("tools", &why))?;
        let mut tools = Vec::new();
        for (number, raw) in each.into_iter().enumerate() {
            let at = format!("tools[{number}]");
            self.check_kind(raw).map_err(|why| wrong(&at, &why))?;
            let given = Given::read(self.table, Object::Tool, &at, raw.get())?;
            let Some(name) = given.get("name") else {
                return Err(wrong(&format!("{at}.name"), "it is missing"));
            };
            let mut tool = format!(r#"{{"type":"function","function":{{"name":{name}"#);
            for (field, of) in [("description", "description"), ("parameters", self.schema)] {
                if let Some(raw) = given.get(of) {
                    // Writing to memory does not fail.
                    let _ = write!(tool, r#","{field}":{raw}"#);
                }
            }
            tools.push(tool + "}}");
        }
        Ok((!tools.is_empty()).then(|| format!("[{}]", tools.join(","))))
    }

    /// Checks the type before all other fields, so that an error names it.
    fn check_kind(self, raw: &RawValue) -> Result<(), String> {
        let members = raw::object(raw.get())?;
        let kind = members.iter().find(|(name, _)| name == "type");
        let kind = kind.map(|(_, raw)| raw::text(raw)).transpose()?;
        match kind {
            None if self.is_default => Ok(()),
            Some(kind) if kind == self.kind => Ok(()),
            kind => {
                let kind = shortened(&kind.unwrap_or_default());
                let known = self.kind;
                Err(format!(
                    "its type is {kind:?}; it must be {known:?}: the daemon has no tools of its own, and calls none"
                ))
            }
        }
    }
}

/// Returns a call in the form of chat completions. All but the arguments are texts; `arguments` is JSON.
pub(in crate::http) fn call(id: &str, name: &str, arguments: &str) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let (id, name) = (quoted(id), quoted(name));
    format!(
        r#"{{"id":{id},"type":"function","function":{{"name":{name},"arguments":{arguments}}}}}"#
    )
}
