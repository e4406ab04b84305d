//! The families of models that `forward` can write, each as data in a file of its own.
//!
//! What all of them state alike is read by `checkpoint`. An architecture says how its files differ: what they are called,
//! how rows lie, which tensors must be there, and what its own keys mean for the shape.

mod llama;
mod ministral3;
mod mistral;
mod qwen2;
mod qwen3;
mod smollm3;

use super::{Defect, Shape};

/// All architectures that are known.
pub const ALL: [&Architecture; 6] = [
    &llama::LLAMA,
    &qwen2::QWEN2,
    &qwen3::QWEN3,
    &smollm3::SMOLLM3,
    &ministral3::MINISTRAL3,
    &mistral::MISTRAL,
];

/// A family of models.
#[derive(Debug)]
pub struct Architecture {
    /// As `model_type` of config.json writes it.
    pub name: &'static str,
    /// As `general.architecture` of GGUF does.
    pub gguf: &'static str,
    /// GGUF files hold the rows of Q and K as `RowOrder::Interleaved` says.
    pub(super) interleaved: bool,
    /// Q, K and V must have a bias; others may.
    pub(super) biased: bool,
    /// Each head of Q and K is normed before it turns.
    pub(super) head_norms: bool,
    /// What its own keys of a config.json say of a shape.
    pub(super) from_config: fn(&dyn Keys, &mut Shape) -> Result<(), Defect>,
    /// What its own keys of a GGUF file do, or what those leave out.
    pub(super) from_gguf: fn(&dyn Keys, &mut Shape) -> Result<(), Defect>,
}

/// What most of them have in common.
const PLAIN: Architecture = Architecture {
    name: "",
    gguf: "",
    interleaved: false,
    biased: false,
    head_norms: false,
    from_config: |_, _| Ok(()),
    from_gguf: |_, _| Ok(()),
};

impl Architecture {
    /// The architecture of a config.json's `model_type`.
    pub(super) fn of_config(name: String) -> Result<&'static Self, Defect> {
        Self::find(|known| known.name == name).ok_or_else(|| Self::unknown(name))
    }

    /// The architecture of a GGUF file: the first of those that share a name there.
    pub(super) fn of_gguf(name: String) -> Result<&'static Self, Defect> {
        Self::find(|known| known.gguf == name).ok_or_else(|| Self::unknown(name))
    }

    fn find(is: impl Fn(&Self) -> bool) -> Option<&'static Self> {
        ALL.into_iter().find(|known| is(known))
    }

    fn unknown(name: String) -> Defect {
        let [others @ .., last] = ALL.map(|known| known.name);
        let known = format!("{} and {last}", others.join(", "));
        Defect::UnknownArchitecture { name, known }
    }
}

/// Keys of a model's file, and their values. Absent ones are `None`; those of another type are errors.
///
/// Of a config.json a key within an object is "object.key"; of GGUF it lacks the architecture in front.
pub trait Keys {
    fn size(&self, key: &str) -> Result<Option<usize>, Defect>;
    fn float(&self, key: &str) -> Result<Option<f64>, Defect>;
    /// One for each layer; numbers but 0 are true.
    fn flags(&self, key: &str) -> Result<Option<Vec<bool>>, Defect>;
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use serde_json::Value;

    use crate::model::{Checkpoint, Shape};

    fn golden(name: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        folder.join(name)
    }

    /// The shape of a golden model once its config.json has been edited.
    pub(super) fn of_config(name: &str, edit: impl FnOnce(&mut Value)) -> Shape {
        let text = std::fs::read_to_string(golden(name).join("config.json")).expect("golden data");
        let mut config = serde_json::from_str(&text).expect("JSON");
        edit(&mut config);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = |name: &str| directory.path().join(name);
        std::fs::write(file("config.json"), config.to_string()).expect("it is written");
        let weights = golden(name).join("model.safetensors");
        std::fs::copy(weights, file("model.safetensors")).expect("it is copied");
        let checkpoint = Checkpoint::open(directory.path()).expect("it opens");
        checkpoint.shape
    }

    /// The shape of the GGUF file beside a golden model.
    pub(super) fn of_gguf(name: &str) -> Shape {
        let checkpoint = Checkpoint::open(&golden(name).join("model.q8_0.gguf"));
        checkpoint.expect("it opens").shape
    }

    #[test]
    fn tables_of_angles_are_as_the_config_says_in_either_of_its_forms() {
        let now = of_config("tiny-llama3-rope", |_| ());
        let before = of_config("tiny-llama3-rope", |config| {
            let mut parameters = config["rope_parameters"].take();
            config["rope_theta"] = parameters["rope_theta"].take();
            config["rope_scaling"] = parameters;
        });
        assert_eq!(now, before);
        assert!(now.attention.iter().all(|layer| layer.angles == Some(0)));
    }
}
