//! The structure of the code: which modules use which, where unsafe code is, and how files begin.

mod circles;
mod contributing;
mod source;

use source::{Names, Source};

/// The modules of the crate that each module may use. `service` and `main` may use all.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "bus",
        &[
            "board",
            "engine",
            "front",
            "journal",
            "runner::KindTime",
            "runner::KvSelection",
            "runner::MemoryUse",
            "sampler::MOST_SCORED",
            "sampler::Parameters",
            "sampler::Partial",
            "telemetry",
            "tools",
        ],
    ),
    (
        "http",
        &[
            "board",
            "engine",
            "front",
            "guide::Limits",
            "journal",
            "meminfo",
            "sampler::Parameters",
            "telemetry",
            "tools",
            "vision::Fields",
        ],
    ),
    (
        "front",
        &[
            "choice",
            "engine",
            "guess::MOST_GUESSES",
            "guess::Mode",
            "guide::Grammar",
            "guide::Limits",
            "journal",
            "sampler::MOST_SCORED",
            "sampler::Parameters",
            "sampler::Partial",
            "tools",
            "vision",
        ],
    ),
    (
        "engine",
        &[
            "board",
            "executor::ExecuteError",
            "executor::Given",
            "executor::ImageError",
            "executor::Pass",
            "graph",
            "guess",
            "guide",
            "journal",
            "kv",
            "kv_store",
            "load",
            "model",
            "runner",
            "sampler",
            "session_store",
            "tape",
            "telemetry",
            "tools",
            "vision",
        ],
    ),
    (
        "load",
        &[
            "choice", "cpu", "cuda", "executor", "graph", "kv", "meminfo", "model", "quant",
            "runner", "sampler", "tape", "vision",
        ],
    ),
    (
        "runner",
        &[
            "executor", "fault", "graph", "kv", "model", "sampler", "tape",
        ],
    ),
    (
        "session_store",
        &[
            "choice",
            "files",
            "journal",
            "model::Message",
            "model::Role",
        ],
    ),
    (
        "kv_store",
        &["files", "journal", "kv", "session_store::Name"],
    ),
    (
        "bench",
        &[
            "choice", "device", "executor", "graph", "kv", "load", "meminfo", "model", "runner",
            "sampler", "tape",
        ],
    ),
    (
        "trial",
        &["device", "fault", "graph", "kv", "runner", "sampler"],
    ),
    ("board", &[]),
    ("projection", &[]),
    ("choice", &[]),
    ("files", &[]),
    (
        "tools",
        &[
            "guide::syntax",
            "model::Call",
            "model::Decoder",
            "model::language",
        ],
    ),
    (
        "model",
        &[
            "confined",
            "kv::FIRST_IMAGE_ROW",
            "quant",
            "tape",
            "vision::Received",
        ],
    ),
    ("confined", &[]),
    (
        "check",
        &[
            "cpu", "cuda", "executor", "graph", "kv", "quant", "sampler", "tape",
        ],
    ),
    (
        "cpu",
        &[
            "choice", "executor", "fault", "graph", "kv", "quant", "sampler", "tape",
        ],
    ),
    (
        "cuda",
        &[
            "device", "executor", "fault", "graph", "kv", "quant", "sampler", "tape",
        ],
    ),
    (
        "executor",
        &["device", "fault", "graph", "quant", "sampler", "tape"],
    ),
    ("tape", &["kv", "quant"]),
    ("graph", &["choice", "device", "kv"]),
    ("device", &["fault", "nodes"]),
    ("nodes", &[]),
    ("meminfo", &[]),
    ("quant", &[]),
    ("fault", &[]),
    (
        "guide",
        &[
            "confined",
            "model::language",
            "sampler::Mask",
            "sampler::Promise",
            "sampler::Promised",
        ],
    ),
    ("vision", &["choice"]),
    ("kv", &["choice", "quant"]),
    ("sampler", &[]),
    ("guess", &["choice"]),
    ("telemetry", &[]),
    ("journal", &["choice", "telemetry"]),
    (
        "config",
        &[
            "choice",
            "load",
            "graph::Mode",
            "guess::MOST_GUESSES",
            "guess::Mode",
            "guide::Limits",
            "http::KeyError",
            "journal::Level",
            "kv::Reuse",
            "sampler::Parameters",
            "sampler::Partial",
            "session_store::Durability",
            "tools::FormatError",
        ],
    ),
];

/// The modules that may use a library.
const LIBRARIES: &[(&str, &[&str])] = &[
    ("zbus", &["bus", "bin"]),
    ("axum", &["http"]),
    ("hyper", &["http", "bin"]),
    ("listenfd", &["http"]),
    ("sd_notify", &["service"]),
    ("tracing_journald", &["journal"]),
    ("cudarc", &["device"]),
    ("llguidance", &["guide"]),
    ("image_webp", &["vision"]),
    ("png", &["vision"]),
    ("zune_jpeg", &["vision"]),
];

const MAY_BE_UNSAFE: &[&str] = &["device/", "cuda/"];

/// Whether `path` is in `module`, or is that module.
fn is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns all paths that a file imports or mentions.
fn uses(source: &Source) -> impl Iterator<Item = &Names> {
    let imports = source.imports.iter().map(|one| &one.path);
    imports.chain(source.paths.iter().map(|one| &one.path))
}

#[test]
fn modules_use_only_those_of_the_table() {
    let mut wrong = Vec::new();
    for source in Source::all() {
        let module = source.top();
        let Some((_, others)) = ARROWS.iter().find(|(name, _)| *name == module) else {
            continue;
        };
        let ours = uses(source).filter(|path| path.first().is_some_and(|first| first == "crate"));
        for path in ours.map(|path| path[1..].join("::")) {
            let mut allowed = others.iter().copied().chain([&*module]);
            if !path.is_empty() && !allowed.any(|one| is_in(&path, one)) {
                wrong.push(format!("src/{} uses {path}", source.path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_is_in_the_table() {
    for source in Source::all() {
        let module = source.top();
        let known = ["lib", "main", "bin", "service"].contains(&&*module)
            || ARROWS.iter().any(|(name, _)| *name == module);
        assert!(known, "src/{module} is not in the table");
    }
}

#[test]
fn libraries_stay_in_their_modules() {
    for source in Source::all() {
        for (library, modules) in LIBRARIES {
            let mut firsts = uses(source).filter_map(|path| path.first());
            assert!(
                modules.contains(&&*source.top()) || !firsts.any(|first| first == library),
                "src/{}: {library} belongs to {modules:?}",
                source.path.display()
            );
        }
    }
}

#[test]
fn unsafe_code_stays_in_its_modules() {
    for source in Source::all() {
        let mut fences = MAY_BE_UNSAFE.iter();
        if fences.any(|fence| source.path.starts_with(fence)) {
            continue;
        }
        for (number, line) in (1..).zip(source.text.lines()) {
            let code = line.split("//").next().unwrap_or_default();
            let mut words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
            assert!(
                !words.any(|word| word == "unsafe"),
                "src/{}:{number}: unsafe code belongs to {MAY_BE_UNSAFE:?}",
                source.path.display()
            );
        }
    }
}

#[test]
fn every_file_begins_with_its_purpose() {
    for Source { path, text, .. } in Source::all() {
        let path = path.display();
        assert!(text.starts_with("//!"), "src/{path} has no module comment");
    }
}
