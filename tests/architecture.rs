//! The shape of the code: arrows point one way, unsafe code stays where it is allowed, files say what they are.

mod circles;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each module may name of the crate, besides itself. `service` and `main` put everything together.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "bus",
        &[
            "engine",
            "front",
            "journal",
            "sampler::Partial",
            "telemetry",
            "tools",
        ],
    ),
    (
        "front",
        &[
            "engine",
            "guide::Grammar",
            "guide::Limits",
            "journal",
            "sampler::MOST_SCORED",
            "sampler::Parameters",
            "sampler::Partial",
            "tools",
        ],
    ),
    (
        "engine",
        &[
            "choice",
            "cpu",
            "cuda",
            "executor",
            "fault",
            "graph",
            "guide",
            "journal",
            "kv",
            "kv_store",
            "meminfo",
            "model",
            "quant",
            "sampler",
            "session_store",
            "tape",
            "telemetry",
            "tools",
        ],
    ),
    (
        "session_store",
        &["choice", "files", "journal", "model::Message", "model::Role"],
    ),
    (
        "kv_store",
        &["files", "journal", "kv", "session_store::Name"],
    ),
    (
        "bench",
        &[
            "device", "engine", "executor", "graph", "kv", "meminfo", "model", "quant", "sampler",
            "tape",
        ],
    ),
    ("choice", &[]),
    ("files", &[]),
    ("tools", &["model::Call", "model::language"]),
    ("model", &["confined", "quant", "tape"]),
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
            "executor", "fault", "graph", "kv", "quant", "sampler", "tape",
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
    ("kv", &["choice", "quant"]),
    ("sampler", &[]),
    ("telemetry", &[]),
    ("journal", &["choice", "telemetry"]),
    (
        "config",
        &[
            "choice",
            "engine::runner",
            "graph::Mode",
            "guide::Limits",
            "journal::Level",
            "kv::Reuse",
            "sampler::Parameters",
            "sampler::Partial",
            "session_store::Durability",
            "tools::FormatError",
        ],
    ),
];

/// Libraries that belong to one layer.
const FENCED: &[(&str, &[&str])] = &[
    ("zbus", &["bus", "bin"]),
    ("sd_notify", &["service"]),
    ("tracing_journald", &["journal"]),
    ("cudarc", &["device"]),
    ("llguidance", &["guide"]),
];

const MAY_BE_UNSAFE: &[&str] = &["device/", "cuda/"];

struct Source {
    /// Below `src`.
    path: PathBuf,
    text: String,
}

impl Source {
    fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut folders = vec![root.clone()];
        let mut sources = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder of the sources") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = fs::read_to_string(&path).expect("a source");
                    let path = path.strip_prefix(&root).expect("below src").to_owned();
                    sources.push(Self { path, text });
                }
            }
        }
        assert!(sources.len() > 50, "the sources were found");
        sources
    }

    /// The top-level module that it belongs to.
    fn module(&self) -> String {
        let first = self.path.iter().next().expect("a path").to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }

    /// Its lines without comments, each with its number.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().map(|line| {
            line.split_once("//")
                .map_or(line, |(before_comment, _)| before_comment)
        });
        (1..).zip(lines)
    }
}

/// The paths that follow `crate::` in a line.
fn named(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("crate::")
        .filter(|(at, _)| !line[..*at].ends_with('$'))
        .map(|(at, name)| {
            let path = &line[at + name.len()..];
            let end = path.find(|c: char| !(c.is_alphanumeric() || "_:{".contains(c)));
            &path[..end.unwrap_or(path.len())]
        })
}

