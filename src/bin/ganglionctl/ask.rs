//! `ganglionctl ask`: one question, one answer, streamed as it is made.

use std::io::{self, IsTerminal as _, Read as _};

use clap::Parser;
use ganglion::bus::Frame;
use ganglion::bus::proxy::Fields;
use tokio::signal::unix::{SignalKind, signal};
use zbus::Variant;

use crate::client;
use crate::client::answer::{Answer, Ending};
use crate::client::options::Options;
use crate::client::screen::Screen;
use crate::failure::{Exit, Failure};
use crate::output;

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A system message, before the question
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    options: Options,
    /// Print the stream's frames, one JSON object a line
    #[arg(long)]
    json: bool,
    /// Print no receipt on standard error, nor how the reading of a long question goes
    #[arg(long, short)]
    quiet: bool,
    /// The question; - or nothing reads standard input
    text: Vec<String>,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    let question = question(&arguments.text)?;
    client::block_on(ask(bus, arguments, &question))
}

async fn ask(bus: Option<String>, arguments: &Arguments, question: &str) -> Result<Exit, Failure> {
    // Before the request: no Ctrl-C may fall between the two.
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(Exit::Failed, format!("Ctrl-C: {error}")))?;
    let messages: Vec<(&str, Fields<'_>)> = arguments
        .system
        .as_deref()
        .map(|system| ("system", system))
        .into_iter()
        .chain([("user", question)])
        .map(|(role, content)| (role, Fields::from([("content", Variant::from(content))])))
        .collect();
    let asked = async {
        let connection = client::connect(bus).await?;
        let manager = client::manager(&connection).await?;
        match manager
            .generate(&messages, arguments.options.fields())
            .await
        {
            Ok(accepted) => Answer::new(&connection, accepted).await,
            Err(error) => Err(client::not_accepted(&connection, error).await),
        }
    };
    let mut answer = tokio::select! {
        answer = asked => answer?,
        _ = interrupt.recv() => return Err(Failure::quiet(Exit::Interrupted)),
    };

    if !arguments.quiet {
        answer.tell_reading();
    }
    let mut screen = Screen::new();
    let ending = answer
        .follow(&mut interrupt, |line, frame| match frame {
            _ if arguments.json => output::print(&format!("{line}\n")),
            Frame::Text { text, .. } => screen.show(text),
            Frame::Done { .. } => Ok(()),
        })
        .await;
    screen.end_line()?;
    match ending? {
        Ending::Complete(receipt) => {
            if !arguments.quiet {
                eprintln!("{receipt}");
            }
            Ok(Exit::Ok)
        }
        Ending::Interrupted => Ok(Exit::Interrupted),
    }
}

/// The words of the command line, or standard input.
fn question(words: &[String]) -> Result<String, Failure> {
    let text = match words {
        [] if io::stdin().is_terminal() => {
            return Err(Failure::new(
                Exit::Usage,
                "give a question, or pipe one into standard input",
            ));
        }
        [] => read_input()?,
        [dash] if dash == "-" => read_input()?,
        words => words.join(" "),
    };
    if text.contains('\0') {
        return Err(Failure::new(
            Exit::Data,
            "the question holds a NUL character, which D-Bus cannot carry",
        ));
    }
    Ok(text)
}

fn read_input() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::new(Exit::Data, format!("standard input: {error}")))?;
    text.truncate(text.trim_end_matches(['\r', '\n']).len());
    Ok(text)
}
