//! How the layers of an assistant fit the model whose cache they read.

use std::num::NonZeroUsize;

use super::shape::{KvSource, Shape};

/// The only family whose assistants are computed.
const FAMILY: &str = "gemma4";

/// Why an assistant does not fit a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssistantMismatch {
    #[error("it is an assistant of Gemma 4, and the model is of the family {family}")]
    Family { family: &'static str },
    #[error(
        "it is the assistant of a model with hidden states of {assistant} columns, and this model's have {model}"
    )]
    Hidden { assistant: usize, model: usize },
    #[error("it has a vocabulary of {assistant} tokens, and the model one of {model}")]
    Vocabulary { assistant: usize, model: usize },
    #[error(
        "its layer {layer} needs {heads} heads of {head_dim} in the model's cache, and the model's layers of this kind have others"
    )]
    Cache {
        layer: usize,
        heads: usize,
        head_dim: usize,
    },
}

impl Shape {
    /// Returns the shape of an assistant with layers that read the cache of this model: each the last layer of its kind that
    /// stores K and V. `hidden` is the hidden size that the assistant was made for.
    ///
    /// The tables of angles that this model lacks are added to it. A row of the assistant comes after the last position with
    /// keys, so that it sees a position less than the window of the model's layer.
    ///
    /// # Errors
    /// If the assistant is of another model.
    pub fn fit_assistant(
        &mut self,
        assistant: &Self,
        hidden: usize,
    ) -> Result<Self, AssistantMismatch> {
        if self.architecture != FAMILY {
            return Err(AssistantMismatch::Family {
                family: self.architecture,
            });
        }
        if hidden != self.hidden {
            return Err(AssistantMismatch::Hidden {
                assistant: hidden,
                model: self.hidden,
            });
        }
        if assistant.vocabulary != self.vocabulary {
            return Err(AssistantMismatch::Vocabulary {
                assistant: assistant.vocabulary,
                model: self.vocabulary,
            });
        }
        let mut fitted = assistant.clone();
        for (layer, own) in fitted.attention_mut() {
            let alike = self.stored().filter(|(_, of)| of.kind() == own.kind());
            let source = alike.last();
            let source =
                source.filter(|(_, of)| (of.kv_heads, of.head_dim) == (own.kv_heads, own.head_dim));
            let Some((source, of)) = source else {
                return Err(AssistantMismatch::Cache {
                    layer,
                    heads: own.kv_heads,
                    head_dim: own.head_dim,
                });
            };
            own.kv = KvSource::Layer(source);
            own.window = of.window.and_then(|window| {
                let before = (window.get() - 1).max(1);
                NonZeroUsize::new(before)
            });
        }
        for (_, own) in fitted.attention_mut() {
            own.angles = own.angles.map(|table| {
                let angles = &assistant.angles[table];
                let same = self.angles.iter().position(|of| of == angles);
                same.unwrap_or_else(|| {
                    self.angles.push(angles.clone());
                    self.angles.len() - 1
                })
            });
        }
        fitted.angles.clone_from(&self.angles);
        // No bound is applied to the logits of an assistant.
        fitted.softcaps.logits = None;
        Ok(fitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_both_must_be_equal() {
        let of = |hidden, vocabulary| Shape {
            hidden,
            vocabulary,
            ..Shape::plain(FAMILY)
        };
        let mut model = of(1536, 512);
        let mut refused = |assistant: &Shape, hidden| {
            let refused = model.fit_assistant(assistant, hidden);
            refused.expect_err("they differ").to_string()
        };
        let said = refused(&of(256, 512), 2560);
        assert!(said.contains("2560 columns"), "{said}");
        assert!(said.contains("have 1536"), "{said}");
        let said = refused(&of(256, 256), 1536);
        assert!(said.contains("256 tokens"), "{said}");
    }
}
