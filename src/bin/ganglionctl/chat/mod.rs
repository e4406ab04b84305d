//! `ganglionctl chat`: a conversation, turn by turn. Errors are told, and it goes on.

mod conversation;
mod lines;
mod transcript;

use clap::Parser;
use ganglion::bus::Frame;
use ganglion::bus::proxy::ManagerProxy;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client::{self, Options, Screen, Waiting, calls};
use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail, failure};
use crate::{output, view};
use conversation::Conversation;
use lines::{Lines, Typed};

/// The lines for this program, which /help and the manual list: each begins with a slash.
pub(crate) const COMMANDS: &str = include_str!("commands.txt");

/// What follows the list.
pub(crate) const REST: &str =
    "Ctrl-C cancels an answer; what there is of it stays. Any other line is sent to the model.\n";

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    /// A system message, before the first turn
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let interrupt = signal(SignalKind::interrupt()).or_fail(Exit::Failed, "Ctrl-C")?;
    let connection = client::connect(bus).await?;
    let mut lines = Lines::open()?;
    let mut chat = Chat {
        conversation: Conversation::open(connection, arguments.system.clone()).await?,
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
        let done = match typed {
            Typed::Line(line) => match cut(line.trim()) {
                ("/bye" | "/quit" | "/exit", None) => break,
                (command, rest) if command.starts_with('/') => chat.obey(command, rest).await,
                _ => chat.say(line.trim()).await,
            },
            Typed::Text(text) => chat.say(&text).await,
            Typed::Interrupt => continue,
            Typed::End => break,
        };
        if let Err(failure) = done {
            if failure.exit == Exit::Ok || chat.conversation.connection.is_closed() {
                return Err(failure);
            }
            output::tell_failure(&failure);
        }
    }
    // The daemon closes what a client leaves behind.
    let _ = chat.conversation.session.close().await;
    Ok(())
}

/// The first word, and what follows it.
fn cut(text: &str) -> (&str, Option<&str>) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, Some(rest.trim())),
        None => (text, None),
    }
}

/// Reads the next line while the connection stays alive.
async fn next(mut lines: Lines) -> Outcome<(Lines, Typed)> {
    let reading = tokio::task::spawn_blocking(move || {
        let typed = lines.read()?;
        Ok((lines, typed))
    });
    reading.await.or_fail(Exit::Failed, "standard input")?
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
    async fn obey(&mut self, command: &str, rest: Option<&str>) -> Outcome {
        let session = &self.conversation.session;
        match (command, rest) {
            ("/help" | "/?", None) => output::print(&(view::aligned(COMMANDS) + REST))?,
            ("/set", None) => output::print(&self.options.table())?,
            ("/set", Some(rest)) => {
                let (name, value) = cut(rest);
                let set = self.options.set(name, value);
                set.map_err(|why| failure!(Usage: "/set {name}: {why}"))?;
                if name == "thinking" && self.options.wants_thinking() {
                    self.wonder().await?;
                }
            }
            ("/system", None) => {
                let system = self.conversation.system.as_deref().unwrap_or_default();
                output::print(&format!("{system}\n"))?;
            }
            ("/system", Some("\"\"")) => self.conversation.begin_with(None).await?,
            ("/system", Some(text)) => self.conversation.begin_with(Some(text.into())).await?,
            ("/save", Some(file)) => {
                let path = transcript::save(file, &session.history().await?)?;
                output::print(&format!("{}\n", path.display()))?;
            }
            ("/save", None) => bail!(Usage: "/save: name a file"),
            ("/history", None) => output::print(&transcript::text(&session.history().await?))?,
            ("/undo", None) => session.rewind(1).await?,
            ("/clear", None) => session.clear().await?,
            ("/new", None) => self.conversation.begin_anew().await?,
            _ => {
                let rest = rest.map(|rest| format!(" {rest}")).unwrap_or_default();
                bail!(Usage: "{command}{rest}: no such command; /help lists them");
            }
        }
        Ok(())
    }

    /// Whether the model can think at all.
    async fn wonder(&self) -> Outcome {
        let manager = ManagerProxy::new(&self.conversation.connection).await?;
        client::tell_if_it_cannot_think(&manager).await;
        Ok(())
    }

    /// One turn: sends `text`, if there is any, and shows the answer.
    async fn say(&mut self, text: &str) -> Outcome {
        if text.trim().is_empty() {
            return Ok(());
        }
        let conversation = &mut self.conversation;
        let mut answer = conversation.send(text, self.options.fields()).await?;
        if answer.is_none() {
            output::tell("ganglionctl: the daemon has restarted; the conversation begins anew");
            answer = conversation.send(text, self.options.fields()).await?;
        }
        let Some(answer) = answer else {
            bail!(Unavailable: "the daemon keeps restarting; see journalctl -u gangliond");
        };
        let mut screen = Screen::default();
        let waiting = Waiting::new(!self.watched).with(&self.options);
        let answered = answer
            .follow(waiting, &mut self.interrupt, |_, frame| {
                screen.show_frame(frame, false)?;
                if let Frame::Done {
                    tool_calls: Some(calls),
                    ..
                } = frame
                {
                    screen.end_line()?;
                    output::print(&calls::lines(calls))?;
                }
                Ok(())
            })
            .await;
        screen.end_line()?;
        answered.map(drop)
    }
}
