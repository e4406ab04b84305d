//! The command line.

use clap::{Parser, Subcommand};

use crate::failure::exit_codes;
use crate::{
    ask, bench, chat, completions, doctor, graph, hold, man, pull, score, sessions, setup, status,
    stored, tokenize, top,
};

/// Talk to the language model on this machine
#[derive(Debug, Parser)]
#[command(name = "ganglionctl", version, after_help = exit_codes())]
pub(crate) struct Cli {
    /// The message bus: system, session, or a D-Bus address [default: `$GANGLION_BUS`, or system]
    #[arg(long, global = true, value_name = "BUS")]
    pub(crate) bus: Option<String>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Ask one question and print the answer as it is made.
    ///
    /// Standard input that is no terminal belongs to the question: it is read to its end, at most 1 MiB of it, and comes
    /// after the words, or where - stands among them. An empty one adds nothing; a script that has a use of its own for
    /// its input gives </dev/null.
    ///
    /// The exit code is 1 if the answer is incomplete: the reason and the remedy are on standard error.
    Ask(ask::Arguments),
    /// Hold a conversation.
    ///
    /// What is typed is sent to the model, with all that was said before. Lines that begin with a slash are commands;
    /// /help lists them. A conversation outlives a restart of the daemon. Through a pipe the exit code is 1 if an answer or a
    /// command failed, or an answer is incomplete.
    Chat(chat::Arguments),
    /// List, show, export or delete conversations with a name.
    ///
    /// They are those of this user alone: ask and chat open them by --session, programs by OpenSession with the option name,
    /// and unless programs say otherwise the daemon keeps them on disk.
    Sessions(sessions::Arguments),
    /// Show what the daemon is doing.
    ///
    /// The exit code is 0 if it is ready, 75 while its model is being loaded, 78 if that has failed, and 69 if it stops or
    /// is not there.
    Status(status::Arguments),
    /// Show, save or reset the decode graph
    Graph(graph::Arguments),
    /// Keep requests off the device while a command runs.
    ///
    /// Without `--all` these are requests of priority background: for root and group ganglion-admin. An answer that has
    /// begun is suspended, and resumes after the command. The hold ends with the command, or after hold.max_seconds; then
    /// a line on standard error says so, and the command goes on. `ask`, `status` and `top` show the hold with its owner and
    /// its reason. The exit code is the command's: 128 and the number of the signal that ended it, 127 if it is not found,
    /// 126 if it cannot be run. The command gets the signals SIGINT, SIGQUIT, SIGTERM and SIGHUP.
    Hold(hold::Arguments),
    /// Have the daemon read its configuration again, and wait until it is in force
    Reload,
    /// Watch the daemon at work.
    ///
    /// State, model, speed, decode graph, queue and memory: in place in a terminal, else one line a reading. Tokens per
    /// second are those between two readings; times of steps are since the daemon's start. q and Ctrl-C end it.
    Top(top::Arguments),
    /// Fetch a model
    Pull(pull::Arguments),
    /// List the models that are here, or remove one.
    ///
    /// They are what is in the folder where pull puts them: name, size, the format of most of their weights, and which one
    /// is served, or would be after the next start.
    Models(stored::Arguments),
    /// Have the daemon serve another of them.
    ///
    /// Its path is written where setup writes, and the configuration is reloaded: requests go on meanwhile. How long and how
    /// many conversations are stays as it is; what then does not fit is refused, and the model from before stays.
    Use(setup::switch::Arguments),
    /// Write a configuration for this board's memory, and start the daemon with it
    Setup(setup::Arguments),
    /// Check what the daemon needs of this machine, and say what to do
    Doctor(doctor::Arguments),
    /// Print the ids of plain text.
    ///
    /// On one line: no token is put before it, and the spellings of special tokens are text.
    Tokenize(tokenize::Arguments),
    /// Score token ids, and compare the scores with a reference's
    Score(score::Arguments),
    /// Measure how fast a model runs on this machine.
    ///
    /// Prompts and steps, with random token ids; no tokenizer is loaded.
    Bench(bench::Arguments),
    /// Print what a shell needs to complete this command line
    Completions(completions::Arguments),
    /// Print a page of the manual, for packages
    #[command(hide = true)]
    Man(man::Arguments),
}
