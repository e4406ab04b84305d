//! The four options of tools.

use std::sync::Arc;

use crate::front::error::OptionError;
use crate::front::text::shortened;
use crate::tools::Tools;

/// Their names.
pub(super) const NAMES: [&str; 4] = ["tools", "tool_choice", "parallel_tool_calls", "max_calls"];

/// Their values, as far as they are given.
#[derive(Default)]
pub(super) struct ToolOptions {
    pub(super) tools: Option<String>,
    pub(super) choice: Option<String>,
    pub(super) parallel: Option<bool>,
    pub(super) max_calls: Option<u32>,
}

impl ToolOptions {
    /// Returns the tools of a request; `default` are the tools of its session, if it has some.
    pub(super) fn read(
        &self,
        default: Option<&Arc<Tools>>,
    ) -> Result<Option<Arc<Tools>>, OptionError> {
        // An empty text means no tools.
        let given = self.tools.as_deref();
        let default = default.filter(|_| given.is_none());
        let text = match (given.filter(|text| !text.is_empty()), default) {
            (Some(text), _) => text,
            (None, Some(default)) if self.changes_nothing() => return Ok(Some(default.clone())),
            (None, Some(default)) => default.given(),
            (None, None) => {
                return match self.choice.as_deref() {
                    None | Some("auto" | "none") => Ok(None),
                    Some(choice) => Err(OptionError::Unusable {
                        option: "tool_choice",
                        why: format!(
                            "option \"tool_choice\" is {:?}, and there are no tools: give the option \"tools\"",
                            shortened(choice)
                        ),
                    }),
                };
            }
        };
        let choice = self.choice.as_deref();
        let choice = choice.or(default.map(|tools| tools.choice()));
        let parallel = default.is_none_or(|tools| tools.parallel());
        let tools = Tools::read(text, choice, self.parallel.unwrap_or(parallel));
        let tools = tools.map_err(|error| OptionError::Unusable {
            option: "tools",
            why: error.to_string(),
        })?;
        let max_calls = self.max_calls.or(default.and_then(|tools| tools.most()));
        Ok(Some(Arc::new(tools.at_most(max_calls))))
    }

    /// Whether the session's tools are called as the session says.
    fn changes_nothing(&self) -> bool {
        self.choice.is_none() && self.parallel.is_none() && self.max_calls.is_none()
    }
}
