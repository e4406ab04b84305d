//! The golden models that see images and whose files have vocabularies, with their towers and chat templates. A program
//! with this module needs no other file.

use std::io;
use std::path::{Path, PathBuf};

/// A model, its tower, and what its template writes around a message and for an image.
struct Stored {
    name: &'static str,
    model: &'static [u8],
    tower: &'static [u8],
    begin: &'static str,
    end: &'static str,
    image: &'static str,
}

/// The files of a model.
#[derive(Clone)]
pub(crate) struct Files {
    pub(crate) model: PathBuf,
    pub(crate) tower: PathBuf,
    pub(crate) template: PathBuf,
}

const STORED: [Stored; 2] = [
    // Positions of three parts, and embeddings for deep layers.
    Stored {
        name: "qwen3_vl",
        model: include_bytes!("../golden/vision/tiny-qwen3_vl.q8_0.gguf"),
        tower: include_bytes!("../golden/vision/tiny-qwen3_vl.mmproj-f16.gguf"),
        begin: "<|im_start|>",
        end: "<|im_end|>",
        image: "<|vision_start|><|image_pad|><|vision_end|>",
    },
    // Windows, and images whose rows see each other.
    Stored {
        name: "gemma3",
        model: include_bytes!("../golden/vision/tiny-gemma3.q8_0.gguf"),
        tower: include_bytes!("../golden/vision/tiny-gemma3.mmproj-f16.gguf"),
        begin: "<start_of_turn>",
        end: "<end_of_turn>",
        image: "<start_of_image>",
    },
];

/// Writes the models into a folder, and returns their files.
pub(crate) fn write(folder: &Path) -> io::Result<Vec<Files>> {
    STORED.iter().map(|stored| stored.write(folder)).collect()
}

impl Stored {
    fn write(&self, folder: &Path) -> io::Result<Files> {
        let Self { name, .. } = self;
        let files = Files {
            model: folder.join(format!("{name}.gguf")),
            tower: folder.join(format!("{name}.mmproj.gguf")),
            template: folder.join(format!("{name}.jinja")),
        };
        std::fs::write(&files.model, self.model)?;
        std::fs::write(&files.tower, self.tower)?;
        std::fs::write(&files.template, self.chat_template())?;
        Ok(files)
    }

    fn chat_template(&self) -> String {
        let Self {
            begin, end, image, ..
        } = self;
        format!(
            "{{% for m in messages %}}{begin}{{{{ m.role[0] }}}}: {{% if m.content is string %}}{{{{ m.content }}}}{{% else %}}\
             {{% for c in m.content %}}{{% if c['type'] == 'image' %}}{image}{{% else %}}{{{{ c['text'] }}}}{{% endif %}}\
             {{% endfor %}}{{% endif %}}{end}\n{{% endfor %}}{{% if add_generation_prompt %}}{begin}a: {{% endif %}}"
        )
    }
}
