//! The keys of gangliond.toml(5), from the shipped configuration: its comments say what each does.

use std::fmt::Write as _;

use super::text;

const SHIPPED: &str = include_str!("../../../../config/gangliond.toml");

/// Paragraphs for what comes before the first key, then a section for each of the file's, with an entry for each key.
pub(super) fn sections() -> String {
    let mut page = String::new();
    let mut section = "";
    let mut comment = String::new();
    for line in SHIPPED.lines() {
        // Writing to memory does not fail.
        let _ = if let Some(text) = line.strip_prefix("# ") {
            write!(comment, "{text} ")
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            write!(
                page,
                ".SH \"SECTION [{section}]\"\n{}",
                paragraph(&mut comment)
            )
        } else if let Some((key, value)) = line.trim_start_matches('#').split_once(" = ") {
            if section.is_empty() {
                page.push_str(".SH \"KEYS OUTSIDE OF SECTIONS\"\n");
            }
            let dot = if section.is_empty() { "" } else { "." };
            let name = text(&format!("{section}{dot}{key}"));
            let (value, what) = (text(value), text(&std::mem::take(&mut comment)));
            write!(page, ".TP\n\\fB{name}\\fR = {value}\n{what}\n")
        } else {
            // Before the first key stands what holds for all; elsewhere a comment belongs to what follows it.
            let before_keys = !page.contains(".SH");
            let said = before_keys.then(|| paragraph(&mut comment));
            write!(page, "{}", said.unwrap_or_default())
        };
    }
    page
}

fn paragraph(comment: &mut String) -> String {
    let said = text(&std::mem::take(comment));
    if said.is_empty() {
        return said;
    }
    format!(".PP\n{said}\n")
}
