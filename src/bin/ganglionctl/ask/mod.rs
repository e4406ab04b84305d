//! `ganglionctl ask`: one question and its answer, which is printed as it is generated. Tools that the model calls are
//! run until it has answered.
//! Not here: options of an answer, and the stream (`client`).

mod collected;
mod program;
mod question;

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use ganglion::bus::Frame;
use ganglion::bus::proxy::{Fields, ManagerProxy, SessionProxy};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use zbus::Connection;

use crate::client::{
    self, Answer, Ask, Ended, Image, OpeningArguments, Options, Screen, Waiting, calls, images,
    text, unless_interrupted,
};
use crate::failure::{Exit, OrFail as _, Outcome, bail};
use crate::{output, view};
use collected::Collected;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    opening: OpeningArguments,
    #[command(flatten)]
    options: Options,
    /// Show the model the image in this file, before the question; may be given again
    #[arg(long = "image", value_name = "FILE")]
    images: Vec<PathBuf>,
    /// Run this program for each tool call, with the tool's name as argument and the arguments as JSON on standard
    /// input, and send its output to the model, until the model answers
    #[arg(long, value_name = "PROGRAM", requires = "tools")]
    call: Option<String>,
    /// Answers with tool calls, before it is an error
    #[arg(long, value_name = "N", default_value_t = 8, requires = "call")]
    rounds: usize,
    /// Print the probability of each token, and the N most probable tokens in its place
    #[arg(long, value_name = "N", conflicts_with = "call")]
    logprobs: Option<u32>,
    /// Print one JSON object at the end: text, finish_reason, seed, usage, reasoning, tool_calls, unchecked and
    /// logprobs where there are any, incomplete if an answer with a required format was cut off, and error and message
    /// if it failed
    #[arg(long)]
    json: bool,
    /// Print the stream's frames as they arrive, one JSON object a line
    #[arg(long, conflicts_with = "json")]
    frames: bool,
    /// Print neither the receipt nor progress nor the model's thoughts on standard error
    #[arg(long, short)]
    quiet: bool,
    /// The question; - is standard input
    text: Vec<String>,
}

/// A role, and fields of texts.
type Message = (&'static str, Fields<'static>);

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let opening = arguments.opening.named_opening()?;
    let images = arguments.images.iter().map(|path| Image::open(path));
    let images: Vec<_> = images.collect::<Outcome<_>>()?;
    let question = question::read(&arguments.text, arguments.quiet)?;
    // Installed before the request, so that no Ctrl-C is missed.
    let mut interrupt = signal(SignalKind::interrupt()).or_fail(Exit::Failed, "Ctrl-C")?;
    let mut waiting = Waiting::new(arguments.quiet);
    let connecting = waiting.during(Ask::Unaccepted, client::connect(bus));
    let connection = unless_interrupted(&mut interrupt, connecting).await?;
    let message = |role, text: String| (role, Fields::from([("content", text.into())]));
    let question = ("user", images::message(&images, question)?);
    if opening.name.is_none() {
        let system = opening.system.map(|text| message("system", text));
        let messages = system.into_iter().chain([question]).collect();
        let asked = Asked::Once(&connection);
        return converse(&asked, messages, arguments, &mut interrupt).await;
    }
    let opened = waiting.during(Ask::Unaccepted, opening.open(&connection));
    let session = unless_interrupted(&mut interrupt, opened).await?;
    let asked = Asked::Turn(&connection, &session);
    let answered = converse(&asked, vec![question], arguments, &mut interrupt).await;
    // Closing makes the session available to the next command.
    let _ = timeout(CLOSE_WAIT, session.close()).await;
    answered
}

/// The longest time that the client waits for the daemon to release a session.
const CLOSE_WAIT: Duration = Duration::from_secs(2);

