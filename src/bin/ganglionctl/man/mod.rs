//! `ganglionctl man PAGE`: the manual. Its text is in the pages beside this file, which are man(7) as people write it.
//!
//! Where a page has a line `.\" @NAME`, what the code itself reads is put: the command lines by `clap_mangen`, the exit
//! codes, the journal's fields, the keys of the shipped configuration. The page of the interfaces has no such line; a test
//! holds it against their XML and the tables of the bus.

mod keys;

use clap::{Command, CommandFactory as _, Parser, ValueEnum};
use clap_mangen::Man;

use crate::chat;
use crate::failure::{self, Outcome};
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// Which one
    page: Page,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    #[value(name = "gangliond.8")]
    Gangliond,
    #[value(name = "ganglionctl.1")]
    Ganglionctl,
    #[value(name = "gangliond.toml.5")]
    Configuration,
    #[value(name = "org.ganglion.Llm1.5")]
    Interfaces,
}

/// `command` is the whole command line.
pub(crate) fn run(arguments: &Arguments, command: &Command) -> Outcome {
    let page = match arguments.page {
        Page::Gangliond => include_str!("gangliond.8")
            .replace(
                ".\\\" @options\n",
                &options(ganglion::service::Arguments::command()),
            )
            .replace(
                ".\\\" @exit-status\n",
                &table(ganglion::service::EXIT_CODES, "  "),
            )
            .replace(".\\\" @fields\n", &list(ganglion::journal::FIELDS)),
        Page::Ganglionctl => include_str!("ganglionctl.1")
            .replace(".\\\" @options\n", &options(command.clone()))
            .replace(".\\\" @verbs\n", &verbs(command))
            .replace(
                ".\\\" @chat\n",
                &format!("{}.PP\n{}\n", table(chat::COMMANDS, "\t"), text(chat::REST)),
            )
            .replace(".\\\" @exit-status\n", &table(&failure::exit_codes(), "  ")),
        Page::Configuration => {
            include_str!("gangliond.toml.5").replace(".\\\" @keys\n", &keys::sections())
        }
        Page::Interfaces => include_str!("org.ganglion.Llm1.5").into(),
    };
    output::print(&page.replace("@VERSION@", env!("CARGO_PKG_VERSION")))
}

fn verbs(command: &Command) -> String {
    fn describe(name: &str, command: &Command) -> String {
        let about = command.get_long_about().or(command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let own = format!(
            ".SS \"{name}\"\n.PP\n{}.\n{}",
            text(about.trim_end_matches('.')),
            options(command.clone().disable_help_flag(true))
        );
        let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
        let below = verbs.map(|verb| describe(&format!("{name} {}", verb.get_name()), verb));
        own + &below.collect::<String>()
    }
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let verbs = verbs.map(|verb| describe(&format!("ganglionctl {}", verb.get_name()), verb));
    verbs.collect()
}

/// Options and arguments of a command, without their heading.
fn options(command: Command) -> String {
    let mut made = Vec::new();
    // Writing to memory does not fail.
    let _ = Man::new(command).render_options_section(&mut made);
    let made = String::from_utf8_lossy(&made);
    let (_, entries) = made.split_once(".SH OPTIONS\n").unwrap_or_default();
    entries.into()
}

/// The entries of a table whose lines are a name, what stands `between`, and what it means.
fn table(lines: &str, between: &str) -> String {
    let lines = lines.lines();
    let entries = lines.filter_map(|line| line.trim().split_once(between));
    list(&entries.collect::<Vec<_>>())
}

fn list(entries: &[(&str, &str)]) -> String {
    let entries = entries
        .iter()
        .map(|(tag, what)| format!(".TP\n\\fB{}\\fR\n{}\n", text(tag), text(what)));
    entries.collect()
}

/// Filled, as roff takes it; what backquotes hold is bold.
fn text(words: &str) -> String {
    let words: Vec<_> = words.split_whitespace().collect();
    let escapes = [("\\", "\\\\"), ("-", "\\-"), ("'", "\\*(Aq"), (".", "\\&.")];
    let safe = escapes
        .iter()
        .fold(words.join(" "), |text, (of, to)| text.replace(of, to));
    let parts = safe.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.to_owned(),
        _ => format!("\\fB{part}\\fR"),
    });
    parts.collect()
}
