//! Unsupported models: each is refused with a remedy, and by every program that checks models.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ganglion::load::OpenModel;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::gguf_writer::GgufWriter;
use crate::support::tiny_gguf;

const CTL: &str = env!("CARGO_BIN_EXE_ganglionctl");

/// Returns the error of a program for a model with these bytes.
fn said(name: &str, bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join(name);
    fs::write(&path, bytes).expect("it is written");
    refusal(&path)
}

fn refusal(path: &Path) -> String {
    let refused = OpenModel::read(path, None).map(|_| ());
    refused.expect_err("it is refused").to_string()
}

fn gguf(edit: impl FnOnce(&mut GgufWriter)) -> Vec<u8> {
    let mut gguf = tiny_gguf::with_vocabulary();
    edit(&mut gguf);
    gguf.file()
}

/// A file with this description and one tensor.
fn kind(key: &str, value: &str) -> Vec<u8> {
    let mut gguf = GgufWriter::default();
    gguf.string(key, value).tensor("a", &[4], 0, &[0; 16]);
    gguf.file()
}

#[test]
fn a_file_of_another_kind_is_named_with_a_remedy() {
    let whole = gguf(|_| ());
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n";
    let cases: [(&str, Vec<u8>, &str, &str); 17] = [
        ("a.gguf", vec![], "an empty file", "fetch it again"),
        (
            "a.gguf",
            pointer.into(),
            "a Git LFS pointer",
            "git lfs pull",
        ),
        (
            "a.gguf",
            "\n<!DOCTYPE html><html>".into(),
            "an HTML page",
            "ganglionctl pull",
        ),
        (
            "a.gguf",
            "Entry not found".into(),
            "it begins \"Entry not found\"",
            "fetch the file itself",
        ),
        ("a.bin", b"PK\x03\x04\0".to_vec(), "a zip archive", "GGUF"),
        ("a.bin", b"\x80\x02}q".to_vec(), "a Python pickle", "GGUF"),
        (
            "a.gz",
            b"\x1f\x8b\x08".to_vec(),
            "a gzip archive",
            "unpack it",
        ),
        (
            "a.onnx",
            b"\x08\x07\x12\x07pytorch".to_vec(),
            "an ONNX file, which is not supported",
            "GGUF",
        ),
        (
            "a.safetensors",
            b"\x02\0\0\0\0\0\0\0{}  ".to_vec(),
            "a safetensors file by itself",
            "name its folder",
        ),
        (
            "a.gguf",
            vec![0; 4096],
            "begins with zeros alone",
            "fetch it again",
        ),
        (
            "a.gguf",
            whole[..whole.len() - 64].into(),
            "does not fit the file",
            "fetch it again",
        ),
        (
            "a.gguf",
            whole[..500].into(),
            "are left; the file is damaged or incomplete",
            "fetch it again",
        ),
        (
            "a.gguf",
            kind("general.type", "adapter"),
            "a LoRA adapter",
            "merge it into its base model",
        ),
        (
            "a.gguf",
            kind("general.architecture", "clip"),
            "the vision part of a model (mmproj)",
            "name the file of the language model",
        ),
        (
            "a.gguf",
            kind("general.architecture", "mamba"),
            "\"mamba\" is not supported",
            "supported: llama, qwen2",
        ),
        (
            "a.gguf",
            tiny_gguf::of_type(16).file(),
            "is IQ2_XXS, which is not supported",
            "Q4_K_M or IQ4_XS",
        ),
        (
            "a-00002-of-00002.gguf",
            tiny_gguf::with_vocabulary().parts(2).remove(1),
            "part 2 of 2 of a split file",
            "a-00001-of-00002.gguf",
        ),
    ];
    for (name, bytes, what, remedy) in cases {
        let said = said(name, &bytes);
        assert!(said.contains(what), "{said:?} does not say {what:?}");
        assert!(said.contains(remedy), "{said:?} does not say {remedy:?}");
    }
}

