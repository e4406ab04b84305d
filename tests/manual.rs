//! The manual: its pages are formatted without a warning, are complete, and name only commands and keys that exist.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ganglion::bus::{ERRORS, METHOD_ERRORS, OPTIONS, OptionKey};
use ganglion::config::Config;
use ganglion::http::{METRICS, Metric, TABLES};

use crate::support::needs;
use crate::support::restartable::Restartable;

/// `make deps` installs it.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/venv/bin/python");

const PAGES: [&str; 8] = [
    "ganglion.7",
    "ganglion-openai.7",
    "ganglion-migration.7",
    "ganglion-troubleshooting.7",
    "gangliond.8",
    "ganglionctl.1",
    "gangliond.toml.5",
    "org.ganglion.Llm1.5",
];

fn page(name: &str) -> String {
    let made = Command::new(env!("CARGO_BIN_EXE_ganglionctl"))
        .args(["man", name])
        .output();
    let made = made.expect("ganglionctl runs");
    assert!(made.status.success(), "{name}: {made:?}");
    String::from_utf8(made.stdout).expect("it writes text")
}

/// The page as a reader sees it, and the warnings of the formatter.
fn formatted(source: &str) -> (String, String) {
    let mut groff = Command::new("groff")
        .args(["-man", "-Tutf8", "-ww", "-P-cbou", "-rLL=900n"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("groff runs");
    let mut input = groff.stdin.take().expect("it is piped");
    input.write_all(source.as_bytes()).expect("it reads");
    drop(input);
    let output = groff.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("it writes text");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn pages_are_formatted_without_a_warning() {
    if !needs::programs(&["groff"]) {
        return;
    }
    for name in PAGES {
        let (text, warnings) = formatted(&page(name));
        assert_eq!(warnings, "", "{name}");
        for section in ["NAME", "DESCRIPTION", "SEE ALSO"] {
            assert!(
                text.lines().any(|line| line == section),
                "{name}: {section}"
            );
        }
        assert!(
            !page(name).contains("\n.\\\" @"),
            "{name}: a part has no source"
        );
    }
}

/// A member of an interface, as its XML describes it.
struct Member {
    kind: &'static str,
    /// `INTERFACE.NAME`.
    name: String,
    comment: String,
    arguments: BTreeSet<String>,
}

/// Reads the members of all interfaces.
fn members() -> Vec<Member> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/interfaces");
    let mut members = Vec::new();
    for entry in fs::read_dir(folder).expect("interfaces") {
        let xml = fs::read_to_string(entry.expect("an entry").path()).expect("text");
        let (_, interface) = xml.split_once("org.ganglion.Llm1.").expect("an interface");
        let (interface, _) = interface.split_once('"').expect("its name");
        for kind in ["method", "signal", "property"] {
            let parts: Vec<_> = xml.split(&format!("    <{kind} name=\"")).collect();
            for (before, after) in parts.iter().zip(&parts[1..]) {
                let (name, rest) = after.split_once('"').expect("a name");
                let comment = before
                    .rsplit("<!--\n")
                    .next()
                    .unwrap_or_default()
                    .trim_end();
                let comment = comment
                    .strip_suffix("-->")
                    .unwrap_or_else(|| panic!("{name}: a comment"));
                let inside = rest
                    .lines()
                    .skip(1)
                    .take_while(|line| line.starts_with("      <"));
                let arguments =
                    inside.filter_map(|line| line.trim_start().strip_prefix("<arg name=\""));
                let arguments =
                    arguments.filter_map(|line| Some(line.split_once('"')?.0.to_owned()));
                members.push(Member {
                    kind,
                    name: format!("{interface}.{name}"),
                    comment: comment.to_owned(),
                    arguments: arguments.collect(),
                });
            }
        }
    }
    members
}

impl Member {
    /// Returns the names in a list of the comment.
    fn listed(&self, heading: &str) -> BTreeSet<String> {
        let heading = format!("{heading}:\n");
        let paragraphs = self.comment.split("\n\n");
        let lists = paragraphs.filter_map(|one| one.trim_start().strip_prefix(&heading));
        let lines = lists.flat_map(|list| list.lines());
        let entries =
            lines.filter_map(|line| line.trim_start().strip_prefix('@')?.split_once(": "));
        entries
            .flat_map(|(names, _)| names.split(", ").map(str::to_owned))
            .collect()
    }
}

/// The XML describes each argument and each error, and the page has an example of each method.
#[test]
fn every_member_of_the_interfaces_is_described() {
    let source = page("org.ganglion.Llm1.5");
    let members = members();
    for member in &members {
        let described = &member.listed("Arguments") | &member.listed("Result");
        assert_eq!(described, member.arguments, "{}", member.name);
        let Member { kind, name, .. } = member;
        let (interface, name) = name.split_once('.').expect("both");
        let sections = source
            .split(&format!("INTERFACE org.ganglion.Llm1.{interface}\""))
            .nth(1);
        let mut sections = sections.expect("a section").split("\n.SS \"");
        let title = match *kind {
            "method" => format!("{name}("),
            _ => format!("{kind} {name}"),
        };
        let section = sections.find(|part| part.starts_with(&title)).expect(name);
        assert!(
            *kind != "method" || section.contains("\n.EX\n"),
            "{name}: an example"
        );
    }
    let methods = members.iter().filter(|member| member.kind == "method");
    assert_eq!(METHOD_ERRORS.len(), methods.count());
    for (method, errors) in METHOD_ERRORS {
        let member = members
            .iter()
            .find(|member| member.name == *method)
            .expect(method);
        assert_eq!(
            member.listed("Errors"),
            errors.iter().map(|&error| error.to_owned()).collect(),
            "{method}"
        );
        let says_none = member.comment.contains("Errors: none of its own.");
        assert_eq!(says_none, errors.is_empty(), "{method}");
        for error in *errors {
            assert!(ERRORS.iter().any(|(name, _)| name == error), "{error}");
        }
    }
}

#[test]
fn every_key_is_there() {
    let (text, _) = formatted(&page("gangliond.toml.5"));
    let known = serde_json::to_value(Config::default()).expect("a configuration");
    let known = known.as_object().expect("an object");
    for (name, value) in known {
        let keys = value.as_object().map_or(vec![name.clone()], |section| {
            section.keys().map(|key| format!("{name}.{key}")).collect()
        });
        for key in keys.iter().filter(|key| *key != "graph.debug") {
            let entry = text
                .lines()
                .any(|line| line.trim_start().starts_with(&format!("{key} = ")));
            assert!(entry, "{key}");
        }
    }
    assert!(text.contains("graph.debug.verify_addresses = false"));
}

#[test]
fn every_option_and_error_of_the_bus_is_there() {
    let (text, _) = formatted(&page("org.ganglion.Llm1.5"));
    let entries: BTreeSet<_> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(ERRORS.len() > 8 && OPTIONS.len() > 8);
    for (error, what) in ERRORS {
        assert!(entries.contains(error) && text.contains(what), "{error}");
    }
    for OptionKey {
        name,
        allowed,
        what,
        ..
    } in OPTIONS
    {
        let whole = format!("{what} Allowed is {allowed}. Default: ");
        assert!(entries.contains(name) && text.contains(&whole), "{name}");
    }
}

#[test]
fn every_field_of_http_is_there() {
    let (text, _) = formatted(&page("ganglion-openai.7"));
    for table in TABLES {
        let section = text.split(&format!("FIELDS OF {}\n", table.path)).nth(1);
        let section = section.unwrap_or_else(|| panic!("{}", table.path));
        let section = section.split("\nFIELDS OF ").next().unwrap_or_default();
        assert!(table.fields().count() > 30);
        for field in table.fields() {
            let entry = |line: &str| line.split_whitespace().next() == Some(field.name);
            let is_there = section.lines().any(entry) && section.contains(field.about);
            assert!(is_there, "{}: {field:?}", table.path);
        }
    }
}

/// The examples of a page, as they are to be typed.
fn examples(source: &str) -> Vec<String> {
    let blocks = source.split("\n.EX\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("\n.EE").next().unwrap_or_default());
    let typed = blocks.map(|block| {
        let escapes = [("\\*(Aq", "'"), ("\\-", "-"), ("\\&", ""), ("\\\\", "\\")];
        escapes
            .iter()
            .fold(block.to_owned(), |text, (escape, typed)| {
                text.replace(escape, typed)
            })
    });
    typed.collect()
}

/// Those of a shell each by itself, those in Python as the one program that they are parts of.
#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_the_interfaces_work() {
    if !(needs::python() && needs::programs(&["busctl", "gdbus"])) {
        return;
    }
    let examples = examples(&page("org.ganglion.Llm1.5"));
    let begins =
        |example: &String, words: &[&str]| words.iter().any(|word| example.starts_with(word));
    let shell: Vec<_> = examples
        .iter()
        .filter(|example| begins(example, &["busctl", "gdbus"]))
        .collect();
    let others = [
        "busctl",
        "gdbus",
        "ganglionctl",
        "sudo",
        "printf",
        "timeout",
        "{",
    ];
    let python: Vec<_> = examples
        .iter()
        .filter(|example| !begins(example, &others))
        .collect();
    assert!(
        !shell.is_empty() && python.len() > METHOD_ERRORS.len(),
        "{examples:?}"
    );

    // A script records no graph; a model does.
    let mut served = Restartable::new();
    served
        .start("kv.context = 512\nsampling.max_tokens = 16\n")
        .await;
    let run = |program: &str, argument: &str| {
        let done = Command::new(program)
            .args(["-c", argument])
            .env("DBUS_SYSTEM_BUS_ADDRESS", served.bus.text())
            .stdin(Stdio::null())
            .output();
        let done = done.expect(program);
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(
            done.status.success(),
            "{argument}\n{said}{}",
            String::from_utf8_lossy(&done.stderr)
        );
        said
    };
    for example in shell {
        let said = run("sh", &format!("set -eu\n{example}"));
        assert!(said.contains("finish_reason"), "{example}: {said}");
    }
    let lines = python.iter().flat_map(|example| example.lines());
    let lines: Vec<_> = lines.map(|line| format!("    {line}")).collect();
    let program = format!(
        "async def main():\n{}\nimport asyncio\nasyncio.run(main())\n",
        lines.join("\n")
    );
    let said = run(PYTHON, &program);
    // A model of random weights may end an answer by itself.
    let ends = [" length", " stop"].map(|end| said.matches(end).count());
    assert!(ends.iter().sum::<usize>() >= 3, "{said}");
}

#[test]
fn every_field_of_the_journal_is_there() {
    let (text, _) = formatted(&page("gangliond.8"));
    for (field, what) in ganglion::journal::FIELDS {
        let entry = |line: &str| line.split_whitespace().next() == Some(field);
        assert!(text.lines().any(entry) && text.contains(what), "{field}");
    }
}

#[test]
fn every_metric_is_there() {
    let (text, _) = formatted(&page("gangliond.8"));
    for Metric { name, help, .. } in METRICS {
        let entry = |line: &str| {
            let rest = line.trim_start().strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
        };
        assert!(text.lines().any(entry) && text.contains(help), "{name}");
    }
}

#[test]
fn every_verb_and_exit_code_is_there() {
    let (text, _) = formatted(&page("ganglionctl.1"));
    let help = Command::new(env!("CARGO_BIN_EXE_ganglionctl"))
        .arg("--help")
        .output();
    let help = String::from_utf8(help.expect("it runs").stdout).expect("text");
    let verbs = help
        .split("Commands:")
        .nth(1)
        .and_then(|rest| rest.split("\n\n").next());
    let verbs = verbs
        .expect("a list")
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    for verb in verbs.filter(|verb| *verb != "help") {
        assert!(text.contains(&format!("ganglionctl {verb}")), "{verb}");
    }
    for entry in ["ganglionctl models remove", "/set", "/save FILE", "--wait"] {
        let there = text
            .lines()
            .any(|line| line.trim_start().starts_with(entry));
        assert!(there, "{entry}");
    }
    for code in ["65", "69", "75", "77", "78", "130"] {
        assert!(
            text.lines()
                .any(|line| line.trim_start().starts_with(&format!("{code} "))),
            "{code}"
        );
    }
    let (text, _) = formatted(&page("gangliond.8"));
    for entry in [
        "--config",
        "--check-config",
        "--self-test",
        "--bus",
        "--sim",
        "SIGTERM, SIGINT",
        "SIGHUP",
    ] {
        assert!(text.contains(entry), "{entry}");
    }
}

/// The options that `ganglionctl VERB --help` lists; `None` if there is no such verb.
fn options_of(verb: &[&str]) -> Option<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_ganglionctl"))
        .args(verb)
        .arg("--help")
        .output();
    let help = help.expect("ganglionctl runs");
    help.status
        .success()
        .then(|| String::from_utf8(help.stdout).expect("text"))
}

/// Every command in the introductory pages exists, with its options, and so does every key of the configuration.
#[test]
fn commands_and_keys_of_the_pages_exist() {
    let known = serde_json::to_value(Config::default()).expect("a configuration");
    let (mut commands, mut keys) = (0, 0);
    for name in PAGES.iter().filter(|name| !name.ends_with(".5")) {
        let source = page(name).replace("\\-", "-").replace("\\fR \\fB", " ");
        let bold = source
            .split("\\fB")
            .skip(1)
            .map(|rest| rest.split("\\fR").next().expect("its end"));
        let examples = examples(&source);
        let lines = examples.iter().flat_map(|example| example.lines());
        for text in bold.chain(lines).map(|text| text.replace('\n', " ")) {
            for command in text.split("ganglionctl ").skip(1) {
                let words: Vec<_> = command
                    .split([' ', ','])
                    .take_while(|word| !["|", "--", "#"].contains(word))
                    .collect();
                let Some(verb) = words
                    .first()
                    .filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
                else {
                    continue;
                };
                let help = options_of(&[verb]).unwrap_or_else(|| panic!("{name}: {command}"));
                for option in words.iter().filter(|word| word.starts_with("--")) {
                    let option = option
                        .split('=')
                        .next()
                        .unwrap_or_default()
                        .trim_end_matches(['.', ':']);
                    assert!(help.contains(option), "{name}: {command}: {option}");
                }
                commands += 1;
            }
            let Some((section, key)) = text.split_once('.') else {
                continue;
            };
            if known.get(section).is_some_and(serde_json::Value::is_object)
                && key
                    .bytes()
                    .all(|c| c.is_ascii_lowercase() || b"_.0123456789".contains(&c))
            {
                assert!(known[section].get(key).is_some(), "{name}: {text}");
                keys += 1;
            }
        }
    }
    assert!(
        commands > 50 && keys > 30,
        "{commands} commands, {keys} keys"
    );
}

/// A name in quotes that looks like one of the environment, in any source below `folder`.
fn variables(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            variables(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).expect("text");
        let quoted = text.split('"').filter(|text| {
            let prefix = ["GANGLION_", "HF_"].iter().any(|of| text.starts_with(of));
            prefix && text.bytes().all(|c| c.is_ascii_uppercase() || c == b'_')
        });
        found.extend(quoted.map(str::to_owned));
    }
}

#[test]
fn every_variable_of_the_environment_is_there() {
    let mut known = BTreeSet::new();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin/ganglionctl");
    for folder in ["client", "pull"] {
        variables(&sources.join(folder), &mut known);
    }
    assert!(known.len() > 2, "{known:?}");
    let (text, _) = formatted(&page("ganglionctl.1"));
    let environment = text.split("\nENVIRONMENT\n").nth(1).expect("the section");
    let environment = environment.split("\nEXAMPLES\n").next().expect("its end");
    for variable in known {
        assert!(environment.contains(&variable), "{variable}");
    }
}
