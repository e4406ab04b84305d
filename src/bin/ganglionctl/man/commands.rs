//! gangliond(8) and ganglionctl(1), from their command lines.

use clap::builder::StyledStr;
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{bold, italic, roman};

use super::page::Page;
use crate::arguments::Cli;
use crate::chat;
use crate::failure::EXIT_CODES;

pub(super) fn gangliond() -> String {
    let mut page = Page::new(
        "gangliond",
        8,
        "keeps one language model warm and answers over D-Bus",
    );
    let command = ganglion::service::Arguments::command();
    page.section("SYNOPSIS").usage("gangliond", "[OPTIONS]");
    page.section("DESCRIPTION");
    page.paragraph(
        "gangliond loads the language model that its configuration names, keeps it in memory, and answers every \
         program on the machine over D-Bus, under the name org.ganglion.Llm1. It is a systemd service: `systemctl \
         start gangliond` returns once a token could be made, `systemctl reload gangliond` once a changed \
         configuration is in force, and a call starts it where it does not run. It opens no network connection.",
    );
    page.paragraph(
        "What it does is told by `systemctl status gangliond`, `ganglionctl status` and the journal; `journalctl -xu \
         gangliond` adds to each entry what it means and what to do. Prompts and answers are never written anywhere.",
    );
    options(&mut page, command, ".SH OPTIONS");
    exit_codes(&mut page, ganglion::service::EXIT_CODES);
    page.section("SIGNALS");
    page.entry(
        [bold("SIGTERM"), roman(", "), bold("SIGINT")],
        "No new requests; running ones get `stop.grace_seconds`, then every stream is ended. A second one ends the \
         grace: what still runs is cancelled at once.",
    );
    page.entry(
        [bold("SIGHUP")],
        "Reads the configuration again, as `systemctl reload gangliond` does; the journal tells how it went.",
    );
    page.section("JOURNAL");
    page.paragraph(
        "Every event has a MESSAGE_ID of its own, and of these fields those that apply: `journalctl -u gangliond -o \
         verbose` shows them, `-o json` gives them to programs. Of the events that a user's programs cause, 60 are told \
         at once, 20 of these only if something is wrong, and then one a second; what is left out is counted, and told \
         once a minute.",
    );
    for (field, what) in ganglion::journal::FIELDS {
        page.entry([bold(*field)], what);
    }
    page.section("FILES");
    for (file, what) in [
        (
            "/etc/ganglion/gangliond.toml",
            "The configuration: gangliond.toml(5).",
        ),
        (
            "/etc/ganglion/gangliond.toml.d/*.toml",
            "Drop-ins, read after it in the order of their names.",
        ),
        (
            "/var/lib/ganglion/models",
            "Where `ganglionctl pull` puts models.",
        ),
        (
            "/usr/share/dbus-1/system.d/org.ganglion.Llm1.conf",
            "Who may call: the group ganglion looks and asks, the group ganglion-admin also operates, others may nothing.",
        ),
    ] {
        page.entry([italic(file)], what);
    }
    page.see_also(&[
        "ganglionctl(1)",
        "gangliond.toml(5)",
        "org.ganglion.Llm1(5)",
        "systemctl(1)",
        "journalctl(1)",
    ])
}

pub(super) fn ganglionctl() -> String {
    let command = Cli::command();
    let mut page = Page::new(
        "ganglionctl",
        1,
        "talks to the language model on this machine, and looks after it",
    );
    page.section("SYNOPSIS")
        .usage("ganglionctl", "[OPTIONS] VERB ...");
    page.section("DESCRIPTION");
    page.paragraph(
        "ganglionctl asks gangliond(8) over D-Bus, measures models without it, fetches them, keeps them, and checks what \
         they need of the machine. Asking needs membership of the group ganglion.",
    );
    options(&mut page, command.clone(), ".SH OPTIONS");
    page.section("VERBS");
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("ganglionctl {}", verb.get_name());
        describe(&mut page, &name, verb);
        for part in verb.get_subcommands() {
            describe(&mut page, &format!("{name} {}", part.get_name()), part);
        }
    }
    page.section("COMMANDS OF CHAT");
    for (command, what) in chat::COMMANDS {
        page.entry([bold(*command)], &sentence_of(what));
    }
    page.paragraph(chat::REST);
    exit_codes(&mut page, EXIT_CODES);
    page.section("ENVIRONMENT");
    page.entry(
        [bold("GANGLION_BUS")],
        "The bus, where `--bus` is not given.",
    );
    page.entry(
        [bold("HF_TOKEN")],
        "Sent by `pull` with what it asks of Hugging Face, for models behind an agreement.",
    );
    page.entry(
        [bold("HF_ENDPOINT")],
        "A mirror, asked by `pull` instead of https://huggingface.co. The checksums of known models stay the same.",
    );
    page.entry(
        [bold("SSL_CERT_FILE"), roman(", "), bold("SSL_CERT_DIR")],
        "Certificates that `pull` trusts instead of the system's. Whoever owns the folder that it writes to must be \
         able to read them.",
    );
    page.section("EXAMPLES");
    page.example(
        "ganglionctl ask \"What is odometry?\"\njournalctl -b -p err | ganglionctl ask \"What went wrong?\"\n\
         ganglionctl status --wait=60 && ganglionctl ask --json hello\nsudo ganglionctl doctor\n\
         ganglionctl doctor --report report.txt\nsudo ganglionctl pull qwen3-4b\nsudo ganglionctl setup --model qwen3-4b\n\
         ganglionctl models\nsudo ganglionctl use qwen3-0.6b",
    );
    page.see_also(&["gangliond(8)", "gangliond.toml(5)", "org.ganglion.Llm1(5)"])
}

/// What clap_mangen makes of the options and arguments of a command, under `heading`.
fn options(page: &mut Page, command: Command, heading: &str) {
    const MADE: &str = ".SH OPTIONS";
    let mut made = Vec::new();
    // Writing to memory does not fail.
    let _ = Man::new(command).render_options_section(&mut made);
    let made = String::from_utf8_lossy(&made).into_owned();
    page.append(&made.replacen(MADE, heading, 1));
}

fn describe(page: &mut Page, name: &str, command: &Command) {
    page.subsection(name);
    page.paragraph(&sentence(command.get_long_about().or(command.get_about())));
    options(page, command.clone().disable_help_flag(true), ".PP");
}

fn sentence_of(what: &str) -> String {
    let mut letters = what.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

fn sentence(help: Option<&StyledStr>) -> String {
    let text = help.map(ToString::to_string).unwrap_or_default();
    format!("{}.", text.trim_end_matches(['.', ' ']))
}

/// Of a table whose lines are a number and what it means.
fn exit_codes(page: &mut Page, table: &str) {
    page.section("EXIT STATUS");
    for line in table.lines() {
        if let Some((code, meaning)) = line.trim().split_once("  ")
            && code.bytes().all(|byte| byte.is_ascii_digit())
        {
            page.entry([bold(code)], &format!("{}.", meaning.trim()));
        }
    }
}
