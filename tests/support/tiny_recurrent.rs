//! The golden model tiny-qwen3_5, whose file has a vocabulary, with a chat template. A program with this module needs no
//! other file.

use std::io;
use std::path::{Path, PathBuf};

const MODEL: &[u8] = include_bytes!("../golden/tiny-qwen3_5/model.q8_0.gguf");

/// An answer follows the same text as in later prompts.
const TEMPLATE: &str = "{% for message in messages %}\
    {% if message.role == 'assistant' %}> {% else %}{{ message.role[0] }}: {% endif %}{{ message.content }}\n\
    {% endfor %}{% if add_generation_prompt %}> {% endif %}";

/// Writes the model and its chat template into a folder, and returns their paths.
pub(crate) fn write(folder: &Path) -> io::Result<[PathBuf; 2]> {
    let [model, template] = ["recurrent.gguf", "template.jinja"].map(|name| folder.join(name));
    std::fs::write(&model, MODEL)?;
    std::fs::write(&template, TEMPLATE)?;
    Ok([model, template])
}