/// Names and contents of files.
type Files<'a> = &'a [(&'a str, &'a [u8])];

/// The error for each of these folders.
fn folders_are_refused(cases: &[(Files<'_>, &str, &str)]) {
    for (files, what, remedy) in cases {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in *files {
            fs::write(folder.path().join(name), bytes).expect("it is written");
        }
        let said = refusal(folder.path());
        assert!(said.contains(what), "{said:?} does not say {what:?}");
        assert!(said.contains(remedy), "{said:?} does not say {remedy:?}");
    }
}

#[test]
fn a_folder_without_a_model_is_named_with_a_remedy() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-qwen2");
    let config = fs::read(golden.join("config.json")).expect("golden data");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n";
    let base = br#"{"base_model_name_or_path": "Qwen/Qwen3-4B"}"#;
    let page = b"<!doctype html>\n<html lang=\"en\">";
    let cases: [(Files, &str, &str); 10] = [
        (&[], "an empty folder", "fetch the model into it"),
        (
            &[
                ("adapter_config.json", base),
                ("adapter_model.safetensors", b""),
            ],
            "a LoRA adapter",
            "merge it into its base model Qwen/Qwen3-4B",
        ),
        (
            &[("config.json", &config), ("pytorch_model.bin", b"PK")],
            "PyTorch weights (pytorch_model.bin) alone",
            "take the model's safetensors, or a GGUF",
        ),
        (
            &[
                ("config.json", &config),
                ("a.Q8_0.gguf", b""),
                ("b.gguf", b""),
            ],
            "a folder with several GGUF files (a.Q8_0.gguf, b.gguf)",
            "a.Q8_0.gguf",
        ),
        (
            &[("a.gguf", b""), ("mmproj-a.gguf", b"")],
            "a folder with a GGUF file",
            "name the file itself",
        ),
        (
            &[("config.json", &config), ("model.safetensors", pointer)],
            "model.safetensors: is a Git LFS pointer",
            "git lfs pull",
        ),
        (
            &[("config.json", page), ("model.safetensors", b"")],
            "config.json: is an HTML page",
            "fetch the file itself",
        ),
        (
            &[("config.json", &config), ("model.onnx", b"")],
            "an ONNX model, which is not supported",
            "GGUF",
        ),
        (
            &[("config.json", &config), ("quantize_config.json", b"{}")],
            "quantize_config.json: quantized by GPTQ",
            "Q4_K_M or IQ4_XS",
        ),
        (
            &[("params.json", b"{}"), ("consolidated.safetensors", b"")],
            "Mistral's own format, which is not supported",
            "GGUF",
        ),
    ];
    folders_are_refused(&cases);
}

#[test]
fn the_file_that_a_folder_lacks_is_named() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-qwen2");
    let config = fs::read(golden.join("config.json")).expect("golden data");
    let cases: [(Files, &str, &str); 4] = [
        (
            &[
                ("config.json", &config),
                ("model-00001-of-00002.safetensors", b""),
                ("model-00002-of-00002.safetensors", b""),
            ],
            "model.safetensors.index.json is missing next to model-00001-of-00002.safetensors",
            "fetch it",
        ),
        (
            &[
                ("config.json", &config),
                (
                    "model.safetensors.index.json",
                    br#"{"weight_map": {"a": "model-00002-of-00002.safetensors"}}"#,
                ),
            ],
            "model-00002-of-00002.safetensors: this shard",
            "fetch it",
        ),
        (
            &[("config.json", &config)],
            "model.safetensors is missing: the folder has no weights",
            "fetch it",
        ),
        (
            &[("model.safetensors", b"")],
            "config.json is missing",
            "fetch it",
        ),
    ];
    folders_are_refused(&cases);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(golden.join(name), folder.path().join(name)).expect("it is copied");
    }
    let said = refusal(folder.path());
    assert!(said.contains("tokenizer.json"), "{said}");
    fs::write(folder.path().join("tokenizer.model"), "").expect("it is written");
    let said = refusal(folder.path());
    let expected = "tokenizer.model: tokenizer.json is missing, and this file is not supported";
    assert!(said.contains(expected), "{said}");
}

