//! The configuration file: its documentation, its valid values, and its errors.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ganglion::config::Config;
use ganglion::graph::Mode;
use ganglion::load::{KvChoice, KvChoices, TowerFile};
use ganglion::sampler::{Parameters, Partial};

const SHIPPED: &str = include_str!("../config/gangliond.toml");

fn parse(text: &str) -> Result<Config, String> {
    Config::parse(text, Path::new("/etc/ganglion/gangliond.toml"))
        .map_err(|error| error.to_string())
}

/// The shipped file with every key set.
fn uncommented() -> String {
    SHIPPED
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase()) => key,
            _ => line,
        })
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn the_shipped_file_is_the_default() {
    assert_eq!(parse(SHIPPED), Ok(Config::default()));
}

#[test]
fn every_key_is_documented_with_its_default() {
    let mut config = parse(&uncommented()).expect("the shipped file with every key set");
    assert!(config.model.path.take().is_some() && config.model.thinking.take().is_some());
    assert!(config.model.chat_template.take().is_some() && config.draft.model.take().is_some());
    let tower = std::mem::take(&mut config.model.vision);
    assert!(matches!(tower, TowerFile::Named(_)));
    assert!(config.sampling.seed.take().is_some() && config.kv.slots.take().is_some());
    assert!(config.kv.disk_writes_mib_per_day.take().is_some());
    assert!(config.kv.host_mib.take().is_some());
    assert!(config.kv.key.take().is_some() && config.kv.value.take().is_some());
    assert!(config.limits.realtime_group.take().is_some());
    assert!(config.http.key_file.take().is_some());
    assert!(config.heat.rows.take().is_some());
    assert!(std::mem::take(&mut config.kv.context_is_set));
    // A key without a value in the file and the model has the sampler's documented default.
    let sampling = std::mem::take(&mut config.sampling);
    let [set, unset] = [sampling.set(), Partial::default()];
    assert_eq!(
        set.over(&Parameters::default()),
        unset.over(&Parameters::default())
    );
    assert!(set.temperature.is_some() && sampling.from_model);
    assert_eq!(sampling.max_tokens, config.sampling.max_tokens);
    assert_eq!(config, Config::default());

    let documented: toml::Table = uncommented().parse().expect("TOML");
    let documented = serde_json::to_value(documented).expect("a table");
    let known = serde_json::to_value(Config::default()).expect("a configuration");
    assert_eq!(keys(&documented), keys(&known));
}

/// Returns every key with its sections.
fn keys(value: &serde_json::Value) -> BTreeSet<String> {
    let object = value.as_object().expect("an object");
    object
        .iter()
        .flat_map(|(name, value)| match value {
            // A duration is a value.
            serde_json::Value::Object(section) if !section.contains_key("nanos") => keys(value)
                .iter()
                .map(|key| format!("{name}.{key}"))
                .collect(),
            _ => vec![name.clone()],
        })
        .collect()
}

/// Returns the value of every key.
fn leaves(value: &serde_json::Value) -> BTreeMap<String, serde_json::Value> {
    let at = |key: &String| key.split('.').fold(value, |value, part| &value[part]);
    let keys = keys(value).into_iter();
    keys.map(|key| (key.clone(), at(&key).clone())).collect()
}

/// Returns a value for `key` other than its default; `allowed` is the list in the error for an invalid one.
fn another(default: &serde_json::Value, allowed: &str) -> serde_json::Value {
    use serde_json::{Value, json};
    match default {
        Value::Bool(default) => json!(!default),
        Value::Number(number) => match number.as_u64() {
            Some(0) => json!(1),
            // Some keys may not be 0.
            Some(1) => json!(2),
            Some(number) => json!(number - 1),
            None => json!(0.5),
        },
        Value::Array(_) if allowed.contains("NAME=USER") => json!(["another=8"]),
        Value::Array(_) => json!([8]),
        _ if allowed.contains("path") => json!("/another"),
        _ if allowed.contains("name") => json!("another"),
        _ => {
            let words = allowed.split('"').skip(1).step_by(2);
            let mut others = words.filter(|word| default != word);
            json!(others.next().expect("more than one word"))
        }
    }
}

/// The allowed values of a key and the effect of a reload, as the last line of its comment has them.
fn values_of(key: &str) -> (String, String) {
    let (mut section, mut last) = ("", "");
    for line in SHIPPED.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        } else if let Some((name, _)) = line
            .trim_start_matches('#')
            .split_once(" = ")
            .filter(|_| !line.starts_with("# "))
        {
            let dot = if section.is_empty() { "" } else { "." };
            if format!("{section}{dot}{name}") == key {
                let values = last
                    .strip_prefix("# Values: ")
                    .and_then(|values| values.strip_suffix('.'));
                let parts = values.and_then(|values| {
                    values
                        .split_once(". Reload: ")
                        .or(values.split_once(" Reload: "))
                });
                let (values, reload) = parts.unwrap_or_else(|| panic!("{key}: {last}"));
                return (values.to_owned(), reload.to_owned());
            }
        }
        last = line;
    }
    panic!("{key} is not documented");
}

