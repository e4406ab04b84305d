//! `bench`: its output, and the keys that scripts read.

use serde_json::Value;

use super::{golden, run, text};

/// A CPU has no second clock, and mode none records nothing.
#[tokio::test]
async fn bench_has_no_column_without_a_figure() {
    let model = golden("tiny-llama");
    let bench = ["bench", "--backend", "cpu", "--model", text(&model)];
    let sizes = ["--prompt", "4", "--generate", "2", "--reps", "1"];
    let bench = run(&[&bench[..], &sizes, &["--mode", "none"]].concat()).await;
    let heading = bench.stdout.lines().find(|line| line.starts_with("mode "));
    let columns: Vec<_> = heading.expect("a table").split("  ").collect();
    for (column, is_there) in [("p50 ms", true), ("gap us", false), ("record us", false)] {
        let found = columns.iter().any(|heading| heading.trim() == column);
        assert_eq!(found, is_there, "{column}: {bench:?}");
    }
    assert!(!bench.stdout.contains(" - "), "{bench:?}");
}

/// Scripts read these keys, `tests/gpu/run.sh` among them.
#[tokio::test]
async fn bench_keeps_its_keys_and_reports_the_load() {
    let model = golden("tiny-llama");
    let bench = [
        "bench",
        "--backend",
        "cpu",
        "--json",
        "--model",
        text(&model),
    ];
    let sizes = ["--prompt", "8", "--generate", "2", "--reps", "1"];
    let bench = run(&[&bench[..], &sizes].concat()).await;
    let report: Value = serde_json::from_str(&bench.stdout).expect("it prints JSON");
    let best = ["prefill_tokens_per_second", "decode_tokens_per_second"];
    let loading = ["load_seconds", "load_gigabytes_per_second"];
    let cached = ["cached_load_seconds", "cached_gigabytes_per_second"];
    for (of, keys) in [
        (&report["best"], best),
        (&report, loading),
        (&report, cached),
    ] {
        for key in keys {
            assert!(of[key].as_f64() > Some(0.0), "{key}: {report}");
        }
    }
    let rows = report["modes"].as_array().expect("one mode, the default");
    assert_eq!((rows.len(), &rows[0]["mode"]), (1, &report["mode"]));
    assert!(report["load_peak_ratio"].is_number(), "{report}");
    assert!(report["step_nodes"].is_number(), "{report}");
    // A file system without O_DIRECT has neither.
    let disk = ["disk_gigabytes_per_second", "percent_of_disk"];
    let measured = disk.map(|key| report[key].is_number());
    assert_eq!(measured[0], measured[1], "{report}");
    for of_a_gpu in ["copy_gigabytes_per_second", "percent_of_copy"] {
        assert_eq!(report.get(of_a_gpu), Some(&Value::Null), "{of_a_gpu}");
    }
}

#[tokio::test]
async fn bench_compares_the_modes_of_the_graph() {
    let model = golden("tiny-llama");
    let bench = ["bench", "--backend", "cpu", "--json", "--model"];
    let sizes = ["--prompt", "8", "--generate", "4", "--reps", "2"];
    let names = ["piecewise", "none", "full", "full_decode_only"];
    let in_modes = ["--mode", &names.join(",")];
    let bench = run(&[&bench[..], &[text(&model)], &sizes, &in_modes].concat()).await;
    let report: Value = serde_json::from_str(&bench.stdout).expect("it prints JSON");
    let rows = report["modes"].as_array().expect("an array");
    let of = |key: &str| rows.iter().map(|row| row[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("mode"), names);
    assert_eq!(report["mode"], names[0]);
    for key in [
        "tokens_per_second",
        "step_milliseconds_p50",
        "step_milliseconds_p99",
        "cpu_microseconds_per_token",
        "cpu_percent",
        "first_token_milliseconds",
    ] {
        assert!(
            of(key).iter().all(|value| value.as_f64() > Some(0.0)),
            "{key}: {report}"
        );
    }
    let kernels = of("kernels_per_step");
    assert!(kernels[0].as_u64() > Some(0) && kernels.iter().all(|of| *of == kernels[0]));
    let recorded = of("recording_microseconds");
    assert_eq!(
        recorded.iter().map(Value::is_number).collect::<Vec<_>>(),
        [true, false, true, true]
    );
    for row in rows {
        // A CPU has no clock of its own.
        for of_a_gpu in [
            "gpu_microseconds",
            "gap_microseconds",
            "gap_percent",
            "gap_microseconds_per_node",
        ] {
            assert_eq!(row.get(of_a_gpu), Some(&Value::Null), "{of_a_gpu}: {row}");
        }
        assert!(row["host_microseconds_per_token"].is_number(), "{row}");
    }
    let unknown = run(&["bench", "--model", text(&model), "--mode", "eager"]).await;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("full_decode_only"), "{unknown:?}");
}

