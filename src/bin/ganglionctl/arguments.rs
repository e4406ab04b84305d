//! The command line.

use clap::{Parser, Subcommand};

use crate::failure::exit_codes;
use crate::{
    ask, bench, chat, completions, doctor, graph, hold, man, openai, pull, score, sessions, setup,
    status, stored, tokenize, top, verify,
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
    /// Ask one question and print the answer as it is generated.
    ///
    /// Standard input that is not a terminal is part of the question. It is read to its end, at most 1 MiB, and follows
    /// the words, or replaces a - among them. An empty input adds nothing. A script that uses its standard input
    /// otherwise redirects it: </dev/null.
    ///
    /// The exit code is 1 if the answer is incomplete: the reason and the remedy are on standard error.
    Ask(ask::Arguments),
    /// Hold a conversation.
    ///
    /// Each line is sent to the model with the conversation before it. Lines that begin with a slash are commands;
    /// /help lists them. A conversation survives a restart of the daemon. Through a pipe, the exit code is 1 if an
    /// answer or a command failed, or an answer is incomplete.
    Chat(chat::Arguments),
    /// List, show, export or delete named conversations.
    ///
    /// Only those of this user: ask and chat open them by --session, programs by OpenSession with the option name.
    /// Unless a program sets another option, the daemon keeps them on disk.
    Sessions(sessions::Arguments),
    /// Show the daemon's state.
    ///
    /// The exit code is 0 if it is ready, or if it loads its model for the next request (state idle). It is 75 while it
    /// loads its model, 78 if that has failed, and 69 if it is stopping or not running.
    Status(status::Arguments),
    /// Show, save or reset the decode graph
    Graph(graph::Arguments),
    /// Keep requests off the device while a command runs.
    ///
    /// Without `--all`, this applies to requests of priority background, and root and group ganglion-admin may use it.
    /// An answer that has begun is suspended, and resumes after the command. The hold ends with the command, or after
    /// hold.max_seconds; then a line on standard error reports it, and the command continues. `ask`, `status` and `top`
    /// show the hold with its owner and its reason. The exit code is the command's: 128 and the number of the signal
    /// that ended it, 127 if it is not found, 126 if it cannot be run. The command gets the signals SIGINT, SIGQUIT,
    /// SIGTERM and SIGHUP.
    Hold(hold::Arguments),
    /// Show how programs that use OpenAI's API reach the daemon.
    ///
    /// Prints the base URL, the socket, and lines for Python and curl. The exit code is 69 if the socket does not exist, and
    /// 77 if this user may not open it; the remedy is on standard error.
    Openai(openai::Arguments),
    /// Reload the daemon's configuration, and wait until it is active
    Reload,
    /// Release the memory of the model until a request needs it.
    ///
    /// For a robot that needs the memory for something else. The daemon stays on the bus, and the next request loads
    /// the model again. Root and group ganglion-admin may use it. The exit code is 75 while requests run or wait.
    Release,
    /// Watch the daemon at work.
    ///
    /// Shows state, model, speed, decode graph, queue and memory: in place in a terminal, otherwise one line a reading.
    /// Tokens per second are those between two readings; times of steps are since the daemon's start. q and Ctrl-C end
    /// it.
    Top(top::Arguments),
    /// Fetch a model
    Pull(pull::Arguments),
    /// List the downloaded models, or remove one.
    ///
    /// The list has the models in the folder of pull: name, size, the format of most of their weights, and which one
    /// the daemon serves, or would serve after its next start.
    Models(stored::Arguments),
    /// Switch to another downloaded model.
    ///
    /// Its path is written to the drop-in of setup, and the configuration is reloaded while requests continue. The
    /// length and number of conversations stay. A model that does not fit with them is refused, and the daemon keeps
    /// the previous one.
    Use(setup::switch::Arguments),
    /// Write a configuration for this board's memory, and start the daemon with it
    Setup(setup::Arguments),
    /// Check this machine for everything that the daemon needs, with remedies
    Doctor(doctor::Arguments),
    /// Check on a board what no other machine can check, and write one file to send.
    ///
    /// It takes about ten minutes, needs no network and changes no setting. The checks are of memory, kernels, speed and
    /// the service: each prints what is expected and observed, and PASS, FAIL or NOT RUN with the reason. The daemon's
    /// model is unloaded, requests wait meanwhile, and the service is reloaded, restarted and killed. As root the checks of the device run as
    /// the service's user in the sandbox of the unit. Other users get fewer checks. The exit code is 1 if a check failed.
    Verify(verify::Arguments),
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