#[test]
fn every_key_is_named_in_its_errors_and_sets_itself_alone() {
    let documented: toml::Table = uncommented().parse().expect("TOML");
    let documented = serde_json::to_value(documented).expect("a table");
    let before = leaves(&serde_json::to_value(Config::default()).expect("a configuration"));
    for (key, default) in leaves(&documented) {
        let error = parse(&format!("{key} = [true]")).expect_err("no key takes that");
        let start = format!(": {key} = [true]: it must be ");
        let allowed = error.split_once(&start).map(|(_, allowed)| allowed);
        let allowed = allowed.unwrap_or_else(|| panic!("{key}: {error}"));
        let (values, reload) = values_of(&key);
        assert!(values.starts_with(allowed), "{key}: {values}; {allowed}");
        let effects = [
            "at once",
            "loads the model again",
            "next model",
            "needs a restart",
        ];
        assert!(effects.contains(&reload.as_str()), "{key}: {reload}");

        let value = another(&default, allowed);
        let config = parse(&format!("{key} = {value}"));
        let config = config.unwrap_or_else(|error| panic!("{key}: {error}"));
        let mut after = leaves(&serde_json::to_value(&config).expect("a configuration"));
        let changed = after.insert(key.clone(), before[&key].clone());
        assert_eq!(after, before, "{key} = {value}: others have changed");
        let changed = changed.expect("the key");
        assert_ne!(changed, before[&key], "{key} = {value}");
        // A duration has its own form.
        assert!(changed.is_object() || changed == value, "{key}: {changed}");
    }
}

/// The bounds in the errors are those of the numbers.
#[test]
fn every_key_takes_its_bounds_as_they_are_written() {
    let documented: toml::Table = uncommented().parse().expect("TOML");
    let documented = serde_json::to_value(documented).expect("a table");
    let mut bounds = 0;
    for key in keys(&documented) {
        let error = parse(&format!("{key} = 'none'")).map(drop);
        let range = error
            .err()
            .and_then(|error| Some(error.split_once(" from ")?.1.to_owned()));
        let Some((least, most)) = range.as_deref().and_then(|range| range.split_once(" to "))
        else {
            continue;
        };
        let is_list = key == "graph.capture_sizes";
        for (bound, step) in [(least, -1.0), (most, 1.0)] {
            bounds += 1;
            let set = |value: &str| {
                let value = if is_list {
                    format!("[{value}]")
                } else {
                    value.to_owned()
                };
                parse(&format!("{key} = {value}"))
            };
            assert!(set(bound).is_ok(), "{key} = {bound}: {:?}", set(bound));
            let number: f64 = bound.parse().expect("a number");
            // TOML has no larger integer.
            if number < 1e18 {
                let wide = takes_fractions(&key);
                let beyond = number + if wide { step / 1e3 } else { step };
                assert!(set(&beyond.to_string()).is_err(), "{key} = {beyond}");
            }
        }
    }
    assert!(bounds > 60, "{bounds}");
}

/// Whether a key takes fractions.
fn takes_fractions(key: &str) -> bool {
    let error = parse(&format!("{key} = 'none'")).expect_err("no number");
    error.contains("must be a number from")
}

#[test]
fn values_are_converted() {
    let config = parse(
        "[model]\npath = 'models/a.gguf'\n[kv]\ntype = 'bf16'\ncontext = 0\n\
         [stream]\nstall_seconds = 0.25\n[sampling]\ntemperature = 1\nrepetition_penalty = 0.1\n\
         [limits]\nmax_tokens = 100\nsessions = 3\nrequests = 10\n[graph]\nmode = 'piecewise'\ncapture_sizes = [8, 4]\n",
    )
    .expect("all of it is allowed");
    assert_eq!(
        config.model.path,
        Some(PathBuf::from("/etc/ganglion/models/a.gguf")),
        "relative paths start from the file's directory"
    );
    assert_eq!((config.kv.element, config.kv.context), (KvChoice::BF16, 0));
    let graph = (config.graph.mode, config.graph.capture_sizes);
    assert_eq!(graph, (Mode::Piecewise, vec![8, 4]));
    assert_eq!(config.stream.stall, Duration::from_millis(250));
    assert_eq!(config.sampling.temperature, Some(1.0));
    assert_eq!(
        config.sampling.max_tokens, 100,
        "a default never exceeds a limit"
    );
    let limits = config.limits;
    assert_eq!(
        (limits.sessions_per_user, limits.requests_per_user),
        (3, 10)
    );
}

