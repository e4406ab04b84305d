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
        "its layer {layer} has {heads} heads of {head_dim}, which the keys of no layer of the model fit"
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
            let source = alike.last().filter(|(_, of)| {
                of.head_dim == own.head_dim && own.heads.is_multiple_of(of.kv_heads)
            });
            let Some((source, of)) = source else {
                return Err(AssistantMismatch::Cache {
                    layer,
                    heads: own.heads,
                    head_dim: own.head_dim,
                });
            };
            own.kv = KvSource::Layer(source);
            own.kv_heads = of.kv_heads;
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
    use crate::model::shape::LayerShape;
    use crate::tape::Angles;

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

    #[test]
    fn each_layer_reads_the_last_one_of_its_kind() {
        let of = |layers: &[([usize; 3], usize)]| {
            let layers = layers.iter().map(|(heads, window)| {
                let mut layer = LayerShape::usual(*heads, 64);
                if let Some(attention) = layer.attention_mut() {
                    attention.window = NonZeroUsize::new(*window);
                }
                layer
            });
            Shape {
                layers: layers.collect(),
                angles: vec![Angles {
                    frequencies: vec![1.0],
                    amplitude: 1.0,
                }],
                ..Shape::plain(FAMILY)
            }
        };
        let mut model = of(&[
            ([8, 2, 16], 512),
            ([8, 2, 32], 0),
            ([8, 2, 16], 512),
            ([8, 2, 32], 0),
        ]);
        let own = of(&[([4, 1, 16], 512), ([4, 1, 32], 0)]);
        let fitted = model.fit_assistant(&own, 0).expect("it fits");
        let read: Vec<_> = fitted
            .attention()
            .map(|(_, of)| (of.kv, of.kv_heads, of.window.map(NonZeroUsize::get)))
            .collect();
        let expected = [
            (KvSource::Layer(2), 2, Some(511)),
            (KvSource::Layer(3), 2, None),
        ];
        assert_eq!(read, expected);
        assert_eq!(model.angles.len(), 1, "both have the same");
        for heads in [[4, 1, 64], [3, 1, 16]] {
            let refused = model.fit_assistant(&of(&[(heads, 512)]), 0);
            let refused = refused.expect_err("no layer fits");
            assert!(matches!(refused, AssistantMismatch::Cache { layer: 0, .. }));
        }
    }
}
