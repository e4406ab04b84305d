//! The processes of one model's guides, as the daemon sees them.
//!
//! One process, the keeper, holds the vocabulary. Each grammar has a process of its own, which is a fork of the keeper:
//! its start takes a millisecond and copies nothing. The kernel limits its memory and its processor time. Only the
//! keeper can kill it safely, as its parent, and reports how it ended.

use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::frame::{Channel, FromKeeper, FromProcess, Masks, Received, ToKeeper, ToProcess};
use super::table;
use super::task::TASK;
use crate::confined::{self, Bound};
use crate::model::language::Words;

/// The keeper of one vocabulary. It starts at its first use, and again after it was killed.
pub(super) struct Keeper {
    words: Words,
    running: Mutex<Option<Running>>,
}

struct Running {
    child: Child,
    channel: Channel,
    /// Whether the vocabulary can bound answers.
    ready: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(words: &Words) -> io::Result<Self> {
        let (own, its) = UnixStream::pair()?;
        let mut command = confined::command(TASK)?;
        command
            .stdin(Stdio::from(OwnedFd::from(its)))
            .stdout(Stdio::null())
            // A process that forks must have no other thread.
            .env("_RJEM_MALLOC_CONF", "background_thread:false");
        let child = command.spawn()?;
        let mut keeper = Self {
            child,
            channel: Channel::new(own),
            ready: false,
        };
        let (vocabulary, bytes) = table::of(words);
        let vocabulary = ToKeeper::Vocabulary(vocabulary);
        keeper.channel.send_with(&vocabulary, &bytes, &[])?;
        keeper.ready = matches!(
            keeper.channel.receive()?,
            Some(Received {
                message: FromKeeper::Ready(true),
                ..
            })
        );
        Ok(keeper)
    }

    fn if_running(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }
}

impl Keeper {
    pub(super) fn new(words: Words) -> Self {
        Self {
            words,
            running: Mutex::new(None),
        }
    }

    pub(super) fn words(&self) -> &Words {
        &self.words
    }

    /// Starts the keeper; returns whether the vocabulary can bound answers.
    pub(super) fn prepare(&self) -> io::Result<bool> {
        self.with(|keeper| Ok(keeper.ready))
    }

    fn with<T>(&self, work: impl FnOnce(&Running) -> io::Result<T>) -> io::Result<T> {
        let mut running = self.running.lock();
        let alive = running.take().and_then(Running::if_running);
        let keeper = match alive {
            Some(keeper) => running.insert(keeper),
            None => running.insert(Running::start(&self.words)?),
        };
        let done = work(keeper);
        if done.is_err() {
            *running = None;
        }
        done
    }

    /// Kills a process of the running keeper, if that is `keeper`, and returns how it ended; `None` if that is unknown.
    fn end(&self, keeper: u32, process: i32) -> Option<ExitStatus> {
        let running = self.running.lock();
        let keeper = running
            .as_ref()
            .filter(|running| running.child.id() == keeper)?;
        keeper.channel.send(&ToKeeper::End(process)).ok()?;
        match keeper.channel.receive().ok()??.message {
            FromKeeper::Ended(status) => status.map(ExitStatus::from_raw),
            FromKeeper::Ready(_) => None,
        }
    }
}

/// The reason why a process does not answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// A limit of the operating system ended it.
    Bound(Bound),
    /// Its limit on the wall clock has passed.
    TooLong,
    /// Its request was cancelled.
    Cancelled,
    Other(String),
}

impl fmt::Display for Lost {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound(Bound::Time) => formatter.write_str("its bound of processor time passed"),
            Self::Bound(Bound::Memory) => formatter.write_str("its bound of memory passed"),
            Self::TooLong => formatter.write_str("it did not answer in time"),
            Self::Cancelled => formatter.write_str("its request was cancelled"),
            Self::Other(why) => formatter.write_str(why),
        }
    }
}

/// The interval at which a thread that waits for a process checks whether to go on.
const OFTEN: Duration = Duration::from_millis(20);

/// The process of one grammar. Dropping it kills the process.
pub(super) struct Process {
    keeper: Arc<Keeper>,
    channel: Channel,
    masks: Masks,
    /// The id of the keeper's process.
    parent: u32,
    id: OnceLock<i32>,
    /// The way it ended, once it was asked to.
    ended: OnceLock<Option<ExitStatus>>,
    /// JSON pointers to keywords that its grammar does not enforce, once it is compiled.
    unchecked: OnceLock<Vec<String>>,
    /// The process that forks it, until the fork is done: its end before that would leave this one without a process.
    origin: Mutex<Option<Arc<Process>>>,
}