#[test]
fn errors_name_the_place_the_key_the_value_and_the_allowed_values() {
    let cases = [
        (
            "[kv]\ncontxt = 1\n",
            "2:1: unknown key `contxt`, expected one of `type`, `type_k`, `type_v`, `context`, `memory_mib`, `reuse`, `slots`, `host_mib`, `disk_mib`, `disk_writes_mib_per_day`, `spill_after_seconds`, `stop_seconds`; the line is: contxt = 1",
        ),
        (
            "[kvv]\n",
            "1:2: unknown key `kvv`, expected one of `backend`, `model`, `draft`, `kv`, `graph`, `memory`, `device`, \
             `cpu`, `engine`, `queue`, `hold`, `heat`, `idle`, `reload`, `limits`, `vision`, `sessions`, `sampling`, `stream`, `http`, `stop`, `watchdog`, `log`; the line is: [kvv]",
        ),
        (
            "\nbackend = \"gpu\"\n",
            "2:11: backend = \"gpu\": it must be one of \"auto\", \"cuda\", \"cpu\"",
        ),
        (
            "[kv]\ncontext = -1\n",
            "2:11: kv.context = -1: it must be a whole number from 0 to 1048576",
        ),
        (
            "[kv]\nslots = 65\n",
            "2:9: kv.slots = 65: it must be a whole number from 1 to 64",
        ),
        (
            "http.users = ['robot=1000', 'robot=1001']",
            "1:14: http.users = [\"robot=1000\", \"robot=1001\"]: it must be a list of \"NAME=USER\": the name of a socket, and a user id",
        ),
        (
            "[graph]\ncapture_sizes = 16\n",
            "2:17: graph.capture_sizes = 16: it must be a list of whole numbers from 1 to 8192",
        ),
        (
            "graph = { mode = 'full', capture_sizes = [16, 0] }",
            "1:42: graph.capture_sizes = [16, 0]: it must be a list of whole numbers from 1 to 8192",
        ),
        (
            "[graph.debug]\nverify = true\n",
            "2:1: unknown key `verify`, expected `verify_addresses` or `refuse_launches`; the line is: verify = true",
        ),
        (
            "[memory]\nreserve_mib = 1048577\n",
            "2:15: memory.reserve_mib = 1048577: it must be a whole number from 0 to 1048576",
        ),
        (
            "device.activations = 'f32'",
            "1:22: device.activations = \"f32\": it must be one of \"f16\", \"bf16\"",
        ),
        (
            "queue = { capacity = 2.5 }\n",
            "1:22: queue.capacity = 2.5: it must be a whole number from 1 to 65536",
        ),
        (
            "sampling.top_p = nan",
            "1:18: sampling.top_p = nan: it must be a number from 0 to 1",
        ),
        (
            "[limits]\nmax_tokens = 10\n[sampling]\nmax_tokens = 11\n",
            "4:14: sampling.max_tokens = 11: it must be a whole number from 1 to 10",
        ),
        (
            "[limits]\nsessions = 3\nsessions_per_user = 4\n",
            "3:21: limits.sessions_per_user = 4: it must be a whole number from 1 to 3",
        ),
        (
            "model.thinking = 'yes'",
            "1:18: model.thinking = \"yes\": it must be true or false",
        ),
        (
            "model.path = ''",
            "1:14: model.path = \"\": it must be the path of a file or directory",
        ),
        (
            "kv = 3",
            "1:6: invalid type: integer `3`, expected the section [kv]; the line is: kv = 3",
        ),
    ];
    for (text, expected) in cases {
        let expected = format!("/etc/ganglion/gangliond.toml:{expected}");
        assert_eq!(parse(text), Err(expected), "{text}");
    }
    let syntax = parse("[kv\ntype = 'f16'\n").expect_err("an unclosed bracket");
    assert!(
        syntax.starts_with("/etc/ganglion/gangliond.toml:1:"),
        "{syntax}"
    );
    assert!(syntax.ends_with("; the line is: [kv"), "{syntax}");
}

/// Returns the configuration of a folder with these files, or the error without the folder's name.
fn read(files: &[(&str, &str)]) -> Result<Config, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("gangliond.toml.d")).expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file");
    }
    let root = format!("{}/", folder.path().display());
    Config::read(&folder.path().join("gangliond.toml"))
        .map(|mut config| {
            let path = config.model.path.take();
            config.model.path =
                path.and_then(|path| Some(path.strip_prefix(&root).ok()?.to_owned()));
            config
        })
        .map_err(|error| error.to_string().replace(&root, ""))
}

