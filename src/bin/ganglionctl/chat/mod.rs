//! `ganglionctl chat`: a conversation, turn by turn. Errors are reported and the conversation continues; in a pipe the
//! exit code also reports them.
//! Not here: options of an answer, and the stream (`client`).

mod conversation;
mod lines;
mod transcript;

use std::path::Path;

use clap::{Parser, ValueEnum as _};
use ganglion::bus::Frame;
use ganglion::bus::proxy::ManagerProxy;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::client::{
    self, Image, OpeningArguments, Options, Overflow, Screen, Waiting, calls, is_gone, listed,
    unless_interrupted,
};
use crate::failure::{Exit, Failure, OrFail as _, Outcome, bail, failure};
use crate::{output, sessions, view};
use conversation::Conversation;
use lines::{Lines, Typed};

/// The commands, which /help and the manual list: each begins with a slash.
pub(crate) const COMMANDS: &str = include_str!("commands.txt");

/// The text after the list.
pub(crate) const REST: &str =
    "Ctrl-C cancels an answer; its text so far stays. Any other line is sent to the model.\n";

#[derive(Debug, Parser)]
pub(crate) struct Arguments {
    #[command(flatten)]
    opening: OpeningArguments,
    #[command(flatten)]
    options: Options,
}

pub(crate) async fn run(bus: Option<String>, arguments: &Arguments) -> Outcome {
    let mut interrupt = signal(SignalKind::interrupt()).or_fail(Exit::Failed, "Ctrl-C")?;
    let opened = Conversation::open(bus, arguments.opening.opening());
    let conversation = unless_interrupted(&mut interrupt, opened).await?;
    let mut lines = Lines::open()?;
    let mut chat = Chat {
        conversation,
        options: arguments.options.clone(),
        images: Vec::new(),
        watched: lines.interactive(),
    };
    if chat.watched {
        output::print("/help lists the commands; Ctrl-D leaves.\n")?;
    }
    if chat.options.wants_thinking() {
        chat.warn_about_thinking().await?;
    }
    let mut failed = false;
    loop {
        let typed;
        (lines, typed) = tokio::select! {
            read = next(lines) => read?,
            // Only without an editor, which handles Ctrl-C itself.
            _ = interrupt.recv() => return Err(Failure::quiet(Exit::Interrupted)),
        };
        let done = match typed {
            Typed::Line(line) => match cut(line.trim()) {
                ("/bye" | "/quit" | "/exit", None) => break,
                (command, rest) if command.starts_with('/') => {
                    unless_interrupted(&mut interrupt, chat.run_command(command, rest)).await
                }
                _ => chat.say(line.trim(), &mut interrupt).await,
            },
            Typed::Text(text) => chat.say(&text, &mut interrupt).await,
            Typed::Interrupt => continue,
            Typed::End => break,
        };
        if let Err(failure) = done {
            let is_over = !chat.watched && chat.conversation.is_lost();
            if failure.exit == Exit::Ok || is_over {
                return Err(failure);
            }
            output::print_failure(&failure);
            failed = true;
        }
    }
    chat.conversation.close().await;
    // In a terminal, the user has seen the error.
    if failed && !chat.watched {
        return Err(Failure::quiet(Exit::Failed));
    }
    Ok(())
}

/// Splits off the first word.
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

/// The state of the program.
struct Chat {
    conversation: Conversation,
    options: Options,
    /// The images of the next message.
    images: Vec<Image>,
    /// Whether a person watches, who needs to see what is awaited.
    watched: bool,
}

