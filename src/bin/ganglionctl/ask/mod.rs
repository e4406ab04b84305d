//! `ganglionctl ask`: one question, one answer, streamed as it is made.

mod question;

use clap::Parser;
use ganglion::bus::Frame;
use ganglion::bus::proxy::{Fields, ManagerProxy};
use tokio::signal::unix::{SignalKind, signal};
use zbus::Variant;

use crate::client;
use crate::client::answer::Answer;
use crate::client::options::Options;
use crate::client::screen::Screen;
use crate::client::thinking;
use crate::client::waiting::{Ask, Waiting};
use crate::failure::{Exit, Failure, OrFail as _, Outcome};
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A system message, before the question
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    options: Options,
    /// Print one JSON object at the end: text, finish_reason, seed, usage, and error and message if it failed
    #[arg(long)]
    json: bool,
    /// Print the stream's frames as they come, one JSON object a line
    #[arg(long, conflicts_with = "json")]
    frames: bool,
    /// Print no receipt on standard error, nor what is waited for
    #[arg(long, short)]
    quiet: bool,
    /// The question; - is standard input
    text: Vec<String>,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let question = question::read(&arguments.text, arguments.quiet)?;
    client::block_on(ask(bus, arguments, &question))
}

async fn ask(bus: Option<String>, arguments: &Arguments, question: &str) -> Outcome {
    // Before the request: no Ctrl-C may fall between the two.
    let mut interrupt = signal(SignalKind::interrupt()).or_fail(Exit::Failed, "Ctrl-C")?;
    let system = arguments.system.as_deref().map(|text| ("system", text));
    let messages = system.into_iter().chain([("user", question)]);
    let messages: Vec<_> = messages
        .map(|(role, content)| (role, Fields::from([("content", Variant::from(content))])))
        .collect();
    let wonders = arguments.options.wants_thinking();
    let asked = async {
        let connection = client::connect(bus).await?;
        let manager = ManagerProxy::new(&connection).await?;
        let known = !wonders || thinking::tell_if_impossible(&manager).await;
        let options = arguments.options.fields();
        match manager.generate(&messages, options).await {
            Ok(accepted) => {
                let answer = Answer::new(&connection, accepted).await?;
                Ok((answer, (!known).then_some(manager)))
            }
            Err(error) => Err(client::not_accepted(&connection, error).await),
        }
    };
    let mut waiting = Waiting::new(arguments.quiet);
    let (answer, wonders) = tokio::select! {
        answer = waiting.during(Ask::Nobody, asked) => answer?,
        _ = interrupt.recv() => return Err(Failure::quiet(Exit::Interrupted)),
    };

    let mut screen = Screen::new();
    let mut said = String::new();
    let answered = answer
        .follow(waiting, &mut interrupt, |line, frame| match frame {
            _ if arguments.frames => output::print(&format!("{line}\n")),
            _ if arguments.json => whole(&mut said, frame),
            Frame::Text { text, .. } => screen.show(text),
            Frame::Done { .. } => Ok(()),
        })
        .await;
    screen.end_line()?;
    if let Some(manager) = wonders {
        // It was being loaded when it was asked.
        thinking::tell_if_impossible(&manager).await;
    }
    let receipt = answered?;
    if !arguments.quiet && !arguments.json {
        output::tell(&receipt.to_string());
    }
    Ok(())
}

/// Keeps a piece of the answer in `said`; prints one JSON object after the last: that frame, with all that was said and with
/// the seed by which the same question has the same answer. Its keys are stable: scripts read them.
fn whole(said: &mut String, frame: &Frame) -> Outcome {
    match frame {
        Frame::Text { text, .. } => {
            said.push_str(text);
            Ok(())
        }
        Frame::Done { usage, .. } => {
            let mut whole = serde_json::to_value(frame).or_fail(Exit::Failed, "JSON")?;
            if let Some(whole) = whole.as_object_mut() {
                whole.retain(|key, _| key != "seq" && key != "done");
            }
            whole["text"] = said.as_str().into();
            whole["seed"] = usage.seed.into();
            output::print_json(&whole)
        }
    }
}
