//! Opens a GGUF file of a vision tower and its projector (mmproj), and reads its shape.

use std::path::Path;

use super::metadata::{Metadata, required};
use super::{Head, read_head, with_parts};
use crate::model::architecture::{Keys, check_length};
use crate::model::checkpoint::files::{self, ModelFile};
use crate::model::checkpoint::stored::Directory;
use crate::model::error::{Defect, ModelError};
use crate::model::shown::shown;
use crate::model::tower::family::{self, TowerFamily};
use crate::model::tower::shape::TowerShape;

/// A file whose tensors are not looked up yet.
pub(in crate::model::checkpoint) struct Opened {
    pub(in crate::model::checkpoint) name: String,
    pub(in crate::model::checkpoint) family: &'static TowerFamily,
    pub(in crate::model::checkpoint) shape: TowerShape,
    pub(in crate::model::checkpoint) directory: Directory,
    pub(in crate::model::checkpoint) files: Vec<ModelFile>,
}

pub(in crate::model::checkpoint) fn open(path: &Path) -> Result<Opened, ModelError> {
    let source = ModelFile::open(path).map_err(|defect| defect.at(path))?;
    let first = read_head(&source, 0).map_err(|defect| defect.at(path))?;
    let (files, head) = with_parts(source, first)?;
    let Head {
        metadata,
        directory,
    } = head;
    let (family, shape) = shape(&metadata, &directory).map_err(|defect| defect.at(path))?;
    let name = metadata.string("general.name").ok().flatten();
    let name = name.unwrap_or_else(|| files::stem(path));
    Ok(Opened {
        name: shown(&name).to_string(),
        family,
        shape,
        directory,
        files,
    })
}

/// The keys that state the type of a projector: a file with an audio encoder, too, has the second one.
const TYPES: [&str; 2] = ["clip.projector_type", "clip.vision.projector_type"];

fn shape(
    metadata: &Metadata,
    directory: &Directory,
) -> Result<(&'static TowerFamily, TowerShape), Defect> {
    let key = "general.architecture";
    let architecture = required(metadata.string(key), key)?;
    if architecture != "clip" {
        return Err(Defect::foreign(
            "a language model, not its vision tower",
            "name the mmproj file that is published next to it",
        ));
    }
    let key = "clip.has_vision_encoder";
    if metadata.boolean(key)? == Some(false) {
        return Err(Defect::foreign(
            "a file without a vision tower",
            "name the mmproj file of a model that sees images",
        ));
    }
    let key = TYPES.into_iter().find(|key| metadata.has(key));
    let key = key.unwrap_or(TYPES[0]);
    let name = required(metadata.string(key), key)?;
    let family = family::of_projector(key, &name)?;
    let keys = Clip {
        metadata,
        directory,
    };
    let sizes = |name: &str| Some(directory.get(name)?.dimensions.clone());
    let shape = (family.from_gguf)(&keys, &sizes)?;
    Ok((family, shape))
}

/// The keys of a tower, which begin with "clip.".
struct Clip<'a> {
    metadata: &'a Metadata,
    directory: &'a Directory,
}

impl Keys for Clip<'_> {
    fn named(&self, key: &str) -> String {
        format!("clip.{key}")
    }

    fn has(&self, key: &str) -> bool {
        self.metadata.has(&self.named(key))
    }

    fn is_list(&self, key: &str) -> bool {
        self.metadata.length(&self.named(key)).is_some()
    }

    fn size(&self, key: &str) -> Result<Option<usize>, Defect> {
        self.metadata.size(&self.named(key))
    }

    fn float(&self, key: &str) -> Result<Option<f64>, Defect> {
        self.metadata.float(&self.named(key))
    }

    fn flag(&self, key: &str) -> Result<Option<bool>, Defect> {
        self.metadata.boolean(&self.named(key))
    }

    fn flags(&self, key: &str, count: usize) -> Result<Option<Vec<bool>>, Defect> {
        let key = self.named(key);
        let flags = self.metadata.flags(&key)?;
        let length = flags.as_ref().map_or(count, Vec::len);
        check_length(&key, length, count).map(|()| flags)
    }

    fn has_tensor(&self, name: &str) -> bool {
        self.directory.contains_key(name)
    }

    fn sizes(&self, key: &str) -> Result<Option<Vec<usize>>, Defect> {
        self.metadata.sizes(&self.named(key), 1)
    }

    fn word(&self, key: &str) -> Result<Option<String>, Defect> {
        self.metadata.string(&self.named(key))
    }

    fn words(&self, _: &str) -> Result<Option<Vec<String>>, Defect> {
        Ok(None)
    }
}