impl Process {
    /// Starts a process that has no grammar yet.
    pub(super) fn start(keeper: &Arc<Keeper>) -> io::Result<Self> {
        Self::fork(keeper, |channel, masks| {
            keeper.with(|running| {
                let descriptors = [channel, masks];
                running
                    .channel
                    .send_with(&ToKeeper::Fork, &[], &descriptors)?;
                Ok(running.child.id())
            })
        })
    }

    /// Starts a process with the grammar of this one, which may be in use: it forks after its current mask.
    pub(super) fn duplicate(self: &Arc<Self>) -> io::Result<Self> {
        let process = Self::fork(&self.keeper, |channel, masks| {
            self.channel
                .send_with(&ToProcess::Fork, &[], &[channel, masks])?;
            Ok(self.parent)
        })?;
        process.leaves_unchecked(self.unchecked().to_vec());
        *process.origin.lock() = Some(self.clone());
        Ok(process)
    }

    fn fork(
        keeper: &Arc<Keeper>,
        send: impl FnOnce(BorrowedFd<'_>, BorrowedFd<'_>) -> io::Result<u32>,
    ) -> io::Result<Self> {
        let (own, its) = UnixStream::pair()?;
        let masks = Masks::new()?;
        let parent = send(its.as_fd(), masks.descriptor())?;
        let channel = Channel::new(own);
        channel.set_timeout(OFTEN)?;
        Ok(Self {
            keeper: keeper.clone(),
            channel,
            masks,
            parent,
            id: OnceLock::new(),
            ended: OnceLock::new(),
            unchecked: OnceLock::new(),
            origin: Mutex::default(),
        })
    }

    pub(super) fn words(&self) -> &Words {
        self.keeper.words()
    }

    /// Records the keywords that its grammar does not enforce.
    pub(super) fn leaves_unchecked(&self, pointers: Vec<String>) {
        // A grammar is compiled once.
        let _ = self.unchecked.set(pointers);
    }

    pub(super) fn unchecked(&self) -> &[String] {
        self.unchecked.get().map_or(&[], Vec::as_slice)
    }

    pub(super) fn send(&self, message: &ToProcess) -> io::Result<()> {
        self.channel.send(message)
    }

    pub(super) fn masks(&self) -> &Masks {
        &self.masks
    }

    /// Returns the next report, and encodes texts for the process meanwhile. `overdue` is asked every 20 ms whether to
    /// give up.
    ///
    /// # Errors
    /// If the process has ended, or is given up and killed.
    pub(super) fn receive(&self, overdue: impl Fn() -> Option<Lost>) -> Result<FromProcess, Lost> {
        loop {
            let received = match self.channel.receive() {
                Ok(None) => match overdue() {
                    Some(lost) => {
                        self.end();
                        return Err(lost);
                    }
                    None => continue,
                },
                Ok(Some(received)) => Ok(received.message),
                Err(error) => Err(error),
            };
            let answered = match received {
                Ok(FromProcess::Hello(id)) => {
                    self.has_id(id);
                    Ok(())
                }
                Ok(FromProcess::Encode(text)) => {
                    let tokens = self.words().encode(&text);
                    self.channel.send(&ToProcess::Encoded(tokens))
                }
                Ok(message) => return Ok(message),
                Err(error) => Err(error),
            };
            if let Err(error) = answered {
                return Err(self.lost(&error));
            }
        }
    }

    fn lost(&self, error: &io::Error) -> Lost {
        let Some(status) = self.end() else {
            return Lost::Other(format!("its process does not answer: {error}"));
        };
        confined::bound(status).map_or_else(
            || Lost::Other(format!("its process ended with {status}")),
            Lost::Bound,
        )
    }

    /// Records the process's id, which it reports once.
    fn has_id(&self, id: i32) {
        let _ = self.id.set(id);
        let origin = self.origin.lock().take();
        drop(origin);
    }

    /// Ends the process; returns `None` if the way it ended is unknown.
    fn end(&self) -> Option<ExitStatus> {
        let id = *self.id.get()?;
        // From then on the system may reuse its id.
        *self.ended.get_or_init(|| self.keeper.end(self.parent, id))
    }

    /// Waits a moment for the process's id, which is necessary to kill it.
    fn wait_for_id(&self) {
        let until = Instant::now() + Duration::from_secs(1);
        while self.id.get().is_none() && Instant::now() < until {
            match self.channel.receive() {
                Ok(Some(Received {
                    message: FromProcess::Hello(id),
                    ..
                })) => self.has_id(id),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.wait_for_id();
        self.end();
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Process")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// Formats an error of the keeper for a caller.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => "it ended before it was ready".into(),
        _ => error.to_string(),
    }
}
