//! Identifies files and folders that are not a model, by a file's first bytes or by the names in a folder, and returns
//! the remedy.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::path::Path;

use crate::model::error::Defect;
use crate::model::shown::shown;

/// Bytes of a file that are examined.
const LOOKED_AT: u64 = 512;

/// The most bytes of an adapter's config.
const LONGEST_CONFIG: u64 = 1 << 20;

const AGAIN: &str = "fetch it again";
const TAKE_GGUF: &str = "take a GGUF file of the model, or its folder with safetensors";
/// The remedy for an answer that a server gave in place of a file.
const PAGE: &str = "the address needs a login, or leads to a page about the file: fetch the file itself, for \
                    example by ganglionctl pull OWNER/REPOSITORY:FILE";

/// First bytes, the kind of file that has them, and the remedy.
const BEGINNINGS: &[(&[u8], &str, &str)] = &[
    (
        b"version https://git-lfs.github.com/spec/",
        "a Git LFS pointer, not the file that it stands for",
        "git lfs pull fetches the file, and so does ganglionctl pull OWNER/REPOSITORY:FILE",
    ),
    (
        b"PK\x03\x04",
        "a zip archive, as PyTorch saves weights",
        "PyTorch's format is not supported: take a GGUF file of the model, or its folder with safetensors; \
         unpack an archive of another kind",
    ),
    (
        b"\x80\x02",
        "a Python pickle, as PyTorch saves weights",
        TAKE_GGUF,
    ),
    (b"\x1f\x8b", "a gzip archive", "unpack it"),
    (b"\xfd7zXZ\0", "an xz archive", "unpack it"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it"),
    (b"lmgg", OLD_GGML, TAKE_GGUF),
    (b"tjgg", OLD_GGML, TAKE_GGUF),
    (b"fmgg", OLD_GGML, TAKE_GGUF),
    (b"algg", OLD_GGML, TAKE_GGUF),
    (b"GGML", OLD_GGML, TAKE_GGUF),
    (
        b"LITERTLM",
        "a LiteRT-LM file, which is not supported",
        TAKE_GGUF,
    ),
    (
        b"ftrt",
        "a TensorRT engine, which is not supported",
        TAKE_GGUF,
    ),
    (
        b"\x89HDF\r\n",
        "an HDF5 file, which is not supported",
        TAKE_GGUF,
    ),
];

const OLD_GGML: &str = "a GGML file from before GGUF, which is not supported";

/// Returns the defect of a file in a wrong format: the format that its first bytes show, or else `otherwise`.
pub(super) fn file(mut file: &File, path: &Path, length: u64, otherwise: Defect) -> Defect {
    let mut head = Vec::new();
    // If the file cannot be read, the first error stays.
    let rewound = file.rewind();
    if rewound.is_err() || file.take(LOOKED_AT).read_to_end(&mut head).is_err() {
        return otherwise;
    }
    let name = path.to_string_lossy().to_lowercase();
    // Among a model's files the first error is more precise.
    let begins = head.get(8) == Some(&b'{');
    if begins && name.ends_with(".safetensors") && path.with_file_name("config.json").exists() {
        return otherwise;
    }
    known(&head, length, &name).unwrap_or(otherwise)
}

fn known(head: &[u8], length: u64, name: &str) -> Option<Defect> {
    if length == 0 {
        return Some(Defect::foreign(
            "an empty file",
            format!("the disk was full, or nothing came: {AGAIN}"),
        ));
    }
    let starts = |with: &[u8]| head.starts_with(with);
    if let Some((_, what, remedy)) = BEGINNINGS.iter().find(|(bytes, ..)| starts(bytes)) {
        return Some(Defect::foreign(*what, *remedy));
    }
    if Path::new(name)
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("onnx"))
    {
        return Some(Defect::foreign(
            "an ONNX file, which is not supported",
            TAKE_GGUF,
        ));
    }
    if head.get(4..8) == Some(b"TFL3") {
        let what = "a TensorFlow Lite file, which is not supported";
        return Some(Defect::foreign(what, TAKE_GGUF));
    }
    if head.iter().all(|byte| *byte == 0) {
        let what = "a file that begins with zeros alone";
        let remedy = format!("its download did not end: {AGAIN}");
        return Some(Defect::foreign(what, remedy));
    }
    let header = head.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let is_safetensors = header.is_some_and(|header| header < length) && head.get(8) == Some(&b'{');
    if is_safetensors {
        let remedy = "name its folder, which must have config.json and tokenizer.json too";
        return Some(Defect::foreign("a safetensors file by itself", remedy));
    }
    text(head)
}

/// Identifies a pointer or a page that was saved in place of a text file.
pub(super) fn placeholder(text: &str) -> Option<Defect> {
    let (pointer, what, remedy) = BEGINNINGS[0];
    if text.as_bytes().starts_with(pointer) {
        return Some(Defect::foreign(what, remedy));
    }
    is_page(text).then(|| Defect::foreign(HTML, PAGE))
}

const HTML: &str = "an HTML page, not a file of a model";

fn is_page(text: &str) -> bool {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    ["<!doctype html", "<html"].iter().any(|tag| {
        let start = text.get(..tag.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(tag))
    })
}

