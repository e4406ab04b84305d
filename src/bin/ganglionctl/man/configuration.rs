//! gangliond.toml(5), from the shipped configuration: its comments say what each key does.

use clap_mangen::roff::{bold, roman};

use super::page::Page;

const SHIPPED: &str = include_str!("../../../../config/gangliond.toml");

pub(super) fn page() -> String {
    let mut page = Page::new("gangliond.toml", 5, "configuration of gangliond");
    page.section("SYNOPSIS")
        .usage("/etc/ganglion/gangliond.toml", "");
    page.paragraph("`/etc/ganglion/gangliond.toml.d/*.toml`");
    page.section("DESCRIPTION");
    let mut section = "";
    let mut comment: Vec<&str> = Vec::new();
    let mut keys_begun = false;
    for line in SHIPPED.lines() {
        if let Some(text) = line.strip_prefix("# ") {
            comment.push(text);
        } else if line == "#" || line.is_empty() {
            // Before the first key stands what holds for all; elsewhere a comment belongs to what follows it.
            if !keys_begun && !comment.is_empty() {
                page.paragraph(&comment.join(" "));
                comment.clear();
            }
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            page.section(&format!("SECTION [{section}]"));
            if !comment.is_empty() {
                page.paragraph(&comment.join(" "));
                comment.clear();
            }
            keys_begun = true;
        } else if let Some((key, value)) = line.trim_start_matches('#').split_once(" = ") {
            if !keys_begun {
                page.section("KEYS OUTSIDE OF SECTIONS");
                keys_begun = true;
            }
            let name = match section {
                "" => key.to_owned(),
                section => format!("{section}.{key}"),
            };
            page.entry(
                [bold(name), roman(format!(" = {value}"))],
                &comment.join(" "),
            );
            comment.clear();
        }
    }
    page.section("EXAMPLES");
    page.paragraph("A drop-in, and how to have it in force:");
    page.example(
        "printf '[kv]\\ncontext = 8192\\n' | sudo tee /etc/ganglion/gangliond.toml.d/60-context.toml\n\
         gangliond --check-config && sudo systemctl reload gangliond",
    );
    page.see_also(&["gangliond(8)", "ganglionctl(1)", "org.ganglion.Llm1(5)"])
}
