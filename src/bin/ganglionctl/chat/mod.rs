//! `ganglionctl chat`: a conversation, turn by turn. Errors are told, and it goes on.

mod command;
mod conversation;
mod lines;
mod transcript;

use clap::Parser;
use ganglion::bus::Frame;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client;
use crate::client::info::table;
use crate::client::options::Options;
use crate::client::screen::Screen;
use crate::client::thinking;
use crate::client::waiting::Waiting;
use crate::failure::{Exit, Failure};
use crate::output;
use command::Command;
pub(crate) use command::{COMMANDS, REST};
use conversation::{Conversation, Sent, Setting};
use lines::{Lines, Typed};

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
    let interrupt = signal(SignalKind::interrupt())
        .map_err(|error| Failure::new(Exit::Failed, format!("Ctrl-C: {error}")))?;
    let connection = client::connect(bus).await?;
    let conversation = Conversation::open(connection, arguments.setting.clone()).await?;
    let mut lines = Lines::open()?;
    let mut chat = Chat {
        conversation,
        options: arguments.options.clone(),
        interrupt,
        watched: lines.interactive(),
    };
    if chat.watched {
        output::print("/help lists the commands; Ctrl-D leaves.\n")?;
    }
    if chat.options.wants_thinking() {
        chat.wonder().await?;
    }
    loop {
        let typed;
        (lines, typed) = tokio::select! {
            read = next(lines) => read?,
            // Only where no editor has the keyboard does Ctrl-C arrive here.
            _ = chat.interrupt.recv() => return Err(Failure::quiet(Exit::Interrupted)),
        };
        let command = match &typed {
            Typed::Line(line) => Command::of(line),
            Typed::Text(text) if text.trim().is_empty() => Ok(Command::Nothing),
            Typed::Text(text) => Ok(Command::Say(text)),
            Typed::Interrupt => continue,
            Typed::End => break,
        };
        let done = match command {
            Ok(Command::Leave) => break,
            Ok(command) => chat.obey(command).await,
            Err(unknown) => Err(unknown),
        };
        if let Err(failure) = done {
            if failure.exit == Exit::Ok || chat.conversation.is_lost() {
                return Err(failure);
            }
            failure.tell();
        }
    }
    chat.conversation.close().await;
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

/// What commands work on.
struct Chat {
    conversation: Conversation,
    options: Options,
    interrupt: Signal,
    /// A person sits there, who may wonder why nothing comes.
    watched: bool,
}

impl Chat {
    async fn obey(&mut self, command: Command<'_>) -> Result<(), Failure> {
        match command {
            Command::Nothing | Command::Leave => Ok(()),
            Command::Help => output::print(&command::help()),
            Command::Options => {
                let given = self.options.given().into_iter();
                output::print(&table(given.map(|(name, value)| (name.into(), value))))
            }
            Command::Set(name, value) => self.set(name, value).await,
            Command::ShowSystem => {
                let system = self.conversation.system().unwrap_or_default();
                output::print(&format!("{system}\n"))
            }
            Command::System(text) => self.conversation.begin_with(text).await,
            Command::Save(file) => {
                let path = transcript::save(file, &self.conversation.history().await?)?;
                output::print(&format!("{}\n", path.display()))
            }
            Command::History => {
                output::print(&transcript::text(&self.conversation.history().await?))
            }
            Command::Undo => self.conversation.rewind().await,
            Command::Clear => self.conversation.clear().await,
            Command::New => self.conversation.begin_anew().await,
            Command::Say(text) => self.say(text).await,
        }
    }

    async fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Failure> {
        let set = self.options.set(name, value);
        set.map_err(|why| Failure::new(Exit::Usage, format!("/set {name}: {why}")))?;
        if name == "thinking" && self.options.wants_thinking() {
            self.wonder().await?;
        }
        Ok(())
    }

    /// Whether the model can think at all.
    async fn wonder(&self) -> Result<(), Failure> {
        let manager = client::manager(self.conversation.connection()).await?;
        thinking::tell_if_impossible(&manager).await;
        Ok(())
    }

    /// One turn: sends `text` and shows the answer.
    async fn say(&mut self, text: &str) -> Result<(), Failure> {
        let conversation = &mut self.conversation;
        let mut sent = conversation.send(text, self.options.fields()).await?;
        if let Sent::Forgotten = sent {
            output::tell("ganglionctl: the daemon has restarted; the conversation begins anew");
            sent = conversation.send(text, self.options.fields()).await?;
        }
        let Sent::Accepted(answer) = sent else {
            return Err(Failure::new(
                Exit::Unavailable,
                "the daemon keeps restarting; see journalctl -u gangliond",
            ));
        };
        let mut screen = Screen::new();
        let waiting = Waiting::new(!self.watched);
        let ending = answer
            .follow(waiting, &mut self.interrupt, |_, frame| match frame {
                Frame::Text { text, .. } => screen.show(text),
                Frame::Done { .. } => Ok(()),
            })
            .await;
        screen.end_line()?;
        ending.map(|_| ())
    }
}