#[test]
fn drop_ins_win_key_by_key_in_the_order_of_their_names() {
    let main = (
        "gangliond.toml",
        "[kv]\ncontext = 100\nslots = 3\n[limits]\nmax_tokens = 50\n",
    );
    let config = read(&[
        main,
        (
            "gangliond.toml.d/50-board.toml",
            "[kv]\ncontext = 300\n[graph.debug]\nverify_addresses = true\n",
        ),
        (
            "gangliond.toml.d/10-model.toml",
            "kv.context = 200\nmodel.path = 'a.gguf'\n",
        ),
        ("gangliond.toml.d/README", "not read"),
        ("gangliond.toml.d/.#50-board.toml", "an editor's"),
    ])
    .expect("all of it is allowed");
    assert_eq!((config.kv.context, config.kv.slots), (300, Some(3)));
    assert!(config.graph.debug.verify_addresses);
    assert_eq!(
        config.model.path,
        Some(PathBuf::from("a.gguf")),
        "relative paths start from the main file's directory"
    );

    let alone = read(&[("gangliond.toml.d/a.toml", "kv.slots = 5\n")]);
    assert_eq!(alone.map(|config| config.kv.slots), Ok(Some(5)));
    let nothing = read(&[]).expect_err("there is nothing to read");
    assert!(nothing.starts_with("gangliond.toml: "), "{nothing}");

    // An error names the file with the mistake. Values are also checked against limits of other files.
    for (drop_in, expected) in [
        (
            "[kv]\nslots = 'two'\n",
            "50.toml:2:9: kv.slots = \"two\": it must be a whole number from 1 to 64",
        ),
        (
            "sampling.max_tokens = 60",
            "50.toml:1:23: sampling.max_tokens = 60: it must be a whole number from 1 to 50",
        ),
        (
            "\nkvv = 1",
            "50.toml:2:1: unknown key `kvv`, expected one of `backend`, `model`, `draft`, `kv`, `graph`, `memory`, `device`, \
             `cpu`, `engine`, `queue`, `hold`, `heat`, `idle`, `reload`, `limits`, `vision`, `sessions`, `sampling`, `stream`, `http`, `stop`, `watchdog`, `log`; the line is: kvv = 1",
        ),
    ] {
        let files = [
            main,
            ("gangliond.toml.d/40.toml", "kv.slots = 4"),
            ("gangliond.toml.d/50.toml", drop_in),
            ("gangliond.toml.d/60.toml", "kv.context = 4"),
        ];
        let expected = format!("gangliond.toml.d/{expected}");
        assert_eq!(read(&files), Err(expected), "{drop_in}");
    }
    let main = read(&[
        ("gangliond.toml", "backend = 1"),
        ("gangliond.toml.d/50.toml", "kv.slots = 4"),
    ]);
    let main = main.expect_err("a number is not a backend");
    assert!(main.starts_with("gangliond.toml:1:11: "), "{main}");
}

#[test]
fn the_types_of_k_and_v_override_the_type_of_both() {
    let types = |text: &str| parse(&format!("[kv]\n{text}")).map(|config| config.kv.choices());
    let of = |k, v| Ok(KvChoices { k, v });
    let (f16, q8_0) = (KvChoice::F16, KvChoice::Q8_0);
    assert_eq!(types("context = 64"), of(f16, f16));
    assert_eq!(types("type = 'q8_0'"), of(q8_0, q8_0));
    assert_eq!(types("type_v = 'q8_0'"), of(f16, q8_0));
    let auto = types("type = 'auto'\ntype_k = 'f16'");
    assert_eq!(auto, of(f16, KvChoice::Auto));
    for unsupported in [
        "type_k = 'bf16'",
        "type = 'q8_0'\ntype_v = 'f32'",
        "type = 'auto'\ntype_k = 'f32'",
    ] {
        let error = types(unsupported).expect_err("these do not go together");
        assert!(error.contains("not supported together"), "{error}");
    }
}

/// A mode that needs a draft model names the key that is missing.
#[test]
fn guesses_of_a_draft_model_need_one() {
    let error = parse("[engine]\nguess = 'draft'\n").expect_err("there is none");
    assert!(error.contains("toml:2:"), "{error}");
    assert!(error.contains("draft.model"), "{error}");
    let config = parse("[engine]\nguess = 'draft'\n[draft]\nmodel = 'small.gguf'\n");
    let path = config.expect("there is one").draft.model;
    assert_eq!(path.as_deref(), Some(Path::new("/etc/ganglion/small.gguf")));
}
