//! `ganglionctl ask`: one question, one answer, streamed as it is made; where the model calls tools, until it has answered.

mod heard;
mod program;
mod question;

use clap::Parser;
use ganglion::bus::Frame;
use ganglion::bus::proxy::{Fields, ManagerProxy};
use tokio::signal::unix::{Signal, SignalKind, signal};
use zbus::{Connection, Variant};

use crate::client;
use crate::client::answer::Answer;
use crate::client::calls;
use crate::client::options::Options;
use crate::client::screen::Screen;
use crate::client::thinking;
use crate::client::waiting::{Ask, Waiting};
use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail};
use crate::output;
use heard::Heard;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A system message, before the question
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    options: Options,
    /// Run this program for each call of a tool, with the name as argument and the arguments as JSON on standard input, and
    /// tell the model what it prints, until it answers
    #[arg(long, value_name = "PROGRAM", requires = "tools")]
    call: Option<String>,
    /// Answers that may call, before it is an error
    #[arg(long, value_name = "N", default_value_t = 8, requires = "call")]
    rounds: usize,
    /// Print how probable each token was, and so many others in its place
    #[arg(long, value_name = "N", conflicts_with = "call")]
    logprobs: Option<u32>,
    /// Print one JSON object at the end: text, finish_reason, seed, usage, reasoning, tool_calls and logprobs where there are
    /// any, incomplete if what was to fit was cut off, and error and message if it failed
    #[arg(long)]
    json: bool,
    /// Print the stream's frames as they come, one JSON object a line
    #[arg(long, conflicts_with = "json")]
    frames: bool,
    /// Print no receipt on standard error, nor what is waited for, nor what the model thinks
    #[arg(long, short)]
    quiet: bool,
    /// The question; - is standard input
    text: Vec<String>,
}

/// A role, and fields of texts.
type Message = (&'static str, Vec<(&'static str, String)>);

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let question = question::read(&arguments.text, arguments.quiet)?;
    client::block_on(ask(bus, arguments, question))
}

async fn ask(bus: Option<String>, arguments: &Arguments, question: String) -> Outcome {
    // It comes before the request: no Ctrl-C may fall between the two.
    let mut interrupt = signal(SignalKind::interrupt()).or_fail(Exit::Failed, "Ctrl-C")?;
    let system = arguments.system.clone().map(|text| ("system", text));
    let messages = system.into_iter().chain([("user", question)]);
    let mut messages: Vec<Message> = messages
        .map(|(role, text)| (role, vec![("content", text)]))
        .collect();
    let mut options = arguments.options.clone();
    let mut connection = None;
    for _ in 0..arguments.rounds.max(1) {
        let whom = (bus.clone(), connection.take());
        let asked = (&messages[..], &options);
        let (at, heard) = answer(whom, asked, arguments, &mut interrupt).await?;
        let (Some(program), Some(made)) = (&arguments.call, &heard.calls) else {
            return Ok(());
        };
        let mut said = vec![("content", heard.text), ("tool_calls", made.to_string())];
        if !heard.reasoning.is_empty() {
            said.push(("reasoning", heard.reasoning));
        }
        messages.push(("assistant", said));
        for call in made.as_array().into_iter().flatten() {
            let result = tokio::select! {
                result = program::run(program, call, arguments.quiet) => result?,
                _ = interrupt.recv() => return Err(Failure::quiet(Exit::Interrupted)),
            };
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            messages.push(("tool", vec![("content", result), ("tool_call_id", id)]));
        }
        options.choose_freely();
        connection = Some(at);
    }
    bail!(
        Failed,
        "the model still calls tools after {} answers: give more --rounds, or a clearer question",
        arguments.rounds
    )
}

/// Shows one answer as it comes, over the connection, or one that it makes to that bus.
async fn answer(
    (bus, connection): (Option<String>, Option<Connection>),
    (messages, options): (&[Message], &Options),
    arguments: &Arguments,
    interrupt: &mut Signal,
) -> Outcome<(Connection, Heard)> {
    let messages: Vec<_> = messages
        .iter()
        .map(|(role, fields)| {
            let fields = fields.iter();
            let fields = fields.map(|(name, text)| (*name, Variant::from(text.as_str())));
            (*role, fields.collect::<Fields<'_>>())
        })
        .collect();
    let wonders = options.wants_thinking();
    let asked = async {
        let connection = match connection {
            Some(connection) => connection,
            None => client::connect(bus).await?,
        };
        let manager = ManagerProxy::new(&connection).await?;
        let known = !wonders || thinking::tell_if_impossible(&manager).await;
        let mut options = options.fields();
        if let Some(logprobs) = arguments.logprobs {
            options.insert("logprobs", logprobs.into());
        }
        match manager.generate(&messages, options).await {
            Ok(accepted) => {
                let answer = Answer::new(&connection, accepted).await?;
                Ok((connection, answer, (!known).then_some(manager)))
            }
            Err(error) => Err(client::not_accepted(&connection, error).await),
        }
    };
    let mut waiting = Waiting::new(arguments.quiet);
    let (connection, answer, wonders) = tokio::select! {
        answer = waiting.during(Ask::Nobody, asked) => answer?,
        _ = interrupt.recv() => return Err(Failure::quiet(Exit::Interrupted)),
    };

    let mut screen = Screen::new();
    let mut heard = Heard::default();
    let answered = answer
        .follow(waiting, interrupt, |line, frame| {
            heard.hear(frame);
            if arguments.frames {
                output::print(&format!("{line}\n"))
            } else if arguments.json {
                match frame {
                    // Where calls are run, there is one object, of the last answer.
                    Frame::Done { .. } if arguments.call.is_none() || heard.calls.is_none() => {
                        output::print_json(&heard.whole(frame)?)
                    }
                    _ => Ok(()),
                }
            } else {
                screen.show_frame(frame, arguments.quiet)
            }
        })
        .await;
    screen.end_line()?;
    if let Some(manager) = wonders {
        // It was being loaded when it was asked.
        thinking::tell_if_impossible(&manager).await;
    }
    let receipt = answered?;
    if !arguments.json && !arguments.frames {
        if let (Some(calls), None) = (&heard.calls, &arguments.call) {
            output::print(&calls::lines(calls))?;
        }
        if arguments.logprobs.is_some() {
            output::print(&heard.likelihoods()?)?;
        }
    }
    if !arguments.quiet && !arguments.json {
        output::tell(&receipt.to_string());
    }
    Ok((connection, heard))
}
