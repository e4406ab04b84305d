//! A model's recommended sampling: where it applies, and where it is reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ganglion::bus::proxy::{Fields, Info};
use ganglion::model::Checkpoint;
use ganglion::model::checkpoint::{Recommended, Setting};
use zbus::Variant;

use crate::support::daemon::{Client, until};
use crate::support::private_bus::PrivateBus;
use crate::support::process::Process;
use crate::support::tiny_gguf;

/// The numbers of a dictionary within a dictionary.
fn numbers(info: &Info, key: &str) -> BTreeMap<String, f64> {
    let value: &Variant<'_> = info.get(key).expect(key);
    let Variant::Dict(entries) = value else {
        panic!("{value:?}");
    };
    let number = |value: &Variant<'_>| match value {
        Variant::Variant(value) => match &**value {
            Variant::F64(number) => *number,
            Variant::U32(number) => f64::from(*number),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let name = |key: &Variant<'_>| match key {
        Variant::Str(name) => name.to_string(),
        other => panic!("{other:?}"),
    };
    entries
        .iter()
        .map(|(key, value)| (name(key), number(value)))
        .collect()
}

fn expected<const N: usize>(values: [(&str, f64); N]) -> BTreeMap<String, f64> {
    values.map(|(key, value)| (key.to_owned(), value)).into()
}

fn write(path: &Path, temperature: f32) {
    let mut gguf = tiny_gguf::with_vocabulary();
    gguf.f32("general.sampling.temp", temperature)
        .u32("general.sampling.top_k", 20)
        .f32("general.sampling.top_p", 0.95)
        .string("general.sampling.min_p", "0.05")
        .f32("general.sampling.penalty_repeat", 99.0);
    fs::write(path, gguf.file()).expect("the model is written");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_models_sampling_is_the_default_of_unset_values() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tiny.gguf");
    write(&path, 0.7);
    let config = |more: &str| {
        format!(
            "backend = 'cpu'\nkv.context = 512\nmodel.path = '{}'\n{more}",
            path.display()
        )
    };
    let bus = PrivateBus::start();
    let daemon = Process::serving(&bus, &config("")).await;
    let manager = Client::connect(&bus).await.manager;
    let sampled = async |options: Fields<'_>| {
        let mut options = options;
        options.insert("max_tokens", 3u32.into());
        let (_, info) = manager.complete("hello", options).await.expect("an answer");
        numbers(&info, "sampling")
    };
    let model = async || numbers(&manager.model().await.expect("a dictionary"), "sampling");

    // The penalty is out of range and ignored.
    let recommended = [
        ("temperature", 0.7),
        ("top_k", 20.0),
        ("top_p", 0.95),
        ("min_p", 0.05),
    ];
    assert_eq!(model().await, expected(recommended));
    let mut all = expected(recommended);
    all.insert("repetition_penalty".into(), 1.0);
    assert_eq!(sampled(Fields::new()).await, all);
    let asked = Fields::from([("temperature", 0.0.into()), ("top_k", 5u32.into())]);
    let mut mixed = all.clone();
    mixed.extend(expected([("temperature", 0.0), ("top_k", 5.0)]));
    assert_eq!(sampled(asked).await, mixed);

    // The configuration has precedence, even with the sampler's own default.
    daemon.configure(&config("sampling.temperature = 0\nsampling.top_p = 1\n"));
    manager.reload().await.expect("it is applied");
    let mut configured = all.clone();
    configured.extend(expected([("temperature", 0.0), ("top_p", 1.0)]));
    assert_eq!(sampled(Fields::new()).await, configured);

    // Another model has its own defaults.
    write(&path, 0.4);
    daemon.configure(&config(""));
    manager.reload().await.expect("it is applied");
    assert_eq!(model().await.get("temperature"), Some(&0.4));
    assert_eq!(sampled(Fields::new()).await.get("temperature"), Some(&0.4));

    daemon.configure(&config(
        "sampling.from_model = false\nsampling.min_p = 0.1\n",
    ));
    manager.reload().await.expect("it is applied");
    let own = [
        ("temperature", 0.0),
        ("top_k", 0.0),
        ("top_p", 1.0),
        ("min_p", 0.1),
        ("repetition_penalty", 1.0),
    ];
    assert_eq!(sampled(Fields::new()).await, expected(own));
}

/// A request that arrives before the model is sampled with the model's recommendation.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_for_the_model_is_sampled_as_it_recommends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("tiny.gguf");
    write(&path, 0.7);
    let bus = PrivateBus::start();
    let config = format!(
        "backend = 'cpu'\nkv.context = 512\nmodel.path = '{}'\n",
        path.display()
    );
    let _daemon = Process::on(bus.text(), &[], &config);
    let manager = Client::connect(&bus).await.manager;
    let mut answer = Info::new();
    until(async || {
        let options = Fields::from([("max_tokens", 3u32.into())]);
        // The daemon may not own its name yet.
        let done = manager.complete("hello", options).await;
        done.map(|(_, info)| answer = info).is_ok()
    })
    .await;
    let sampling = numbers(&answer, "sampling");
    assert_eq!(sampling.get("temperature"), Some(&0.7));
}

#[test]
fn a_directory_recommends_its_generation_config() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-llama");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden.join(file), folder.path().join(file)).expect("it is copied");
    }
    let open = || Checkpoint::open(folder.path());
    assert_eq!(open().expect("a model").sampling, Recommended::default());
    let file = folder.path().join("generation_config.json");
    fs::write(&file, r#"{"do_sample": true, "top_p": 0.9}"#).expect("it is written");
    let sampling = open().expect("a model").sampling;
    let number = |setting: Option<Setting>| setting.map(|one| one.number);
    assert_eq!(number(sampling.temperature), Some(1.0));
    assert_eq!(number(sampling.top_p), Some(0.9));
    fs::write(&file, "no JSON").expect("it is written");
    let error = open().expect_err("it is damaged").to_string();
    assert!(error.contains("generation_config.json"), "{error}");
}
