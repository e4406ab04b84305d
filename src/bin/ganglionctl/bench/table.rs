//! Tables of figures.

/// What a column is called, and its figure of a row.
pub(super) type Column<R> = (&'static str, fn(&R) -> Option<String>);

/// A line for each row: the first column from the left, all others up to their right ends. A column that has a figure in
/// no row is left out.
pub(super) fn table<R>(rows: &[R], columns: &[Column<R>]) -> String {
    let mut lines = vec![String::new(); 1 + rows.len()];
    for (heading, cell) in columns {
        let cells: Vec<_> = rows.iter().map(cell).collect();
        if cells.iter().all(Option::is_none) {
            continue;
        }
        let cells = cells.iter().map(|cell| cell.as_deref().unwrap_or("-"));
        let cells: Vec<_> = [*heading].into_iter().chain(cells).collect();
        let width = cells.iter().map(|cell| cell.len()).max().unwrap_or(0);
        for (line, cell) in lines.iter_mut().zip(cells) {
            *line = match line.as_str() {
                "" => format!("{cell:<width$}"),
                before => format!("{before}  {cell:>width$}"),
            };
        }
    }
    lines.join("\n") + "\n"
}

pub(super) fn figure(value: impl Into<Option<f64>>, digits: usize) -> Option<String> {
    value.into().map(|value| format!("{value:.digits$}"))
}
