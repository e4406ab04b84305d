//! `ganglionctl chat`: a conversation, turn by turn. Errors are told, and it goes on.

mod conversation;
mod lines;

use clap::Parser;
use ganglion::bus::Frame;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client;
use crate::client::options::Options;
use crate::client::screen::Screen;
use crate::failure::{Exit, Failure};
use crate::output;
use conversation::{Conversation, Sent, Setting};
use lines::{Lines, Typed};

const HELP: &str = "/help     this list
/history  what was said so far
/undo     take back the last turn and its answer
/clear    take back all turns; the system message stays
/new      forget the conversation and begin another
/quit     leave, as Ctrl-D does
Ctrl-C cancels an answer; what there is of it stays. Any other line is sent to the model.
";

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    setting: Setting,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(bus: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    client::block_on(chat(bus, arguments))
}

async fn chat(bus: Option<String>, arguments: &Arguments) -> Result<Exit, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(Exit::Failed, format!("Ctrl-C: {error}")))?;
    let connection = client::connect(bus).await?;
    let mut conversation = Conversation::open(connection, arguments.setting.clone()).await?;
    let mut lines = Lines::open()?;
    if lines.interactive() {
        output::print("/help lists the commands; Ctrl-D leaves.\n")?;
    }
    loop {
        let typed;
        (lines, typed) = tokio::select! {
            read = next(lines) => read?,
            // Only where no editor has the keyboard does Ctrl-C arrive here.
            _ = interrupt.recv() => return Err(Failure::quiet(Exit::Interrupted)),
        };
        let line = match typed {
            Typed::Line(line) => line,
            Typed::Interrupt => continue,
            Typed::End => break,
        };
        let turn = match line.trim() {
            "" => Ok(()),
            "/quit" => break,
            "/help" => output::print(HELP),
            "/history" => show(&conversation).await,
            "/undo" => conversation.rewind().await,
            "/clear" => conversation.clear().await,
            "/new" => conversation.begin_anew().await,
            command if command.starts_with('/') => Err(Failure::new(
                Exit::Usage,
                format!("{command}: no such command; /help lists them"),
            )),
            text => say(&mut conversation, text, &arguments.options, &mut interrupt).await,
        };
        if let Err(failure) = turn {
            if failure.exit == Exit::Ok || conversation.is_lost() {
                return Err(failure);
            }
            failure.tell();
        }
    }
    conversation.close().await;
    Ok(Exit::Ok)
}

/// Reads the next line while the connection stays alive.
async fn next(mut lines: Lines) -> Result<(Lines, Typed), Failure> {
    let reading = tokio::task::spawn_blocking(move || {
        let typed = lines.read()?;
        Ok((lines, typed))
    });
    reading
        .await
        .map_err(|error| Failure::new(Exit::Failed, format!("standard input: {error}")))?
}

/// One turn: sends `text` and shows the answer.
async fn say(
    conversation: &mut Conversation,
    text: &str,
    options: &Options,
    interrupt: &mut Signal,
) -> Result<(), Failure> {
    let mut sent = conversation.send(text, options.fields()).await?;
    if let Sent::Forgotten = sent {
        eprintln!("ganglionctl: the daemon has restarted; the conversation begins anew");
        sent = conversation.send(text, options.fields()).await?;
    }
    let Sent::Accepted(answer) = sent else {
        return Err(Failure::new(
            Exit::Unavailable,
            "the daemon keeps restarting; see journalctl -u gangliond",
        ));
    };
    let mut screen = Screen::new();
    let ending = answer
        .follow(interrupt, |_, frame| match frame {
            Frame::Text { text, .. } => screen.show(text),
            Frame::Done { .. } => Ok(()),
        })
        .await;
    screen.end_line()?;
    ending.map(|_| ())
}

async fn show(conversation: &Conversation) -> Result<(), Failure> {
    let mut screen = Screen::new();
    for (role, text) in conversation.history().await? {
        screen.show(&format!("{role}: {text}"))?;
        screen.end_line()?;
    }
    Ok(())
}
