//! Each feature of tests/data/jinja.txt, compared with Jinja2 in transformers' setup.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::python;
use crate::support::needs;

const LINES: &str = include_str!("../data/jinja.txt");
const VARIABLES: &str = include_str!("../data/jinja.json");

/// A frame of src/model/chat/frame.rs.
fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&[kind], &length[..], bytes].concat()
}

/// Returns the template process's answer for a template and its variables.
fn rendered(template: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_gangliond"))
        .arg("--run-chat-template")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let frames = [
        frame(0, template.as_bytes()),
        frame(1, VARIABLES.as_bytes()),
    ];
    // A template that stops its process closes the pipe.
    let _ = input.write_all(&frames.concat());
    drop(input);
    let mut output = Vec::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_end(&mut output)
        .unwrap();
    child.wait().unwrap();
    let mut answers = Vec::new();
    let mut rest = output.as_slice();
    while let [kind, a, b, c, d, behind @ ..] = rest {
        let length = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
        answers.push((*kind, String::from_utf8(behind[..length].to_vec()).unwrap()));
        rest = &behind[length..];
    }
    match answers.as_slice() {
        [(2, _), (2, text)] => text.clone(),
        [(2, _), (3, message)] => format!("raised: {message}"),
        _ => "error".into(),
    }
}

#[test]
fn each_feature_of_jinja2_is_there() {
    if !needs::python() {
        return;
    }
    let lines = LINES.lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("# "));
    let lines: Vec<_> = lines
        .map(|line| line.replace('¶', "\n").replace('␍', "\r"))
        .collect();
    let variables: Value = serde_json::from_str(VARIABLES).unwrap();
    let theirs = python("jinja.py", &json!({"lines": lines, "variables": variables}));
    let mut wrong = BTreeMap::new();
    for (line, theirs) in lines.iter().zip(theirs.as_array().unwrap()) {
        let ours = rendered(line);
        if ours != theirs.as_str().unwrap() {
            wrong.insert(line, format!("{ours:?}, and jinja2 {theirs}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} lines: {wrong:#?}",
        wrong.len(),
        lines.len()
    );
}