/// The source of answers.
enum Asked<'a> {
    /// `Generate`, with all messages.
    Once(&'a Connection),
    /// A session, which remembers messages.
    Turn(&'a Connection, &'a SessionProxy<'static>),
}

impl Asked<'_> {
    const fn connection(&self) -> &Connection {
        let (Self::Once(connection) | Self::Turn(connection, _)) = self;
        connection
    }

    async fn ask(&self, messages: &[Message], options: Fields<'_>) -> Outcome<Answer> {
        let connection = self.connection();
        let returned = match self {
            Self::Once(_) => {
                let manager = ManagerProxy::new(connection).await?;
                manager.generate(messages, options).await
            }
            Self::Turn(_, session) => session.reply(messages, options).await,
        };
        Answer::new(connection, returned).await
    }
}

/// Asks, and runs the tools that the model calls, until it answers.
async fn converse(
    asked: &Asked<'_>,
    mut messages: Vec<Message>,
    arguments: &Arguments,
    interrupt: &mut Signal,
) -> Outcome {
    let mut options = arguments.options.clone();
    for _ in 0..arguments.rounds.max(1) {
        let (ended, collected) = answer(asked, (&messages, &options), arguments, interrupt).await?;
        ended.whole()?;
        let (Some(program), Some(made)) = (&arguments.call, &collected.calls) else {
            return Ok(());
        };
        let calls = made.to_string();
        let mut said = Fields::from([
            ("content", collected.text.into()),
            ("tool_calls", calls.into()),
        ]);
        if !collected.reasoning.is_empty() {
            said.insert("reasoning", collected.reasoning.into());
        }
        match asked {
            Asked::Once(_) => messages.push(("assistant", said)),
            Asked::Turn(..) => messages.clear(),
        }
        for call in made.as_array().into_iter().flatten() {
            let running = program::run(program, call, arguments.quiet);
            let result = unless_interrupted(interrupt, running).await?;
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

/// Shows one answer as it arrives.
async fn answer(
    asked: &Asked<'_>,
    (messages, options): (&[Message], &Options),
    arguments: &Arguments,
    interrupt: &mut Signal,
) -> Outcome<(Ended, Collected)> {
    let asking = async {
        let manager = ManagerProxy::new(asked.connection()).await?;
        let known = !options.wants_thinking() || client::warn_if_it_cannot_think(&manager).await;
        let mut options = options.fields();
        if let Some(logprobs) = arguments.logprobs {
            options.insert("logprobs", logprobs.into());
        }
        let answer = asked.ask(messages, options).await?;
        Ok((answer, (!known).then_some(manager)))
    };
    let mut waiting = Waiting::new(arguments.quiet).with(options);
    let asking = waiting.during(Ask::Unaccepted, asking);
    let (answer, wonders) = unless_interrupted(interrupt, asking).await?;

    let mut screen = Screen::default();
    let mut collected = Collected::default();
    let answered = answer
        .follow(waiting, interrupt, |line, frame| {
            collected.add(frame);
            if arguments.frames {
                output::print(&format!("{line}\n"))
            } else if arguments.json {
                match frame {
                    // With --call, only the last answer's object is printed.
                    Frame::Done { .. } if arguments.call.is_none() || collected.calls.is_none() => {
                        output::print_json(&collected.whole(frame)?)
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
        // The model may have been loading when it was asked.
        client::warn_if_it_cannot_think(&manager).await;
    }
    let ended = answered?;
    if !arguments.json && !arguments.frames {
        if let (Some(calls), None) = (&collected.calls, &arguments.call) {
            output::print(&calls::lines(calls))?;
        }
        if arguments.logprobs.is_some() {
            // A line for each token: its probability, and the most probable tokens.
            view::print(false, include_str!("likelihoods.txt"), &collected.logprobs)?;
        }
    }
    if !arguments.quiet && !arguments.json && !collected.unchecked.is_empty() {
        output::note(&format!("not checked: {}", collected.unchecked.join(", ")));
    }
    if !arguments.quiet && !arguments.json {
        output::note(&ended.receipt.to_string());
    }
    Ok((ended, collected))
}