fn is_below(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn arrows_point_one_way() {
    let mut wrong = Vec::new();
    for source in Source::all() {
        let module = source.module();
        let Some((_, others)) = ARROWS.iter().find(|(name, _)| *name == module) else {
            continue;
        };
        for (number, line) in source.code() {
            for path in named(line) {
                let allowed =
                    is_below(path, &module) || others.iter().any(|one| is_below(path, one));
                if !allowed {
                    let file = source.path.display();
                    wrong.push(format!("src/{file}:{number}: {module} names {path}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_has_its_arrows() {
    for source in Source::all() {
        let module = source.module();
        let known = ["lib", "main", "bin", "service"].contains(&&*module)
            || ARROWS.iter().any(|(name, _)| *name == module);
        assert!(
            known,
            "src/{module} is not in the table: say what it may name"
        );
    }
}

#[test]
fn libraries_stay_in_their_layer() {
    for source in Source::all() {
        for (library, layers) in FENCED {
            let path = format!("{library}::");
            for (number, line) in source.code() {
                assert!(
                    !line.contains(&path) || layers.contains(&&*source.module()),
                    "src/{}:{number}: {library} belongs to {layers:?}",
                    source.path.display()
                );
            }
        }
    }
}

#[test]
fn unsafe_code_is_fenced() {
    for source in Source::all() {
        if MAY_BE_UNSAFE
            .iter()
            .any(|fence| source.path.starts_with(fence))
        {
            continue;
        }
        for (number, line) in source.code() {
            let is_unsafe = line
                .split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .any(|word| word == "unsafe");
            assert!(
                !is_unsafe,
                "src/{}:{number}: unsafe code belongs to {MAY_BE_UNSAFE:?}",
                source.path.display()
            );
        }
    }
}

#[test]
fn files_say_what_they_are() {
    for Source { path, text } in Source::all() {
        let path = path.display();
        assert!(text.starts_with("//!"), "src/{path} says nothing of itself");
    }
}

/// Files below a path, or the path itself.
fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.into()];
    };
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| files(&path)).collect()
}

/// What is between backquotes and looks like a path of the project.
fn paths(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let tops = ["config", "cross", "kernels", "src", "systemd", "tests"];
    let is_path = |words: &&str| {
        let top = words.split_once('/').map(|(top, _)| top);
        top.is_some_and(|top| tops.contains(&top)) && !words.contains(char::is_whitespace)
    };
    quoted.filter(is_path).collect()
}

/// CONTRIBUTING.md says where things go: all of it is there, and a list that is said to be whole has the files with the
/// word, and no others.
#[test]
fn every_way_in_is_as_it_is_told() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("the page");
    for path in paths(&page) {
        assert!(root.join(path).exists(), "{path} is not there");
    }
    let mut lists = 0;
    for section in page.split("\n### ").skip(1) {
        let items = section.lines().filter(|line| line.starts_with("- `"));
        let listed = items.filter_map(|item| item.split_once("`:").map(|(files, _)| files));
        let listed: Vec<_> = listed.map(|files| files.to_owned() + "`").collect();
        let listed = listed.concat();
        for claim in section.split("<!-- whole: ").skip(1) {
            let claim = claim.split(" -->").next().unwrap_or_default();
            let (words, folders) = claim.split_once(" in ").expect("words in folders");
            let folders: Vec<_> = folders.split(' ').collect();
            let below = |path: &&str| folders.iter().any(|folder| path.starts_with(folder));
            let listed: BTreeSet<_> = paths(&listed).into_iter().filter(below).collect();
            let says = |file: &PathBuf| {
                let text = fs::read(file).expect("a file");
                let text = String::from_utf8_lossy(&text).into_owned();
                let mut said = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
                said.any(|word| words.split(' ').any(|wanted| wanted == word))
            };
            let all = folders.iter().flat_map(|folder| files(&root.join(folder)));
            let found: BTreeSet<_> = all
                .filter(says)
                .map(|file| file.strip_prefix(root).expect("below").to_owned())
                .collect();
            let found: BTreeSet<_> = found.iter().filter_map(|file| file.to_str()).collect();
            assert_eq!(listed, found, "the files that say {words}");
            lists += 1;
        }
    }
    assert!(lists >= 6, "the lists were found");
}
