//! `ganglionctl`: the command line. `ask`, `chat`, `sessions`, `status`, `graph`, `hold`, `reload`, `release` and `top` are plain
//! D-Bus clients. `openai` prints what clients of the HTTP API need. `tokenize`, `score` and `bench` open a model
//! themselves. `doctor`, `verify`, `pull`, `models`, `setup` and `use` prepare and check the machine. `man` prints the manual.

mod arguments;
mod ask;
mod bench;
mod chat;
mod checksum;
mod choice;
mod client;
mod completions;
mod doctor;
mod failure;
mod graph;
mod hold;
mod man;
mod models;
mod offline;
mod openai;
mod output;
mod pull;
mod release;
mod reload;
mod score;
mod sessions;
mod setup;
mod status;
mod stored;
mod tokenize;
mod top;
mod verify;
mod view;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use arguments::{Cli, Verb};
use failure::Outcome;

fn main() -> ExitCode {
    if let Some(code) =
        ganglion::confined::run_if_asked(&[ganglion::model::chat::TASK, ganglion::guide::TASK])
    {
        return code;
    }
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(failure) => {
            output::print_failure(&failure);
            ExitCode::from(failure.exit as u8)
        }
    }
}

/// Runs a verb, and returns its exit code.
fn run(Cli { bus, verb }: Cli) -> Outcome<ExitCode> {
    let done = match verb {
        Verb::Hold(arguments) => return client::block_on(hold::run(bus, &arguments)),
        Verb::Ask(arguments) => client::block_on(ask::run(bus, &arguments)),
        Verb::Chat(arguments) => client::block_on(chat::run(bus, &arguments)),
        Verb::Status(arguments) => client::block_on(status::run(bus, &arguments)),
        Verb::Graph(arguments) => client::block_on(graph::run(bus, &arguments)),
        Verb::Sessions(arguments) => client::block_on(sessions::run(bus, &arguments)),
        Verb::Openai(arguments) => openai::run(&arguments),
        Verb::Reload => client::block_on(reload::run(bus)),
        Verb::Release => client::block_on(release::run(bus)),
        Verb::Top(arguments) => client::block_on(top::run(bus, &arguments)),
        Verb::Pull(arguments) => pull::run(&arguments),
        Verb::Setup(arguments) => setup::run(&arguments),
        Verb::Models(arguments) => stored::run(bus, &arguments),
        Verb::Use(arguments) => setup::switch::run(bus, &arguments),
        Verb::Doctor(arguments) => doctor::run(bus, &arguments),
        Verb::Verify(arguments) => verify::run(bus, &arguments),
        Verb::Tokenize(arguments) => tokenize::run(&arguments),
        Verb::Score(arguments) => score::run(&arguments),
        Verb::Bench(arguments) => bench::run(&arguments),
        Verb::Completions(arguments) => completions::run(&arguments, Cli::command()),
        Verb::Man(arguments) => man::run(&arguments, &Cli::command()),
    };
    done.map(|()| ExitCode::SUCCESS)
}
