//! The file of scores, read and written: token ids and what a model said of them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::failure::{Exit, Failure};

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Golden {
    /// Whose figures these are.
    #[serde(default)]
    pub(crate) source: String,
    pub(crate) cases: Vec<Case>,
}

/// Natural logarithms throughout. Only `input_ids` is required of a file that is read.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Case {
    pub(crate) input_ids: Vec<u32>,
    /// One shorter than `input_ids`: `[i]` is log p(`input_ids[i + 1]` | `input_ids[..=i]`).
    #[serde(default)]
    pub(crate) token_logprobs: Vec<f64>,
    /// The most probable next token after each of `input_ids`.
    #[serde(default)]
    pub(crate) argmax: Vec<u32>,
    /// The most probable tokens after the last of `input_ids`, best first.
    #[serde(default)]
    pub(crate) last_top10: Vec<(u32, f64)>,
    /// The tokens that greedy decoding puts after `input_ids`.
    #[serde(default)]
    pub(crate) greedy: Vec<u32>,
}

impl Golden {
    /// Reads `path` and checks what can be checked without the model.
    ///
    /// # Errors
    /// `Exit::Data` if it cannot be read, is not in the format, or is inconsistent.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let data = |why: &dyn std::fmt::Display| {
            Failure::new(Exit::Data, format!("{}: {why}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| data(&error))?;
        let golden: Self = serde_json::from_str(&text).map_err(|error| data(&error))?;
        if golden.cases.is_empty() {
            return Err(data(&"cases is empty; give at least one with input_ids"));
        }
        for (number, case) in golden.cases.iter().enumerate() {
            case.check()
                .map_err(|why| data(&format!("cases[{number}]: {why}")))?;
        }
        Ok(golden)
    }

    /// Checks every id against the model's vocabulary.
    ///
    /// # Errors
    /// `Exit::Data`, naming the id.
    pub(crate) fn check_vocabulary(&self, vocabulary: usize) -> Result<(), Failure> {
        for (number, case) in self.cases.iter().enumerate() {
            let top = case.last_top10.iter().map(|(id, _)| id);
            for id in case.input_ids.iter().chain(&case.argmax).chain(top) {
                if usize::try_from(*id).is_ok_and(|id| id < vocabulary) {
                    continue;
                }
                return Err(Failure::new(
                    Exit::Data,
                    format!(
                        "cases[{number}]: id {id} is not in the model's vocabulary of {vocabulary}; \
                         was the file made for another model?"
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl Case {
    fn check(&self) -> Result<(), String> {
        let ids = self.input_ids.len();
        if ids == 0 {
            return Err("input_ids is empty; give at least one id".into());
        }
        if !self.token_logprobs.is_empty() && self.token_logprobs.len() != ids - 1 {
            return Err(format!(
                "{} token_logprobs for {ids} input_ids; there must be {}",
                self.token_logprobs.len(),
                ids - 1
            ));
        }
        if !self.argmax.is_empty() && self.argmax.len() != ids {
            return Err(format!(
                "{} entries of argmax for {ids} input_ids; there must be {ids}",
                self.argmax.len()
            ));
        }
        Ok(())
    }
}