type Edit<'a> = &'a dyn Fn(&mut GgufWriter);

/// Unused values cannot be wrong, and older files use other spellings.
#[test]
fn unused_values_do_not_matter() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    let open = |edit: &dyn Fn(&mut GgufWriter)| {
        fs::write(&path, gguf(edit)).expect("it is written");
        OpenModel::read(&path, None)
            .expect("it opens")
            .checkpoint
            .shape
    };
    let plain = open(&|_| ());
    let tags = vec![String::new(); (1 << 20) + 1];
    let edits: [Edit; 9] = [
        &|gguf| {
            gguf.u32("tokenizer.ggml.padding_token_id", u32::MAX);
        },
        &|gguf| {
            gguf.u32("tokenizer.ggml.eot_token_id", 1 << 20);
        },
        &|gguf| {
            gguf.bytes("general.description", b"caf\xe9");
        },
        &|gguf| {
            gguf.string("general.license", &"x".repeat(2 << 20));
        },
        &|gguf| {
            gguf.strings("general.tags", &tags);
        },
        &|gguf| {
            gguf.i32s("llama.attention.value_length", &[16, 16, 16]);
        },
        &|gguf| {
            gguf.string("llama.rope.scaling.type", "linear")
                .f32("llama.rope.scaling.factor", 1.0);
        },
        &|gguf| {
            gguf.f32("llama.rope.scale_linear", 1.0);
        },
        &|gguf| {
            gguf.string("llama.rope.scaling.type", "none")
                .f32("llama.rope.scaling.factor", 8.0);
        },
    ];
    for edit in edits {
        assert_eq!(open(edit), plain);
    }
    // The older spelling, and a file that does not name its scaling.
    let halved = open(&|gguf| {
        gguf.f32("llama.rope.scale_linear", 2.0);
    });
    let named = open(&|gguf| {
        gguf.string("llama.rope.scaling.type", "linear")
            .f32("llama.rope.scaling.factor", 2.0);
    });
    assert_eq!(halved, named);
    let tables = plain.angles[0]
        .frequencies
        .iter()
        .zip(&named.angles[0].frequencies);
    assert!(tables.clone().count() > 0);
    for (plain, half) in tables {
        assert!((plain / 2.0 - half).abs() <= f32::EPSILON * plain);
    }
}

/// A machine's files, with the daemon's configuration among them.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for below in ["etc", "models", "pulled"] {
            fs::create_dir(folder.path().join(below)).expect("it is made");
        }
        let meminfo = "MemTotal: 9999999 kB\nMemAvailable: 9999999 kB\n";
        fs::create_dir(folder.path().join("proc")).expect("it is made");
        fs::write(folder.path().join("proc/meminfo"), meminfo).expect("it is written");
        Self(folder)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn configure(&self, model: &Path, more: &str) -> PathBuf {
        let file = self.path("etc/gangliond.toml");
        let text = format!("model.path = '{}'\n{more}", model.display());
        fs::write(&file, text).expect("it is written");
        file
    }
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output();
    output.expect("it runs")
}

