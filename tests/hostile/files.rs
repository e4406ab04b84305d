//! Model files that are damaged, incomplete, of another kind, or inconsistent.

use std::path::{Path, PathBuf};
use std::process::Command;

use ganglion::load::{self, Settings};
use ganglion::model::{Checkpoint, Defect, Language, ModelError};
use serde_json::{Value, json};

use crate::support::gguf_writer::GgufWriter;
use crate::support::page_cache::forget;
use crate::support::tiny_gguf;

/// A fixed sequence of numbers below `bound` (splitmix64).
fn numbers(mut state: u64) -> impl FnMut(usize) -> usize {
    move |bound| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ mixed >> 31) % bound as u64).unwrap()
    }
}

/// The peak of this process's mapped memory, in kB.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmPeak:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Opens a file and its language, if it has one.
fn open(path: &Path) -> Result<(), ModelError> {
    let checkpoint = Checkpoint::open(path)?;
    if let Ok(source) = checkpoint.language_source() {
        let _ = Language::load(source);
    }
    Ok(())
}

/// 200 truncations, 200 flipped bytes, and wrong lengths: each gives an error or a model that answers, without a panic
/// and without memory for missing data.
#[test]
fn damaged_gguf_files_are_refused_or_answer() {
    const CHILD: &str = "GANGLION_TEST_DAMAGED_GGUF";
    const NAME: &str = "hostile::files::damaged_gguf_files_are_refused_or_answer";
    if std::env::var_os(CHILD).is_none() {
        // Its own process, because other tests would add to its peak memory.
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(CHILD, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let gguf = tiny_gguf::with_vocabulary();
    let (whole, head) = (gguf.file(), gguf.head().len());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("damaged.gguf");
    let write = |bytes: &[u8]| std::fs::write(&path, bytes).unwrap();
    write(&whole);
    open(&path).unwrap();
    let before = peak();

    let mut number = numbers(2);
    for _ in 0..200 {
        let length = number(head);
        write(&whole[..length]);
        assert!(open(&path).is_err(), "{length} of {head} bytes opened");
    }
    let mut flipped = Vec::new();
    for _ in 0..200 {
        let mut bytes = whole.clone();
        bytes[number(head)] ^= u8::try_from(1 + number(255)).unwrap();
        write(&bytes);
        if open(&path).is_ok() {
            flipped.push(bytes);
        }
    }
    // Every kind of count and length: tensors, keys, a key, a string, arrays, dimensions.
    let after = |name: &str, skipped: usize| {
        let found = whole
            .windows(name.len())
            .position(|bytes| bytes == name.as_bytes());
        found.unwrap() + name.len() + skipped
    };
    for place in [
        8,
        16,
        24,
        after("general.name", 4),
        after("tokenizer.ggml.tokens", 8),
        after("tokenizer.ggml.tokens", 16),
        after("tokenizer.ggml.token_type", 8),
        after("tokenizer.ggml.merges", 8),
        after("token_embd.weight", 4),
        after("token_embd.weight", 12),
    ] {
        for lie in [u64::MAX, u64::MAX / 13, 1 << 40, 1 << 31, 60_000] {
            let mut bytes = whole.clone();
            bytes[place..place + 8].copy_from_slice(&lie.to_le_bytes());
            write(&bytes);
            assert!(open(&path).is_err(), "{lie} at byte {place} opened");
        }
    }
    let grown = peak() - before;
    assert!(
        grown < 16 << 10,
        "{grown} kB for files of {} bytes",
        whole.len()
    );

    let settings = Settings {
        context: 16,
        threads: 1,
        ..Settings::default()
    };
    let mut answered = 0;
    for bytes in &flipped {
        write(bytes);
        let checkpoint = Checkpoint::open(&path).unwrap();
        if let Ok(mut runner) = load::runner(&checkpoint, &settings, &mut |_, _| {}) {
            answered += usize::from(runner.logits(&[1, 2, 3], |_| ()).is_ok());
        }
    }
    assert!(answered > 0 && flipped.len() < 200);
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/tiny-qwen3")
        .join(name)
}

/// Returns the error for a copy of tiny-qwen3 after a change of its config and weights.
fn refusal(config: impl FnOnce(&mut Value), weights: impl FnOnce(&mut Vec<u8>)) -> ModelError {
    let directory = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(golden("config.json")).unwrap();
    let mut value = serde_json::from_str(&text).unwrap();
    config(&mut value);
    std::fs::write(directory.path().join("config.json"), value.to_string()).unwrap();
    let mut bytes = std::fs::read(golden("model.safetensors")).unwrap();
    weights(&mut bytes);
    std::fs::write(directory.path().join("model.safetensors"), bytes).unwrap();
    Checkpoint::open(directory.path()).unwrap_err()
}

fn gguf_refusal(file: &[u8]) -> ModelError {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("model.gguf");
    std::fs::write(&path, file).unwrap();
    Checkpoint::open(&path).unwrap_err()
}

/// Changes the JSON header of a safetensors file, and the length before it.
fn edit_header(file: &mut Vec<u8>, edit: impl FnOnce(&mut Value)) {
    let length = usize::try_from(u64::from_le_bytes(*file.first_chunk().unwrap())).unwrap();
    let mut header = serde_json::from_slice(&file[8..8 + length]).unwrap();
    edit(&mut header);
    let header = header.to_string();
    file.splice(
        ..8 + length,
        [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat(),
    );
}

#[test]
fn an_inconsistent_safetensors_header_is_refused() {
    type Lie<'a> = (&'a str, &'a dyn Fn(&mut Vec<u8>));
    let unchanged = |_: &mut Value| ();
    let norm = "model.norm.weight";
    let lies: [Lie<'_>; 8] = [
        ("no bytes at all", &|file| file.clear()),
        ("longer than the file", &|file| {
            file[..8].copy_from_slice(&(1_u64 << 20).to_le_bytes());
        }),
        ("longer than memory", &|file| {
            file[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        }),
        ("not JSON", &|file| file[8] = b'x'),
        ("data cut off", &|file| file.truncate(file.len() - 4)),
        ("a shape that overflows", &|file| {
            edit_header(file, |header| header[norm]["shape"] = json!([u64::MAX, 2]));
        }),
        ("a shape unlike its bytes", &|file| {
            edit_header(file, |header| header[norm]["shape"] = json!([63]));
        }),
        ("offsets outside the file", &|file| {
            edit_header(file, |header| {
                header[norm]["data_offsets"] = json!([1_u64 << 40, (1_u64 << 40) + 256]);
            });
        }),
    ];
    for (what, lie) in lies {
        let error = refusal(unchanged, lie);
        assert!(error.path.ends_with("model.safetensors"), "{what}: {error}");
        assert!(
            matches!(
                error.defect,
                Defect::Malformed(_) | Defect::Tensor { .. } | Defect::Foreign { .. }
            ),
            "{what}: {error}"
        );
    }
    let missing = refusal(unchanged, |file| {
        edit_header(file, |header| {
            let tensors = header.as_object_mut().unwrap();
            let tensor = tensors.remove(norm).unwrap();
            tensors.insert("another".into(), tensor);
        });
    });
    assert!(matches!(missing.defect, Defect::MissingTensor(name) if name == norm));
}

#[test]
fn a_shard_outside_its_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::copy(golden("config.json"), directory.path().join("config.json")).unwrap();
    let index = directory.path().join("model.safetensors.index.json");
    let outside = golden("model.safetensors");
    for name in ["../shard.safetensors", "..", "", outside.to_str().unwrap()] {
        let map = json!({"weight_map": {"model.norm.weight": name}});
        std::fs::write(&index, map.to_string()).unwrap();
        let error = Checkpoint::open(directory.path()).unwrap_err().to_string();
        assert!(error.contains("it must be a plain file name"), "{error}");
    }
}

#[test]
fn unsupported_computations_are_refused_by_name() {
    for (key, value, said) in [
        (
            "model_type",
            json!("gpt2"),
            "\"gpt2\" is not supported; supported: llama, qwen2",
        ),
        ("hidden_act", json!("gelu"), "hidden_act = gelu"),
        (
            "use_sliding_window",
            json!(true),
            "use_sliding_window = true",
        ),
        ("num_experts", json!(8), "num_experts = 8"),
        (
            "partial_rotary_factor",
            json!(0.5),
            "partial_rotary_factor = 0.5",
        ),
        (
            "rope_parameters",
            json!({"rope_type": "longrope"}),
            "short_factor of the rope scaling is missing",
        ),
        (
            "rope_parameters",
            json!({"rope_type": "llama3"}),
            "factor of the rope scaling is missing",
        ),
        (
            "rope_parameters",
            json!({"rope_type": "yarn", "factor": 0, "attention_factor": 1}),
            "rope frequency",
        ),
        (
            "rope_parameters",
            json!({"rope_type": "yarn", "factor": 4, "attention_factor": 0}),
            "rope amplitude = 0",
        ),
        (
            "rope_parameters",
            json!({"rope_theta": 0}),
            "rope frequency",
        ),
        (
            "quantization_config",
            json!({"bits": 4}),
            "quantization_config",
        ),
        ("num_key_value_heads", json!(3), "key-value heads = 3"),
        ("hidden_size", json!(0), "hidden size = 0"),
        (
            "hidden_size",
            json!(1_u64 << 60),
            "hidden size = 1152921504606846976",
        ),
        (
            "hidden_size",
            json!("64"),
            "hidden_size = \"64\": it must be a whole number",
        ),
        ("rms_norm_eps", json!(-1.0), "norm epsilon = -1"),
        ("head_dim", json!(31), "head dimension = 31"),
        (
            "vocab_size",
            json!(513),
            "model.embed_tokens.weight: is [512, 64]",
        ),
        (
            "num_hidden_layers",
            json!(4),
            "layer_types = an array of 3: it must have one for each of 4 layers",
        ),
        (
            "tie_word_embeddings",
            json!(false),
            "lm_head.weight is missing",
        ),
    ] {
        let error = refusal(|config| config[key] = value.clone(), |_| ()).to_string();
        assert!(
            error.contains(said),
            "{key} = {value}: {error:?} does not say {said:?}"
        );
    }
}

/// No value of a config is guessed, and none that could change the model is ignored.
#[test]
fn unsupported_config_values_are_refused_by_name() {
    for (key, value, said) in [
        ("hidden_size", json!(null), "hidden_size is missing"),
        ("is_causal", json!(false), "is_causal = false"),
        (
            "architectures",
            json!(["Qwen3ForSequenceClassification"]),
            "architectures = Qwen3ForSequenceClassification",
        ),
        (
            "block_configs",
            json!([{"attention": null}]),
            "block_configs = ",
        ),
        (
            "rope_parameters",
            json!({"sliding_attention": {"rope_type": "default"}}),
            "rope_parameters.full_attention is missing",
        ),
        (
            "rope_parameters",
            json!({"full_attention": {"rope_theta": 1e6, "beta": 2}}),
            "rope_parameters.full_attention.beta = 2",
        ),
        (
            "rope_parameters",
            json!({"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"factor": 4}}),
            "rope_parameters.sliding_attention.factor = 4",
        ),
        (
            "rope_parameters",
            json!({"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_type": "linear"}}),
            "rope_parameters.sliding_attention.rope_type = linear: only default is computed",
        ),
        (
            "rope_parameters",
            json!({"full_attention": {"rope_theta": 1e6}, "chunked_attention": 1e4}),
            "rope_parameters.chunked_attention = 10000",
        ),
        (
            "attention_bias",
            json!(true),
            "self_attn.q_proj.bias is missing",
        ),
        (
            "quantization_config",
            json!({"quant_method": "awq", "bits": 4}),
            "quantized by AWQ to 4 bits, which is not supported",
        ),
        (
            "quantization_config",
            json!({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"}),
            "quantized by compressed-tensors (nvfp4-pack-quantized)",
        ),
        (
            "quantization_config",
            json!({"quant_method": "bitsandbytes", "load_in_4bit": true}),
            "quantized by bitsandbytes to 4 bits",
        ),
        (
            "quantization",
            json!({"group_size": 64, "bits": 4}),
            "quantized by MLX to 4 bits, which is not supported: take the model in F16 or BF16",
        ),
    ] {
        let error = refusal(|config| config[key] = value.clone(), |_| ()).to_string();
        assert!(
            error.contains(said),
            "{key} = {value}: {error:?} does not say {said:?}"
        );
    }
}

#[test]
fn gguf_files_of_another_kind_are_refused_by_name() {
    fn with(edit: impl Fn(&mut GgufWriter) -> &mut GgufWriter) -> String {
        let mut gguf = tiny_gguf::with_vocabulary();
        gguf_refusal(&edit(&mut gguf).file()).to_string()
    }
    let whole = tiny_gguf::with_vocabulary();
    let patched = |place: usize, bytes: &[u8]| {
        let mut file = whole.file();
        file[place..place + bytes.len()].copy_from_slice(bytes);
        gguf_refusal(&file).to_string()
    };
    let mut foreign = GgufWriter::default();
    foreign.string("general.architecture", "mamba");
    let mut short = GgufWriter::default();
    short.string("general.architecture", "llama");
    for (said, expected) in [
        (
            patched(0, b"GGML"),
            "a GGML file from before GGUF, which is not supported",
        ),
        (patched(4, &1_u32.to_le_bytes()), "GGUF version = 1"),
        (patched(4, &3_u32.to_be_bytes()), "big-endian"),
        (
            gguf_refusal(&foreign.file()).to_string(),
            "\"mamba\" is not supported; supported: llama, qwen2",
        ),
        (
            gguf_refusal(&short.file()).to_string(),
            "a GGUF file without tensors",
        ),
        (
            with(|gguf| gguf.u32("split.count", 2)),
            "the first of 2 parts under another name",
        ),
        (
            with(|gguf| gguf.bool("llama.attention.causal", false)),
            "llama.attention.causal = false",
        ),
        (
            with(|gguf| gguf.u32("llama.expert_count", 8)),
            "llama.expert_count = 8",
        ),
        (
            with(|gguf| gguf.u32("llama.attention.sliding_window_pattern", 6)),
            "llama.attention.sliding_window_pattern = 6",
        ),
        (
            with(|gguf| gguf.i32s("llama.attention.recurrent_layers", &[1, 0, 0])),
            "llama.attention.recurrent_layers = [1, 0, 0]",
        ),
        (
            with(|gguf| gguf.string("llama.rope.scaling.type", "longrope")),
            "llama.rope.scaling.type = longrope",
        ),
        (
            with(|gguf| gguf.u32("llama.block_count", 3)),
            "llama.block_count is there twice",
        ),
        (
            with(|gguf| gguf.tensor("blk.0.attn_output.bias", &[64], 0, &[0; 256])),
            "blk.0.attn_output.bias",
        ),
    ] {
        assert!(
            said.contains(expected),
            "{said:?} does not say {expected:?}"
        );
    }
}

/// The first bytes of a file that announces that many tensors and keys, followed by a megabyte of zeros.
fn claiming(tensors: u64, keys: u64) -> Vec<u8> {
    let mut file = b"GGUF\x03\0\0\0".to_vec();
    file.extend(tensors.to_le_bytes());
    file.extend(keys.to_le_bytes());
    file.resize(1 << 20, 0);
    file
}

#[test]
fn impossible_head_counts_are_refused_before_weights_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |file: &str, bytes: &[u8]| {
        let path = directory.path().join(file);
        std::fs::write(&path, bytes).unwrap();
        let path = if file == "model.safetensors" {
            directory.path()
        } else {
            &path
        };
        Checkpoint::open(path).unwrap_err().to_string()
    };
    let licence = "x".repeat(2 << 20);
    let long_key = GgufWriter::default().string(&licence, "MIT").file();
    let names = vec![String::new(); (1 << 20) + 1];
    let many_items = GgufWriter::default()
        .strings("tokenizer.ggml.tokens", &names)
        .file();
    for (bytes, reason) in [
        (
            claiming(20_000, 0),
            "the number of tensors is 20000, and 16384 are allowed",
        ),
        (
            claiming(0, 2_000),
            "the number of metadata keys is 2000, and 1024 are allowed",
        ),
        (
            long_key,
            "a metadata key is 2097152 bytes long, and 65535 are allowed",
        ),
        (
            many_items,
            "tokenizer.ggml.tokens is 1048577, and 1048576 are allowed",
        ),
    ] {
        let error = refused("claims.gguf", &bytes);
        assert!(error.contains(reason), "{error}");
    }
    let config = std::fs::read(golden("config.json")).unwrap();
    std::fs::write(directory.path().join("config.json"), config).unwrap();
    let header = format!("{{\"__metadata__\":{{\"a\":\"{}\"}}}}", "x".repeat(5 << 20));
    let file = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    let error = refused("model.safetensors", &file);
    assert!(error.contains("and 4194304 are allowed"), "{error}");
}

/// By every way to read a file, the error names the file and says that it is incomplete.
#[test]
fn a_file_that_is_truncated_during_the_load_is_named() {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    for cached in [true, false] {
        let directory = tempfile::tempdir_in(&target).unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(golden(file), directory.path().join(file)).unwrap();
        }
        let weights = directory.path().join("model.safetensors");
        let length = std::fs::metadata(&weights).unwrap().len();
        if !cached {
            forget(&weights);
        }
        let checkpoint = Checkpoint::open(directory.path()).unwrap();
        let file = std::fs::File::options().write(true).open(&weights).unwrap();
        file.set_len(length / 2 + 1).unwrap();
        let settings = Settings {
            context: 16,
            threads: 1,
            ..Settings::default()
        };
        let error = load::runner(&checkpoint, &settings, &mut |_, _| {}).unwrap_err();
        let said = error.to_string();
        let expected = format!("had {length} bytes when it was opened");
        for part in [&expected, "model.safetensors", "fetch it again"] {
            assert!(said.contains(part), "{said} does not say {part}");
        }
    }
}

/// A terminal obeys escape sequences, and a line break starts another journal entry.
#[test]
fn texts_from_files_are_shown_bounded_and_escaped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("evil.gguf");
    let open = |gguf: &GgufWriter| {
        std::fs::write(&path, gguf.file()).unwrap();
        Checkpoint::open(&path)
    };
    let evil = "\u{1b}[31m\u{202e}\n".repeat(20);
    let name = open(&tiny_gguf::speaking(&evil.repeat(1000), 0))
        .unwrap()
        .name;
    let mut shown = vec![name];

    let mut gguf = GgufWriter::default();
    let error = open(gguf.string("general.architecture", &evil)).unwrap_err();
    shown.push(error.to_string());
    let mut gguf = GgufWriter::default();
    gguf.tensor(&evil, &[4], 0, &[0; 16])
        .tensor(&evil, &[4], 0, &[0; 16]);
    shown.push(open(&gguf).unwrap_err().to_string());
    let mut gguf = GgufWriter::default();
    let error = open(gguf.string(&evil, "one").string(&evil, "two")).unwrap_err();
    shown.push(error.to_string());
    let mut gguf = tiny_gguf::with_vocabulary();
    gguf.string("general.alignment", &evil);
    shown.push(open(&gguf).unwrap_err().to_string());

    let raises = format!("{{{{ raise_exception('{}') }}}}", evil.repeat(1000));
    let checkpoint = open(&tiny_gguf::with_template(&raises)).unwrap();
    let language = Language::load(checkpoint.language_source().unwrap()).unwrap();
    shown.push(language.prompt(&[], None).unwrap_err().to_string());

    for text in shown {
        assert!(text.contains("\\u{1b}[31m\\u{202e}\\n"), "{text:?}");
        assert!(
            !text.contains(char::is_control) && text.len() < 8000,
            "{text:?}"
        );
    }
}