/// One load serves all contexts. The first is at the place where scripts look for a single one.
#[tokio::test]
async fn bench_measures_contexts_of_several_lengths_in_one_run() {
    let model = golden("tiny-llama");
    let bench = ["bench", "--backend", "cpu", "--model", text(&model)];
    let sizes = [
        "--prompt",
        "9,4",
        "--generate",
        "3",
        "--reps",
        "1",
        "--rows",
        "1,2",
    ];
    let json = run(&[&bench[..], &sizes, &["--json"]].concat()).await;
    let report: Value = serde_json::from_str(&json.stdout).expect("it prints JSON");
    let contexts = report["contexts"].as_array().expect("an array");
    let lengths: Vec<_> = contexts.iter().map(|context| &context["prompt"]).collect();
    assert_eq!(lengths, [9, 4]);
    for key in contexts[0].as_object().expect("an object").keys() {
        assert_eq!(report[key], contexts[0][key], "{key}");
    }
    for context in contexts {
        let rows = context["rows"].as_array().expect("an array").iter();
        let numbers: Vec<_> = rows.map(|row| &row["rows"]).collect();
        assert_eq!(numbers, [1, 2], "{context}");
        let operations = context["operations"].as_array().expect("an array");
        let names: Vec<_> = operations
            .iter()
            .filter_map(|kind| kind["name"].as_str())
            .collect();
        assert!(
            names.contains(&"attend") && names.contains(&"qkv"),
            "{names:?}"
        );
        for kind in operations {
            assert!(kind["floor_microseconds"].is_number(), "{kind}");
        }
        let shares: f64 = operations
            .iter()
            .filter_map(|kind| kind["percent"].as_f64())
            .sum();
        assert!((shares - 100.0).abs() < 1e-6, "{shares}");
    }
    let table = run(&[&bench[..], &sizes].concat()).await.stdout;
    for prompt in ["prompt of 9 tokens", "prompt of 4 tokens"] {
        assert!(table.contains(prompt), "{table}");
    }
}

/// Both bars of each kind of operation, and a point for each length.
#[tokio::test]
async fn bench_plots_its_figures() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (model, file) = (golden("tiny-llama"), folder.path().join("bench.svg"));
    let bench = [
        "bench",
        "--backend",
        "cpu",
        "--model",
        text(&model),
        "--prompt",
        "4,9,30",
    ];
    let sizes = ["--generate", "3", "--reps", "1", "--plot", text(&file)];
    let bench = run(&[&bench[..], &sizes].concat()).await;
    assert_eq!(bench.code, Some(0), "{bench:?}");
    let svg = std::fs::read_to_string(&file).expect("it is written");
    let svg = roxmltree::Document::parse(&svg).expect("it is XML");
    let words: String = svg.descendants().filter_map(|node| node.text()).collect();
    for word in ["attend", "qkv", "after 30 tokens", "tokens/s of decoding"] {
        assert!(words.contains(word), "{word}: {words}");
    }
    let circles = svg.descendants().filter(|node| node.has_tag_name("circle"));
    assert_eq!(circles.count(), 2 * 3);
    let nowhere = folder.path().join("no/folder.svg");
    let sizes = [
        "--prompt",
        "4",
        "--generate",
        "1",
        "--reps",
        "1",
        "--plot",
        text(&nowhere),
    ];
    let model = ["bench", "--backend", "cpu", "--model", text(&model)];
    let refused = run(&[&model[..], &sizes].concat()).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("no/folder.svg"), "{refused:?}");
}

/// Only a GPU has multiprocessors, so a part of a CPU is refused.
#[tokio::test]
async fn bench_refuses_a_part_of_a_cpu() {
    let model = golden("tiny-llama");
    let bench = ["bench", "--backend", "cpu", "--model", text(&model)];
    let on_a_part = ["--prompt", "4", "--sms", "16"];
    let bench = run(&[&bench[..], &on_a_part].concat()).await;
    assert_eq!(bench.code, Some(2), "{bench:?}");
    assert!(bench.stderr.contains("--sms"), "{bench:?}");
}