/// The refused model and the daemon's error.
fn refused(folder: &Path) -> Vec<(&'static str, &'static str)> {
    type Edit = fn(&mut GgufWriter);
    let edits: [(&str, &str, Edit); 4] = [
        ("causal.gguf", "attention.causal = false", |gguf| {
            gguf.bool("llama.attention.causal", false);
        }),
        ("wordpiece.gguf", "the tokenizer is bert", |gguf| {
            gguf.replace_string("tokenizer.ggml.model", "bert");
        }),
        ("pre.gguf", "the pre-tokenizer is unheard-of", |gguf| {
            gguf.replace_string("tokenizer.ggml.pre", "unheard-of");
        }),
        ("template.gguf", "chat template", |gguf| {
            gguf.replace_string("tokenizer.chat_template", "{% for %}");
        }),
    ];
    let mut all = Vec::new();
    for (name, said, edit) in edits {
        fs::write(folder.join(name), gguf(edit)).expect("it is written");
        all.push((name, said));
    }
    let mut gguf = tiny_gguf::with_vocabulary();
    gguf.remove("tokenizer.ggml.merges");
    fs::write(folder.join("merges.gguf"), gguf.file()).expect("it is written");
    all.push(("merges.gguf", "tokenizer.ggml.merges is missing"));
    fs::write(folder.join("page.gguf"), "<html>").expect("it is written");
    all.push(("page.gguf", "an HTML page"));
    all
}

#[test]
fn each_program_refuses_the_same_models() {
    let machine = Machine::new();
    let (models, pulled) = (machine.path("models"), machine.path("pulled"));
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let bad = refused(&models);
    let list = run(CTL, &["models", "--json", "--dir", &text(&models)]);
    let list: Vec<Value> = serde_json::from_slice(&list.stdout).expect("JSON");
    for (name, expected) in bad {
        let model = models.join(name);
        let config = machine.configure(&model, "");
        let says = |who: &str, output: &Output| {
            let all = [&output.stdout[..], &output.stderr].concat();
            let all = String::from_utf8_lossy(&all).into_owned();
            assert!(!output.status.success(), "{who} takes {name}: {all}");
            assert!(all.contains(expected), "{who} of {name}: {all}");
        };
        let refused = OpenModel::read(&model, None).map(|_| ());
        let said = refused.expect_err("the daemon refuses it").to_string();
        assert!(said.contains(expected), "{said}");
        let daemon = env!("CARGO_BIN_EXE_gangliond");
        let (config, model) = (text(&config), text(&model));
        let checked = run(daemon, &["--check-config", "--config", &config]);
        says("--check-config", &checked);
        let used = ["use", &model, "--config", &config, "--dry-run"];
        says("use", &run(CTL, &used));
        says(
            "pull",
            &run(CTL, &["pull", &model, "--dir", &text(&pulled)]),
        );
        let below = format!(
            "/{}",
            Path::new(&model)
                .strip_prefix(machine.0.path())
                .expect("below")
                .display()
        );
        machine.configure(Path::new(&below), "");
        let root = text(machine.0.path());
        let file = "/etc/gangliond.toml";
        says(
            "doctor",
            &run(CTL, &["doctor", "--root", &root, "--config", file]),
        );
        let listed = list.iter().find(|one| one["name"] == json!(name));
        let problem = listed.expect("it is listed")["problem"].to_string();
        assert!(
            problem.replace("\\\"", "\"").contains(expected),
            "{problem}"
        );
    }
    assert_eq!(fs::read_dir(&pulled).expect("a folder").count(), 0);
}

/// An impossible configured value is refused before the daemon starts; a default adapts.
#[test]
fn a_configured_context_is_checked_and_a_default_is_not() {
    let machine = Machine::new();
    let model = machine.path("models/tiny.gguf");
    fs::write(&model, gguf(|_| ())).expect("it is written");
    let trained = OpenModel::read(&model, None)
        .expect("it opens")
        .checkpoint
        .shape
        .context;
    assert!(trained < 2048);
    for (more, expected) in [
        (String::new(), Some(0)),
        (format!("kv.context = {trained}"), Some(0)),
        (format!("kv.context = {}", trained + 1), Some(78)),
    ] {
        let config = machine.configure(&model, &more);
        let config = config.to_str().expect("UTF-8");
        let daemon = env!("CARGO_BIN_EXE_gangliond");
        let checked = run(daemon, &["--check-config", "--config", config]);
        assert_eq!(checked.status.code(), expected, "{more}: {checked:?}");
    }
}
