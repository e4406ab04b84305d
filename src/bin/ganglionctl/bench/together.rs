//! Several conversations that step together: what a step of so many rows takes, beside one of one row.

use std::fmt;
use std::time::Instant;

use ganglion::engine::runner::{RunError, Runner};
use ganglion::kv::Owner;
use serde::Serialize;

use super::kinds::Kind;
use super::statistics::median;
use crate::offline;

/// Of one number of rows. The keys are stable: scripts read them.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Together {
    pub(super) rows: usize,
    /// The median of the steps.
    step_milliseconds: f64,
    /// Of all rows.
    tokens_per_second: f64,
    /// A step's time, of that of the first in the list.
    times_the_first: f64,
    /// Of several rows.
    pub(super) operations: Vec<Kind>,
}

/// Conversations of other prompts each, as long as `prompt`.
///
/// # Errors
/// As `Runner::step_rows`.
pub(super) fn measure(
    runner: &mut Runner,
    rows: &[usize],
    prompt: &[u32],
    generate: usize,
) -> Result<Vec<Together>, RunError> {
    let mut measured: Vec<Together> = Vec::new();
    for &rows in rows {
        let regions = begin(runner, rows, prompt)?;
        let mut times = Vec::with_capacity(generate);
        let mut before = Instant::now();
        for step in 0..generate {
            runner.step_rows(&regions, step + 1 < generate)?;
            let now = Instant::now();
            times.push((now - before).as_secs_f64());
            before = now;
        }
        // The first one records.
        let step = median(times.into_iter().skip(1));
        let milliseconds = step * 1e3;
        let first = measured
            .first()
            .map_or(milliseconds, |first| first.step_milliseconds);
        #[allow(clippy::cast_precision_loss)] // at most eight
        measured.push(Together {
            rows,
            step_milliseconds: milliseconds,
            tokens_per_second: rows as f64 / step,
            times_the_first: milliseconds / first,
            operations: Vec::new(),
        });
    }
    Ok(measured)
}

/// Reads a prompt of its own for each of so many conversations; returns where they are in the cache.
///
/// # Errors
/// As `Runner::prefill`.
pub(super) fn begin(
    runner: &mut Runner,
    rows: usize,
    prompt: &[u32],
) -> Result<Vec<usize>, RunError> {
    let mut regions = Vec::with_capacity(rows);
    for conversation in 0..rows {
        // As many tokens in another order.
        let mut prompt = prompt.to_vec();
        let by = conversation % prompt.len();
        prompt.rotate_left(by);
        offline::begin(runner, Some(Owner(conversation as u64)), &prompt)?;
        regions.push(runner.slot());
    }
    Ok(regions)
}

/// A row for each number of rows.
pub(super) fn table(together: &[Together], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if together.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "{:<6}{:>12}{:>12}{:>18}",
        "rows", "ms a step", "tok/s", "times the first"
    )?;
    for row in together {
        writeln!(
            f,
            "{:<6}{:>12.3}{:>12.1}{:>18.2}",
            row.rows, row.step_milliseconds, row.tokens_per_second, row.times_the_first
        )?;
    }
    writeln!(f)
}
