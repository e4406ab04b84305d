//! `ganglionctl man PAGE`: the manual. Its pages are the man(7) sources in this folder.
//!
//! A line `.\" @NAME` of a page is replaced by text that has its source elsewhere: command lines (`clap_mangen`), exit codes,
//! fields of the journal, metrics, keys of the shipped configuration, the interfaces' XML, the options and errors of the bus, and
//! the fields of HTTP.

mod call_options;
mod http_api;
mod interfaces;
mod metrics;
mod roff;

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _, Parser};
use clap_mangen::Man;
use ganglion::{journal, service};

use crate::failure::{self, Outcome};
use crate::{chat, output};
use roff::{BREAK, list, text};

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// The page
    #[arg(value_parser = PAGES.map(|(name, _)| name))]
    page: String,
}

/// The name and the source of each page.
const PAGES: [(&str, &str); 8] = [
    ("ganglion.7", include_str!("ganglion.7")),
    ("ganglion-openai.7", include_str!("ganglion-openai.7")),
    ("ganglion-migration.7", include_str!("ganglion-migration.7")),
    (
        "ganglion-troubleshooting.7",
        include_str!("ganglion-troubleshooting.7"),
    ),
    ("gangliond.8", include_str!("gangliond.8")),
    ("ganglionctl.1", include_str!("ganglionctl.1")),
    ("gangliond.toml.5", include_str!("gangliond.toml.5")),
    ("org.ganglion.Llm1.5", include_str!("org.ganglion.Llm1.5")),
];

/// The shipped configuration. Its comments describe each key.
const CONFIGURATION: &str = include_str!("../../../../config/gangliond.toml");

/// Prints a page; `command` is the whole command line.
pub(crate) fn run(arguments: &Arguments, command: &Command) -> Outcome {
    let chat = table(chat::COMMANDS, "\t") + &format!(".PP\n{}\n", text(chat::REST));
    let parts = [
        ("daemon-options", options(service::Arguments::command())),
        ("daemon-exit-status", table(service::EXIT_CODES, "  ")),
        ("fields", list(journal::FIELDS)),
        ("metrics", metrics::metrics()),
        ("keys", keys()),
        ("options", options(command.clone())),
        ("verbs", verbs("ganglionctl", command)),
        ("chat", chat),
        ("exit-status", table(&failure::exit_codes(), "  ")),
        ("options-of-requests", call_options::of_requests()),
        ("options-of-sessions", call_options::of_sessions()),
        ("options-of-completions", call_options::of_completions()),
        ("errors", call_options::errors()),
        ("http-fields", http_api::fields()),
    ];
    let parts = parts.map(|(name, part)| (name.to_owned(), part));
    let page = PAGES.iter().find(|(name, _)| *name == arguments.page);
    let page = page.map_or("", |(_, text)| text);
    let mut page = page.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    for (name, part) in parts.into_iter().chain(interfaces::members()) {
        page = page.replace(&format!(".\\\" @{name}\n"), &part);
    }
    output::print(&page)
}

/// The sections of the configuration's keys: the text before the first key, then an entry for each key.
fn keys() -> String {
    let mut page = String::new();
    let mut section = "";
    let (mut comment, mut values) = (String::new(), String::new());
    for line in CONFIGURATION.lines() {
        // Writing to memory does not fail.
        let _ = if let Some(text) = line.strip_prefix("# ") {
            let is_last = text.starts_with("Values: ");
            let is_entry = text.starts_with('"') && text.contains("\": ");
            let text = if is_entry {
                format!("{BREAK} {text}")
            } else {
                text.to_owned()
            };
            write!(if is_last { &mut values } else { &mut comment }, "{text} ")
        } else if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
            let said = paragraph(&mut comment);
            write!(page, ".SH \"SECTION [{section}]\"\n{said}")
        } else if let Some((key, value)) = line.trim_start_matches('#').split_once(" = ") {
            if section.is_empty() {
                page.push_str(".SH \"KEYS OUTSIDE OF SECTIONS\"\n");
            }
            let dot = if section.is_empty() { "" } else { "." };
            let [name, value, what, values] = [
                &format!("{section}{dot}{key}"),
                value,
                &std::mem::take(&mut comment),
                &std::mem::take(&mut values),
            ]
            .map(text);
            write!(
                page,
                ".TP\n\\fB{name}\\fR = {value}\n{what}\n.br\n{values}\n"
            )
        } else {
            // Text before the first key is about the whole file; elsewhere a comment belongs to the line after it.
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

/// A section for each verb of the command `name`, and for the verbs below it.
fn verbs(name: &str, command: &Command) -> String {
    let visible = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let sections = visible.map(|verb| {
        let name = format!("{name} {}", verb.get_name());
        let about = verb.get_long_about().or(verb.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let about = text(about.trim_end_matches('.'));
        let options = options(verb.clone().disable_help_flag(true));
        let below = verbs(&name, verb);
        format!(".SS \"{name}\"\n.PP\n{about}.\n{options}{below}")
    });
    sections.collect()
}

/// Options and arguments of a command, without a heading.
fn options(command: Command) -> String {
    let mut made = Vec::new();
    // Writing to memory does not fail.
    let _ = Man::new(command).render_options_section(&mut made);
    let made = String::from_utf8_lossy(&made);
    let (_, entries) = made.split_once(".SH OPTIONS\n").unwrap_or_default();
    entries.into()
}

/// Renders a table. Each line has a name, the separator `between`, and its meaning.
fn table(lines: &str, between: &str) -> String {
    let lines = lines.lines();
    let entries = lines.filter_map(|line| line.trim().split_once(between));
    list(&entries.collect::<Vec<_>>())
}
