//! The manual pages: they describe everything that the code accepts, in valid roff.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ganglion::bus::{ERRORS, METHOD_ERRORS, OPTIONS, OptionKey};
use ganglion::config::Config;

use crate::support::needs;
use crate::support::restartable::Restartable;

/// `make deps` installs it.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/venv/bin/python");

const PAGES: [&str; 4] = [
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

/// Returns the formatted text and the formatter's warnings.
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
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "SEE ALSO"] {
            let interfaces = name.starts_with("org.") && section == "SYNOPSIS";
            assert!(
                interfaces || text.lines().any(|line| line == section),
                "{name}: {section}"
            );
        }
    }
}

/// Returns the source of a page as words, without roff's escapes.
fn plain(source: &str) -> String {
    let escapes = [
        ("\\*(Aq", "'"),
        ("\\-", "-"),
        ("\\&", ""),
        ("\\fB", ""),
        ("\\fI", ""),
        ("\\fR", ""),
    ];
    let text = escapes
        .iter()
        .fold(source.to_owned(), |text, (escape, shown)| {
            text.replace(escape, shown)
        });
    words(&text)
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The page has the text of the interfaces' XML.
#[test]
fn the_interfaces_are_described_as_in_their_xml() {
    let source = page("org.ganglion.Llm1.5");
    let text = plain(&source);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/interfaces");
    let mut methods = 0;
    for entry in fs::read_dir(folder).expect("interfaces") {
        let xml = fs::read_to_string(entry.expect("an entry").path()).expect("text");
        methods += xml.matches("<method name=").count();
        for comment in xml.split("<!--").skip(1) {
            let comment = comment.split("-->").next().unwrap_or_default();
            for paragraph in comment.split("\n\n") {
                let paragraph = words(paragraph).replace('`', "");
                assert!(text.contains(&paragraph), "{paragraph}");
            }
        }
    }
    assert_eq!(METHOD_ERRORS.len(), methods);
    for (method, errors) in METHOD_ERRORS {
        let (interface, name) = method.split_once('.').expect("both");
        let interface = source
            .split(&format!("INTERFACE org.ganglion.Llm1.{interface}\""))
            .nth(1)
            .and_then(|rest| rest.split("\n.SH").next());
        let described = interface.expect("a section").split("\n.SS \"");
        let mut described = described.filter(|part| part.starts_with(&format!("{name}(")));
        let described = described.next().expect(method);
        let names = errors.join(", ");
        let names = if errors.is_empty() {
            "none of its own"
        } else {
            &names
        };
        let fails = format!("Errors: {names}.");
        assert!(plain(described).contains(&fails), "{method}: {fails}");
        assert!(described.contains("\n.EX\n"), "{method}: an example");
        for error in *errors {
            assert!(ERRORS.iter().any(|(name, _)| name == error), "{error}");
        }
    }
}

#[test]
fn every_key_is_there() {
    let text = plain(&page("gangliond.toml.5"));
    let known = serde_json::to_value(Config::default()).expect("a configuration");
    let known = known.as_object().expect("an object");
    for (name, value) in known {
        let keys = value.as_object().map_or(vec![name.clone()], |section| {
            section.keys().map(|key| format!("{name}.{key}")).collect()
        });
        for key in keys.iter().filter(|key| *key != "graph.debug") {
            assert!(text.contains(&format!(" {key} = ")), "{key}");
        }
    }
    assert!(text.contains("graph.debug.verify_addresses = false"));
}

#[test]
fn every_signal_property_option_and_error_of_the_bus_is_there() {
    let text = plain(&page("org.ganglion.Llm1.5"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for entry in fs::read_dir(root.join("config/interfaces")).expect("interfaces") {
        let xml = fs::read_to_string(entry.expect("an entry").path()).expect("text");
        for kind in ["signal", "property"] {
            for rest in xml.split(&format!("<{kind} name=\"")).skip(1) {
                let name = rest.split('"').next().expect("a name");
                assert!(text.contains(&format!("{kind} {name}")), "{kind} {name}");
            }
        }
    }
    assert!(ERRORS.len() > 8 && OPTIONS.len() > 8);
    for (error, what) in ERRORS {
        assert!(text.contains(error) && text.contains(what), "{error}");
    }
    for OptionKey {
        name,
        allowed,
        what,
        ..
    } in OPTIONS
    {
        let whole = format!("{what} Allowed is {allowed}.");
        assert!(text.contains(name) && text.contains(&whole), "{name}");
    }
}

/// Returns the examples of a page, as they are typed.
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

/// Shell examples run separately; the Python examples are parts of one program.
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
    // A model with random weights may end an answer early.
    let ends = [" length", " stop"].map(|end| said.matches(end).count());
    assert!(ends.iter().sum::<usize>() >= 3, "{said}");
}

#[test]
fn every_field_of_the_journal_is_there() {
    let text = plain(&page("gangliond.8"));
    for (field, what) in ganglion::journal::FIELDS {
        assert!(text.contains(field) && text.contains(what), "{field}");
    }
}

#[test]
fn every_verb_and_exit_code_is_there() {
    let source = page("ganglionctl.1");
    let text = plain(&source);
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
    for code in ["65", "69", "75", "77", "78", "130"] {
        assert!(source.contains(&format!("\\fB{code}\\fR")), "{code}");
    }
}

/// Collects the names of environment variables in quotes from the sources below `folder`.
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
    let text = plain(&page("ganglionctl.1"));
    let environment = text.split(".SH ENVIRONMENT").nth(1).expect("the section");
    let environment = environment.split(".SH ").next().expect("its end");
    for variable in known {
        assert!(environment.contains(&variable), "{variable}");
    }
}