/// Identifies a text: a page, or a server's answer.
fn text(head: &[u8]) -> Option<Defect> {
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        // A character may be cut where the bytes end.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let text = valid.trim_start();
    if is_page(text) {
        return Some(Defect::foreign(HTML, PAGE));
    }
    let is_text = !text.contains(|c: char| c.is_control() && !c.is_whitespace());
    let line = text.lines().next().unwrap_or_default();
    (is_text && !line.is_empty()).then(|| {
        Defect::foreign(
            format!(
                "a text, not a file of a model; it begins \"{}\"",
                shown(line)
            ),
            PAGE,
        )
    })
}

/// Returns the reason why a folder is not a model, judged by the names in it; `None` if they do not show one.
pub(super) fn folder(path: &Path) -> Option<Defect> {
    let entries = fs::read_dir(path).ok()?.flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let has = |name: &str| names.iter().any(|one| one == name);
    let ends = |end: &str| -> Vec<&str> {
        let matching = names
            .iter()
            .filter(|name| name.to_lowercase().ends_with(end));
        matching.map(String::as_str).collect()
    };
    if names.is_empty() {
        return Some(Defect::foreign(
            "an empty folder",
            "fetch the model into it",
        ));
    }
    if has("adapter_config.json") || has("adapter_model.safetensors") {
        return Some(lora(base_of(path)));
    }
    let ggufs = models(&ends(".gguf"));
    if let [first, rest @ ..] = &ggufs[..] {
        let file = path.join(first);
        let what = if rest.is_empty() {
            "a folder with a GGUF file".into()
        } else {
            let all = shown(&ggufs.join(", ")).to_string();
            format!("a folder with several GGUF files ({all})")
        };
        let file = file.display().to_string();
        let remedy = format!("name the file itself, such as {}", shown(&file));
        return Some(Defect::foreign(what, remedy));
    }
    for (name, what, remedy) in FOLDERS {
        if has(name) {
            return Some(Defect::foreign(*what, *remedy));
        }
    }
    let pickles = ends(".bin")
        .into_iter()
        .chain(ends(".pth"))
        .chain(ends(".pt"));
    if let Some(pickle) = pickles.into_iter().find(|name| is_weights(name)) {
        let what = format!("a folder with PyTorch weights ({}) alone", shown(pickle));
        return Some(Defect::foreign(what, NO_PYTORCH));
    }
    if !ends(".onnx").is_empty() || has("onnx") {
        let what = "a folder with an ONNX model, which is not supported";
        return Some(Defect::foreign(what, TAKE_GGUF));
    }
    let weights = ends(".safetensors");
    if let Some(shard) = weights.iter().find(|name| name.contains("-of-")) {
        let what = format!(
            "model.safetensors.index.json is missing next to {} and the other shards",
            shown(shard)
        );
        let remedy =
            "fetch it from where the shards are from: it says which tensor is in which shard";
        return Some(Defect::missing(what, remedy));
    }
    if let [other] = weights[..]
        && has("config.json")
    {
        let what = format!("model.safetensors is missing; there is {}", shown(other));
        let remedy =
            "a model's weights have that name: fetch them, or rename the file if it is those";
        return Some(Defect::missing(what, remedy));
    }
    match (has("config.json"), weights.is_empty()) {
        (true, true) => Some(Defect::missing(
            "model.safetensors is missing: the folder has no weights",
            "fetch it, or model.safetensors.index.json and its shards",
        )),
        (false, false) => Some(Defect::missing(
            "config.json is missing",
            "fetch it from where the weights are from",
        )),
        _ => None,
    }
}

const NO_PYTORCH: &str =
    "PyTorch's format is not supported: take the model's safetensors, or a GGUF file of it";

/// Names that identify a folder, its kind, and the remedy.
const FOLDERS: &[(&str, &str, &str)] = &[
    (
        "snapshots",
        "a model's folder in Hugging Face's cache",
        "name the folder in its snapshots",
    ),
    (
        "model_index.json",
        "a pipeline that makes pictures",
        "take a language model",
    ),
    (
        "consolidated.safetensors",
        "a folder in Mistral's own format, which is not supported",
        "take the files that Hugging Face's transformers reads, or a GGUF file of the model",
    ),
];

/// Lists the GGUF files of a folder that may be models: first parts, and no vision towers.
fn models<'a>(ggufs: &[&'a str]) -> Vec<&'a str> {
    let may_be = |name: &&&str| {
        let is_later = super::parts::of(name).is_some_and(|part| part.number > 1);
        !is_later && !name.to_lowercase().contains("mmproj")
    };
    ggufs.iter().filter(may_be).copied().collect()
}

fn is_weights(name: &str) -> bool {
    !name.starts_with("training_args")
        && !name.starts_with("optimizer")
        && !name.starts_with("scheduler")
}

/// Returns the defect of a LoRA of a base model.
pub(super) fn lora(base: Option<String>) -> Defect {
    let base = base.map_or_else(
        || "its base model".into(),
        |base| format!("its base model {}", shown(&base)),
    );
    Defect::foreign(
        "a LoRA adapter",
        format!(
            "adapters are not supported: merge it into {base} (PEFT's merge_and_unload), or take a merged model"
        ),
    )
}

fn base_of(path: &Path) -> Option<String> {
    let file = path.join("adapter_config.json");
    if !fs::metadata(&file).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let mut file = File::open(file).ok()?.take(LONGEST_CONFIG);
    file.read_to_string(&mut text).ok()?;
    let config: serde_json::Value = serde_json::from_str(&text).ok()?;
    let base = config.get("base_model_name_or_path")?.as_str()?;
    (!base.is_empty()).then(|| base.to_owned())
}
