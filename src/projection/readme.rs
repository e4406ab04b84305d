//! The README's table of speeds. A test compares it, and `make projections` writes it.

use std::fs;
use std::path::Path;

use serde::Deserialize;

use super::boards::{Board, boards};
use super::speed::Work;

const MODELS: &str = include_str!("models.toml");
/// The first cells of the table in the README.
const HEAD: &str = "| model | file |";
/// If it is set, the test writes the table.
const WRITE: &str = "GANGLION_WRITE_README";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    model: Vec<Model>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    name: String,
    file: f64,
    memory: f64,
    step: f64,
    products: f64,
    h100: Option<u32>,
    peer: Option<u32>,
}

/// Returns the lines of the table.
fn table() -> String {
    let boards = boards();
    let names: Vec<_> = boards.iter().map(|board| &*board.name).collect();
    let names = names.join(", ");
    let head = format!(
        "{HEAD} weights and 4,096 tokens | decode on {names}: projected tok/s | prompts there | H100: decode, tok/s | \
         llama.cpp there |\n|---|---|---|---|---|---|---|\n"
    );
    let table: Table = toml::from_str(MODELS).expect("the models");
    let rows = table.model.into_iter().map(|model| {
        let work = Work {
            step_bytes: model.step,
            products: model.products,
        };
        let each = |speed: fn(&Board, Work) -> f64| {
            let speeds = boards.iter().map(|board| rounded(speed(board, work)));
            speeds.collect::<Vec<_>>().join(", ")
        };
        let decode = each(|board, work| limits(board).decode(work));
        let prompt = each(|board, work| limits(board).prompt(work));
        let [file, memory] = [model.file, model.memory].map(|bytes| (bytes / 1e8).floor() / 10.0);
        let [h100, peer] = [model.h100, model.peer]
            .map(|speed| speed.map(|speed| format!(" {speed}")).unwrap_or_default());
        let row = [
            model.name,
            format!("{file:.1} GB"),
            format!("{memory:.1} GB"),
            decode,
            prompt,
        ];
        format!("| {} |{h100} |{peer} |\n", row.join(" | "))
    });
    head + &rows.collect::<String>()
}

fn limits(board: &Board) -> super::speed::Limits {
    board.limits(board.fastest().expect("a mode"))
}

/// Writes a speed with at most three digits that mean something.
fn rounded(speed: f64) -> String {
    let step = if speed < 1000.0 { 1.0 } else { 100.0 };
    let shown = format!("{:.0}", (speed / step).round() * step);
    match shown.len() {
        digits @ 4.. => format!("{},{}", &shown[..digits - 3], &shown[digits - 3..]),
        _ => shown,
    }
}

#[test]
fn the_readme_has_the_projections() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let page = fs::read_to_string(&file).expect("the README");
    let start = page.find(HEAD).expect("the table");
    let rest = page[start..].find("\n\n").expect("the end of the table");
    let (before, after) = (&page[..start], &page[start + rest + 1..]);
    let table = table();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&file, format!("{before}{table}{after}")).expect("it is written");
        return;
    }
    let present = &page[start..=start + rest];
    assert_eq!(present, table, "run make projections");
}

#[test]
fn speeds_have_three_digits() {
    let shown = [9.4, 57.3, 999.4, 1234.0, 12_345.0].map(rounded);
    assert_eq!(shown, ["9", "57", "999", "1,200", "12,300"]);
}
