//! Two records next to each other.

use serde::Serialize;

use super::found::Verdict;
use super::record::Record;
use crate::failure::Outcome;
use crate::view;

/// What two records have of one check.
#[derive(Serialize)]
struct Pair<'a> {
    name: &'a str,
    verdicts: [Option<Verdict>; 2],
    observed: [&'a str; 2],
}

#[derive(Serialize)]
struct Figures<'a> {
    name: &'a str,
    pair: [Option<f64>; 2],
    /// The second divided by the first.
    ratio: Option<f64>,
}

#[derive(Serialize)]
struct Facts<'a> {
    name: &'a str,
    pair: [&'a str; 2],
}

#[derive(Serialize)]
struct Comparison<'a> {
    times: [&'a str; 2],
    facts: Vec<Facts<'a>>,
    items: Vec<Pair<'a>>,
    numbers: Vec<Figures<'a>>,
}

/// Returns the names of both, in the order of the first, then those of the second alone.
fn names<'a>(
    first: impl Iterator<Item = &'a String>,
    second: impl Iterator<Item = &'a String>,
) -> Vec<&'a String> {
    let mut names: Vec<_> = first.collect();
    for name in second {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Formats two records side by side: the facts and results that differ, and all figures.
pub(super) fn text(first: &Record, second: &Record) -> Outcome<String> {
    let both = [first, second];
    let facts = names(first.machine.keys(), second.machine.keys());
    let facts = facts.into_iter().map(|name| Facts {
        name,
        pair: both.map(|one| one.machine.get(name).map_or("-", String::as_str)),
    });
    let item = |record: &'_ Record, name: &str| {
        let found = record.items.iter().find(|item| item.name == name);
        found.map(|item| (item.verdict, item.observed.clone()))
    };
    let all = names(
        first.items.iter().map(|item| &item.name),
        second.items.iter().map(|item| &item.name),
    );
    let found: Vec<_> = all
        .into_iter()
        .map(|name| (name, both.map(|record| item(record, name))))
        .collect();
    let items = found.iter().map(|(name, pair)| Pair {
        name,
        verdicts: [0, 1].map(|at: usize| pair[at].as_ref().map(|(verdict, _)| *verdict)),
        observed: [0, 1].map(|at: usize| pair[at].as_ref().map_or("-", |(_, observed)| observed)),
    });
    let figures = names(first.figures.keys(), second.figures.keys());
    let figures = figures.into_iter().map(|name| {
        let pair = both.map(|one| one.figures.get(name).copied());
        let ratio = match pair {
            [Some(first), Some(second)] if first != 0.0 => Some(second / first),
            _ => None,
        };
        Figures { name, pair, ratio }
    });
    let comparison = Comparison {
        times: both.map(|one| &*one.time),
        facts: facts.collect(),
        items: items.collect(),
        numbers: figures.collect(),
    };
    view::text(include_str!("compare.txt"), &comparison)
}
