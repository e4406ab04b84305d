//! The command line.

use clap::{Parser, Subcommand};

use crate::failure::EXIT_CODES;
use crate::{
    ask, bench, chat, completions, doctor, graph, man, pull, reload, score, setup, status,
    tokenize, top,
};

/// Talk to the language model on this machine
#[derive(Debug, Parser)]
#[command(name = "ganglionctl", version, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    /// The message bus: system, session, or a D-Bus address [default: `$GANGLION_BUS`, or system]
    #[arg(long, global = true, value_name = "BUS")]
    pub(crate) bus: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Ask one question and print the answer as it is made
    Ask(ask::Arguments),
    /// Hold a conversation
    Chat(chat::Arguments),
    /// Show what the daemon is doing
    Status(status::Arguments),
    /// Show, save or reset the decode graph
    Graph(graph::Arguments),
    /// Have the daemon read its configuration again, and wait until it is in force
    Reload(reload::Arguments),
    /// Watch the daemon at work
    Top(top::Arguments),
    /// Fetch a model
    Pull(pull::Arguments),
    /// Write a configuration for this board's memory, and start the daemon with it
    Setup(setup::Arguments),
    /// Check what the daemon needs of this machine, and say what to do
    Doctor(doctor::Arguments),
    /// Print the ids of plain text
    Tokenize(tokenize::Arguments),
    /// Score token ids, and compare the scores with a reference's
    Score(score::Arguments),
    /// Measure how fast a model runs on this machine
    Bench(bench::Arguments),
    /// Print what a shell needs to complete this command line
    Completions(completions::Arguments),
    /// Print a page of the manual, for packages
    #[command(hide = true)]
    Man(man::Arguments),
}
