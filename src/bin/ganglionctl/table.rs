//! Tables for people: columns as wide as the widest in them, and two spaces between.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// A line for each row; all columns begin at their left ends.
pub(crate) fn columns<R>(rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = String>,
{
    lines(rows, CellAlignment::Left)
}

/// Names and values in two columns; what is empty is left out.
pub(crate) fn named(rows: impl IntoIterator<Item = (String, String)>) -> String {
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    columns(rows.map(|(name, value)| [name, value]))
}

/// What a column of figures is called, and its figure of a row.
pub(crate) type Column<R> = (&'static str, fn(&R) -> Option<String>);

/// A heading, and a line for each row: the first column from the left, all others up to their right ends. A column that
/// has a figure in no row is left out.
pub(crate) fn figures<R>(rows: &[R], columns: &[Column<R>]) -> String {
    let shown = |(_, cell): &&Column<R>| rows.iter().any(|row| cell(row).is_some());
    let shown: Vec<_> = columns.iter().filter(shown).collect();
    let heading = shown.iter().map(|(heading, _)| (*heading).to_owned());
    let mut table: Vec<Vec<_>> = vec![heading.collect()];
    table.extend(rows.iter().map(|row| {
        let cells = shown.iter().map(|(_, cell)| cell(row));
        cells
            .map(|cell| cell.unwrap_or_else(|| "-".into()))
            .collect()
    }));
    lines(table, CellAlignment::Right)
}

/// A figure with so many digits after the point.
pub(crate) fn figure(value: impl Into<Option<f64>>, digits: usize) -> Option<String> {
    value.into().map(|value| format!("{value:.digits$}"))
}

fn lines<R>(rows: impl IntoIterator<Item = R>, others: CellAlignment) -> String
where
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_preset(NOTHING).add_rows(rows);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at > 0 {
            column.set_cell_alignment(others);
        }
    }
    let lines = table.lines();
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
