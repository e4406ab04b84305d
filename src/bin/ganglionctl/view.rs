//! Output for people: templates filled with the values that `--json` prints.
//!
//! Templates are Jinja's; the variable `rows` holds all values, too. Lines with tabs in the result are rows. Adjacent
//! rows become columns as wide as their widest cell, with two spaces between. A row with only a name is left out,
//! because the daemon has no value for it.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use jiff::Timestamp;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{
    AutoEscape, Environment, Error, Output, State, UndefinedBehavior, Value, context,
    escape_formatter,
};
use serde::Serialize;

use crate::client::{megabytes, membership};
use crate::failure::{Exit, OrFail as _, Outcome};
use crate::output;

/// Prints `values` as JSON, or by `template`.
pub(crate) fn print(as_json: bool, template: &str, values: &impl Serialize) -> Outcome {
    if as_json {
        return output::print_json(values);
    }
    output::print(&text(template, values)?)
}

/// Fills `template` with `values` and aligns its rows.
pub(crate) fn text(template: &str, values: &impl Serialize) -> Outcome<String> {
    Ok(aligned(&fill(template, values)?))
}

fn fill(template: &str, values: &impl Serialize) -> Outcome<String> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    environment.set_syntax(syntax.or_fail(Exit::Failed, "templates")?);
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(write);
    environment.add_filter("account", membership::account);
    environment.add_filter("day", day);
    environment.add_filter("fixed", fixed);
    environment.add_filter("megabytes", megabytes);
    environment.add_filter("quoted", |text: &str| format!("{text:?}"));
    environment.add_function("figures", figures);
    let rows = Value::from(Serde(values));
    let filled = environment.render_str(template, context! { rows => rows.clone(), ..rows });
    filled.or_fail(Exit::Failed, "a template")
}

/// Writes a value as JSON has it, and nothing for null. Text of the daemon cannot add rows or columns.
fn write(out: &mut Output, state: &mut State, value: &Value) -> Result<(), Error> {
    let written = match (value.kind(), value.as_str()) {
        (ValueKind::None, _) => Value::UNDEFINED,
        (ValueKind::Bool, _) => value.is_true().to_string().into(),
        (_, Some(text)) if !value.is_safe() => text.replace(['\t', '\n'], " ").into(),
        _ => value.clone(),
    };
    escape_formatter(out, state, &written)
}

/// Formats a number with this many digits after the point; `None` if the value is not a number.
#[allow(clippy::needless_pass_by_value)] // as filters take it
fn fixed(value: Value, digits: usize) -> Option<String> {
    let value = f64::try_from(value).ok();
    value.map(|value| format!("{value:.digits$}"))
}

/// Formats a time in the local time zone; `None` if it is not known.
fn day(seconds: Option<i64>) -> Option<String> {
    let at = Timestamp::from_second(seconds.filter(|at| *at > 0)?).ok()?;
    let here = at.to_zoned(jiff::tz::TimeZone::system());
    Some(here.strftime("%Y-%m-%d %H:%M").to_string())
}

/// Makes a heading and a line for each of `rows`. The first column is aligned left, and all others right. `columns`
/// maps each column's name to the expression of `row` for its value; a column without values is left out.
#[allow(clippy::needless_pass_by_value)] // as functions take it
fn figures(state: &State, rows: Vec<Value>, columns: Value) -> Result<Value, Error> {
    let mut lines = vec![Vec::new(); rows.len() + 1];
    for heading in columns.try_iter()? {
        let figure = columns.get_item(&heading)?.to_string();
        let figure = state.env().compile_expression_owned(figure)?;
        let cells = rows.iter().map(|row| figure.eval(context! { row }));
        let cells = cells.collect::<Result<Vec<_>, _>>()?;
        let has_none = |cell: &Value| cell.is_undefined() || cell.is_none();
        if cells.iter().all(has_none) {
            continue;
        }
        lines[0].push(heading.to_string());
        for (line, cell) in lines[1..].iter_mut().zip(cells) {
            let value = Some(cell).filter(|cell| !has_none(cell));
            line.push(value.map_or("-".into(), |cell| cell.to_string()));
        }
    }
    let table = table(lines, CellAlignment::Right);
    Ok(Value::from_safe_string(table))
}

/// Formats names and values in two columns; empty values are left out.
pub(crate) fn named(rows: impl IntoIterator<Item = (String, String)>) -> String {
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    table(rows.map(|(name, value)| [name, value]), CellAlignment::Left)
}

/// Aligns the rows of a text in columns.
pub(crate) fn aligned(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let is_row = |line: &&str| line.contains('\t');
    let parts = lines.chunk_by(|one, next| is_row(one) == is_row(next));
    let shown = parts.map(|lines| {
        let rows = lines.iter().map(|line| line.split('\t').map(str::to_owned));
        if lines.iter().any(is_row) {
            let filled = rows.filter(|row| row.clone().skip(1).any(|cell| !cell.is_empty()));
            table(filled, CellAlignment::Left)
        } else {
            lines.join("\n") + "\n"
        }
    });
    shown.collect()
}

/// Makes a line for each row: the first column is aligned left, the others by `others`.
fn table<R>(rows: impl IntoIterator<Item = R>, others: CellAlignment) -> String
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
