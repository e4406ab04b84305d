//! A family of models as data.

use crate::model::error::Defect;
use crate::model::names::{self, Names};
use crate::model::shape::Shape;

/// A family of models.
#[derive(Debug)]
pub struct Architecture {
    /// The name in `model_type` of config.json.
    pub name: &'static str,
    /// Other names there, such as that of the part of a multimodal model.
    pub(in crate::model) aliases: &'static [&'static str],
    /// The name in `general.architecture` of GGUF.
    pub gguf: &'static str,
    /// Whether GGUF files hold the rows of Q and K as `RowOrder::Interleaved` describes.
    pub(in crate::model) interleaved: bool,
    /// Whether Q, K and V must have a bias. In other families they may.
    pub(in crate::model) biased: bool,
    /// Whether each head of Q and K is normalized before its rotation.
    pub(in crate::model) head_norms: bool,
    /// The names of tensors in Hugging Face's files, and in GGUF files.
    pub(in crate::model) names: [&'static Names; 2],
    /// Keys of a config.json, and the names that the family has for them.
    pub(in crate::model) renamed: &'static [(&'static str, &'static str)],
    /// The kinds of layers that a config.json may list.
    pub(in crate::model) layer_types: &'static [&'static str],
    /// Keys of either file that other families must not have, and that `from_config` or `from_gguf` reads.
    pub(in crate::model) own_keys: &'static [&'static str],
    /// The values of keys that a config.json leaves out.
    pub(in crate::model) defaults: Defaults,
    /// Applies the family's own keys of a config.json to a shape.
    pub(in crate::model) from_config: fn(&dyn Keys, &mut Shape) -> Result<(), Defect>,
    /// Applies the family's own keys of a GGUF file, or their defaults, to a shape.
    pub(in crate::model) from_gguf: fn(&dyn Keys, &mut Shape) -> Result<(), Defect>,
}

/// The values of keys that a config.json may leave out, as in the family's class in transformers.
#[derive(Debug)]
pub(in crate::model) struct Defaults {
    /// The number of attention heads, of tokens and of positions; `None` means that a file must state it.
    pub(in crate::model) heads: Option<usize>,
    pub(in crate::model) vocabulary: Option<usize>,
    pub(in crate::model) context: Option<usize>,
    pub(in crate::model) theta: f64,
    /// The part of each head that rotates.
    pub(in crate::model) part: f64,
    pub(in crate::model) epsilon: f64,
    /// The number of KV heads; `None` means that of attention heads.
    pub(in crate::model) kv_heads: Option<usize>,
    /// The size of a head; `None` means the hidden size divided by the attention heads.
    pub(in crate::model) head_dim: Option<usize>,
    /// Whether the head is the embedding.
    pub(in crate::model) tied: bool,
    /// Whether rope scaling is the default, so that a file must state its own.
    pub(in crate::model) scaled: bool,
}

impl Defaults {
    pub(super) const PLAIN: Self = Self {
        heads: None,
        vocabulary: None,
        context: None,
        theta: 10_000.0,
        part: 1.0,
        epsilon: 1e-6,
        kv_heads: None,
        head_dim: None,
        tied: false,
        scaled: false,
    };
}

/// The common properties of most families.
pub(super) const PLAIN: Architecture = Architecture {
    name: "",
    aliases: &[],
    gguf: "",
    interleaved: false,
    biased: false,
    head_norms: false,
    names: [&names::HUGGING_FACE, &names::GGUF],
    renamed: &[],
    layer_types: &["full_attention"],
    own_keys: &[],
    defaults: Defaults::PLAIN,
    from_config: |_, _| Ok(()),
    from_gguf: |_, _| Ok(()),
};

/// Keys of a model's file, and their values. A missing key is `None`; a value of another type is an error.
///
/// A key within an object of config.json is "object.key". A key of GGUF has no architecture in front.
pub trait Keys {
    /// Returns a key's full name in the file.
    fn named(&self, key: &str) -> String;
    /// Whether the key exists, even without a value.
    fn has(&self, key: &str) -> bool;
    /// Whether the key has an array.
    fn is_list(&self, key: &str) -> bool;
    fn size(&self, key: &str) -> Result<Option<usize>, Defect>;
    fn float(&self, key: &str) -> Result<Option<f64>, Defect>;
    fn flag(&self, key: &str) -> Result<Option<bool>, Defect>;
    /// Returns a flag for each of `count` layers; numbers other than 0 are true.
    fn flags(&self, key: &str, count: usize) -> Result<Option<Vec<bool>>, Defect>;
    /// Whether the files have a tensor; false if they are not open yet, as when a config.json is read.
    fn has_tensor(&self, name: &str) -> bool;
    /// Returns an array of whole numbers.
    fn sizes(&self, key: &str) -> Result<Option<Vec<usize>>, Defect>;
    fn word(&self, key: &str) -> Result<Option<String>, Defect>;
    /// Returns an array of words.
    fn words(&self, key: &str) -> Result<Option<Vec<String>>, Defect>;

    /// Returns the defect of a file without a required key.
    fn missing(&self, key: &str) -> Defect {
        Defect::MissingKey(self.named(key))
    }

    /// Returns a required size.
    fn needed(&self, key: &str) -> Result<usize, Defect> {
        self.size(key)?.ok_or_else(|| self.missing(key))
    }
}