impl Chat {
    async fn run_command(&mut self, command: &str, rest: Option<&str>) -> Outcome {
        let conversation = &mut self.conversation;
        match (command, rest) {
            ("/help" | "/?", None) => output::print(&(view::aligned(COMMANDS) + REST))?,
            ("/set", None) => {
                let overflow = conversation.overflow().map_or("", Overflow::name);
                output::print(&self.options.table(("overflow", overflow)))?;
            }
            ("/set", Some(rest)) => self.set(cut(rest)).await?,
            ("/system", None) => output::print(&format!("{}\n", conversation.system()))?,
            ("/system", Some("\"\"")) => conversation.begin(None).await?,
            ("/system", Some(text)) => conversation.begin(Some(text.into())).await?,
            ("/sessions", None) => sessions::list(conversation.connection(), false).await?,
            ("/load", Some(what)) => self.load(what).await?,
            ("/load", None) => bail!(Usage: "/load: name a session or a file"),
            ("/save", Some(file)) => {
                let path = transcript::save(file, conversation.messages().await?)?;
                output::print(&format!("{}\n", path.display()))?;
            }
            ("/save", None) => bail!(Usage: "/save: name a file"),
            ("/history", None) => {
                output::print(&transcript::shown(conversation.messages().await?))?;
            }
            ("/image", Some(file)) => {
                let image = Image::open(Path::new(file))?;
                output::print(&format!("{}\n", image.path().display()))?;
                self.images.push(image);
            }
            ("/image", None) => bail!(Usage: "/image: name a file"),
            ("/undo", None) => conversation.undo().await?,
            ("/clear", None) => conversation.clear().await?,
            ("/new", None) => {
                let system = Some(conversation.system().to_owned());
                let system = system.filter(|system| !system.is_empty());
                conversation.begin(system).await?;
            }
            _ => {
                let rest = rest.map(|rest| format!(" {rest}")).unwrap_or_default();
                bail!(Usage: "{command}{rest}: no such command; /help lists them");
            }
        }
        Ok(())
    }

    /// Sets an option, or resets it to the daemon's default.
    async fn set(&mut self, (name, value): (&str, Option<&str>)) -> Outcome {
        if name == "overflow" {
            let overflow = value.map(|value| Overflow::from_str(value, false));
            let overflow = overflow.transpose().map_err(
                |_| failure!(Usage: "/set overflow: it must be error or truncate_oldest"),
            )?;
            return self.conversation.set_overflow(overflow).await;
        }
        let set = self.options.set(name, value);
        set.map_err(|why| failure!(Usage: "/set {name}: {why}"))?;
        if name == "thinking" && self.options.wants_thinking() {
            self.warn_about_thinking().await?;
        }
        Ok(())
    }

    /// Continues the session of this name, or else the conversation in that file.
    async fn load(&mut self, what: &str) -> Outcome {
        // Names of sessions contain no slash.
        if !what.contains('/') {
            let manager = ManagerProxy::new(self.conversation.connection()).await?;
            if listed(&manager, what)
                .await?
                .is_some_and(|it| !is_gone(&it))
            {
                return self.conversation.switch(what).await;
            }
            if !transcript::is_there(what) {
                bail!(Data: "/load {what}: there is no session and no file of this name; /sessions lists the sessions");
            }
        }
        self.conversation
            .continue_with(transcript::load(what)?)
            .await
    }

    /// Reports a model that cannot think.
    async fn warn_about_thinking(&self) -> Outcome {
        let manager = ManagerProxy::new(self.conversation.connection()).await?;
        client::warn_if_it_cannot_think(&manager).await;
        Ok(())
    }

    /// Runs one turn: sends `text`, unless it is empty, and shows the answer.
    async fn say(&mut self, text: &str, interrupt: &mut Signal) -> Outcome {
        if text.trim().is_empty() {
            return Ok(());
        }
        // A message that is refused takes its images with it: the next one may be text alone.
        let images = std::mem::take(&mut self.images);
        let sent = self.conversation.send(text, &images, &self.options);
        let answer = unless_interrupted(interrupt, sent).await?;
        let (mut screen, mut heard) = (Screen::default(), String::new());
        let waiting = Waiting::new(!self.watched).with(&self.options);
        let answered = answer
            .follow(waiting, interrupt, |_, frame| {
                screen.show_frame(frame, false)?;
                match frame {
                    Frame::Text { text, .. } => heard.push_str(text),
                    Frame::Done {
                        tool_calls: Some(calls),
                        ..
                    } => {
                        screen.end_line()?;
                        output::print(&calls::lines(calls))?;
                    }
                    _ => {}
                }
                Ok(())
            })
            .await;
        screen.end_line()?;
        self.conversation.remember_turn(text, &heard).await;
        answered?.whole()
    }
}
