//! `ganglionctl ask`: one question, one answer, streamed as it is made; where the model calls tools, until it has answered.

mod heard;
mod program;
mod question;

use clap::Parser;
use ganglion::bus::Frame;
use ganglion::bus::proxy::{Fields, ManagerProxy};
use tokio::signal::unix::{Signal, SignalKind, signal};
use zbus::Connection;

use crate::client::{self, Answer, Ask, Options, Screen, Waiting, calls, text};
use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail};
use crate::{output, view};
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
type Message = (&'static str, Fields<'static>);

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let question = question::read(&arguments.text, arguments.quiet)?;
    // It comes before the request: no Ctrl-C may fall between the two.
    let mut interrupt = signal(SignalKind::interrupt()).or_fail(Exit::Failed, "Ctrl-C")?;
    let mut waiting = Waiting::new(arguments.quiet);
    let connecting = waiting.during(Ask::Nobody, client::connect(bus));
    let connection = unless_interrupted(&mut interrupt, connecting).await?;
    let system = arguments.system.iter().map(|text| ("system", text.clone()));
    let messages = system.chain([("user", question)]);
    let mut messages: Vec<Message> = messages
        .map(|(role, text)| (role, Fields::from([("content", text.into())])))
        .collect();
    let mut options = arguments.options.clone();
    for _ in 0..arguments.rounds.max(1) {
        let asked = (&messages[..], &options);
        let heard = answer(&connection, asked, arguments, &mut interrupt).await?;
        let (Some(program), Some(made)) = (&arguments.call, &heard.calls) else {
            return Ok(());
        };
        let calls = made.to_string();
        let mut said = Fields::from([("content", heard.text.into()), ("tool_calls", calls.into())]);
        if !heard.reasoning.is_empty() {
            said.insert("reasoning", heard.reasoning.into());
        }
        messages.push(("assistant", said));
        for call in made.as_array().into_iter().flatten() {
            let running = program::run(program, call, arguments.quiet);
            let result = unless_interrupted(&mut interrupt, running).await?;
            let id = text(&call["id"]).to_owned();
            let said = [("content", result.into()), ("tool_call_id", id.into())];
            messages.push(("tool", said.into()));
        }
        options.choose_freely();
    }
    bail!(
        Failed: "the model still calls tools after {} answers: give more --rounds, or a clearer question", arguments.rounds
    )
}

/// What comes of `future`, unless Ctrl-C comes first.
async fn unless_interrupted<T>(
    interrupt: &mut Signal,
    future: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    tokio::select! {
        done = future => done,
        _ = interrupt.recv() => Err(Failure::quiet(Exit::Interrupted)),
    }
}

/// Shows one answer as it comes.
async fn answer(
    connection: &Connection,
    (messages, options): (&[Message], &Options),
    arguments: &Arguments,
    interrupt: &mut Signal,
) -> Outcome<Heard> {
    let asked = async {
        let manager = ManagerProxy::new(connection).await?;
        let known = !options.wants_thinking() || client::tell_if_it_cannot_think(&manager).await;
        let mut options = options.fields();
        if let Some(logprobs) = arguments.logprobs {
            options.insert("logprobs", logprobs.into());
        }
        let returned = manager.generate(messages, options).await;
        let answer = Answer::new(connection, returned).await?;
        Ok((answer, (!known).then_some(manager)))
    };
    let mut waiting = Waiting::new(arguments.quiet).with(options);
    let asking = waiting.during(Ask::Nobody, asked);
    let (answer, wonders) = unless_interrupted(interrupt, asking).await?;

    let mut screen = Screen::default();
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
        client::tell_if_it_cannot_think(&manager).await;
    }
    let receipt = answered?;
    if !arguments.json && !arguments.frames {
        if let (Some(calls), None) = (&heard.calls, &arguments.call) {
            output::print(&calls::lines(calls))?;
        }
        if arguments.logprobs.is_some() {
            // A line for each token: how probable it was, and the most probable ones in its place.
            view::print(false, include_str!("likelihoods.txt"), &heard.logprobs)?;
        }
    }
    if !arguments.quiet && !arguments.json {
        output::tell(&receipt.to_string());
    }
    Ok(heard)
}
