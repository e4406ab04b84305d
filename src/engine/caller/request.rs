//! A request as its caller sees it: options, events, the outcome, and the reasons of refusals.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;

use super::error::EngineError;
use crate::guess::Guess;
use crate::guide::{Grammar, GrammarError, GuideError};
use crate::kv::PAGE;
use crate::model::{Call, Message, Role};
use crate::sampler::{Parameters, Partial};
use crate::telemetry::{FinishReason, Usage};
use crate::tools::{Piece, Tools};
use crate::vision::ImageError;

/// The options of one request. The front end that makes them checks every field.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// At least 1, or 0 for a prefill ahead.
    pub max_tokens: usize,
    pub sampling: Parameters,
    /// The parts of `sampling` that the caller chose, if the model's recommendations fill the others.
    pub open: Option<Partial>,
    /// Strings that end the answer before them; none is empty.
    pub stop: Vec<String>,
    /// The template's `enable_thinking`; `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// Whether the prompt is the text of the only message as it is written, special tokens included, without the template.
    pub is_as_written: bool,
    /// The most tokens of the thoughts.
    pub thinking_tokens: Option<usize>,
    /// The grammar that the answer must match. Then there are no `stop` and no `tools`.
    pub grammar: Option<Grammar>,
    /// Whether schema keywords that cannot be enforced are ignored, also if the model must call a tool.
    pub schema_lenient: bool,
    /// The tools that the model may call. Then there is no `stop`.
    pub tools: Option<Arc<Tools>>,
    pub priority: Priority,
    /// The time after which the request ends with a partial answer.
    pub deadline: Option<Duration>,
    /// What happens when a session exceeds the context.
    pub overflow: Overflow,
    /// How tokens of the answer are guessed ahead; `None`: they are not.
    pub guess: Option<Guess>,
}

impl Options {
    /// Whether a partial answer is useless, because of a grammar or tools.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        self.grammar.is_some() || self.tools.is_some()
    }

    /// Sets the sampling that the caller left open to the model's recommendations.
    pub(crate) fn sample_as(&mut self, model: Partial) {
        if let Some(asked) = self.open {
            self.sampling = asked.or(model).over(&self.sampling);
        }
    }

    /// Returns options with defaults, for an answer of at most `max_tokens`.
    #[must_use]
    pub fn new(max_tokens: usize, sampling: Parameters) -> Self {
        Self {
            max_tokens,
            sampling,
            open: None,
            stop: Vec::new(),
            thinking: None,
            is_as_written: false,
            thinking_tokens: None,
            grammar: None,
            schema_lenient: false,
            tools: None,
            priority: Priority::default(),
            deadline: None,
            overflow: Overflow::default(),
            guess: None,
        }
    }
}

/// What happens when a session exceeds the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The request is refused, and the session stays as it is.
    #[default]
    Error,
    TruncateOldest,
}

impl Overflow {
    pub const ALL: [Self; 2] = [Self::Error, Self::TruncateOldest];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::TruncateOldest => "truncate_oldest",
        }
    }
}

/// The priority of a request. `fair` orders requests of equal priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// `Realtime` requests suspend it, also during the answer.
    Background,
    #[default]
    Normal,
    /// The front ends decide which callers may use it.
    Realtime,
}

impl Priority {
    pub const ALL: [Self; 3] = [Self::Realtime, Self::Normal, Self::Background];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Background => "background",
            Self::Normal => "normal",
            Self::Realtime => "realtime",
        }
    }
}

/// What a caller receives: any number of other events, then one `Done`.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant)] // a request has one outcome, and it is moved few times
pub enum Event {
    /// Whole characters, never empty.
    Text(String),
    /// A part of the thoughts before the answer; never empty.
    Reasoning(String),
    /// A part of a call of a tool.
    Call(Piece),
    /// The probability of the next token, if requested. It comes before the text that the token completes.
    Likelihood(Likelihood),
    Done(Outcome),
}

/// The probability of a token according to the model alone, without temperature, penalty and guide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Likelihood {
    pub token: u32,
    /// What the token adds to a text; a part of a character is U+FFFD.
    pub text: String,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// The most probable tokens in its place, the most probable first. Their own `best` is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub best: Vec<Likelihood>,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub reason: FinishReason,
    pub usage: Usage,
    /// The stop string that ended the answer, if one did.
    pub stop: Option<String>,
    /// Whether an answer with a grammar or tools is partial.
    pub incomplete: bool,
    /// The thoughts before the answer.
    pub reasoning: String,
    /// The complete tool calls.
    pub calls: Vec<Call>,
    /// JSON pointers to keywords of the request's schemas that were not enforced.
    pub unchecked: Vec<String>,
    /// Present if and only if `reason` is `Error`.
    pub error: Option<RequestError>,
}

impl Outcome {
    /// Returns the outcome of a request without thoughts and calls.
    #[must_use]
    pub fn new(reason: FinishReason, usage: Usage, error: Option<RequestError>) -> Self {
        Self {
            reason,
            usage,
            stop: None,
            incomplete: false,
            reasoning: String::new(),
            calls: Vec::new(),
            unchecked: Vec::new(),
            error,
        }
    }
}

/// Why a request was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("{0}")]
    NotReady(String),
    /// There is not enough memory to load the model again.
    #[error("{0}")]
    OutOfMemory(String),
    #[error(
        "{requests} requests wait or are being answered, and need the model; release it when they have ended, or cancel them \
         first"
    )]
    Active { requests: usize },
    #[error(
        "the queue holds {capacity} requests already; try again when one has finished, or raise queue.capacity"
    )]
    Busy { capacity: usize },
    #[error("this session is still answering; wait for its request to finish, or cancel it")]
    SessionBusy,
    #[error(
        "{0} requests are being answered or read; try again when one has finished, or raise limits.requests"
    )]
    TooManyRequests(usize),
    #[error(
        "{requests} requests of user {user} are being answered or read; try again when one has finished, or raise \
         limits.requests_per_user"
    )]
    UserRequests { user: u32, requests: usize },
    #[error("{0} sessions are open already; close one, or raise limits.sessions")]
    TooManySessions(usize),
    #[error(
        "{share} requests of user {user} wait already, which is its share of the queue; try again when one of them \
         runs, or raise limits.queue_percent_per_user ({percent}) or queue.capacity"
    )]
    UserQueue {
        user: u32,
        share: usize,
        percent: usize,
    },
    #[error(
        "user {user} has {sessions} open sessions already; close one, or raise limits.sessions_per_user"
    )]
    UserSessions { user: u32, sessions: usize },
    #[error(
        "the prompt and its answer may take {pages} pages of the cache, {PAGE} tokens each, and user {user} may have {share} of \
         them; ask for fewer max_tokens, shorten the prompt, or raise limits.kv_percent_per_user ({percent}) or kv.memory_mib"
    )]
    UserPages {
        user: u32,
        pages: usize,
        share: usize,
        percent: usize,
    },
    #[error(
        "the images of user {user}, of its requests and its sessions, would have more than {bytes} bytes; close or clear a \
         session with images, try again when a request has finished, or raise vision.max_pixels"
    )]
    UserImages { user: u32, bytes: usize },
    #[error(
        "the images of all users, of requests and sessions, would have more than {bytes} bytes; try again when a request has \
         finished or a session was closed, or raise vision.max_pixels"
    )]
    TooManyImages { bytes: usize },
    #[error(
        "the images of user {user} that wait for the model would have more than {bytes} bytes when they are decoded; try again \
         when one of its requests has begun, or send fewer or smaller images"
    )]
    UserPixels { user: u32, bytes: usize },
    #[error(
        "the images of all users that wait for the model would have more than {bytes} bytes when they are decoded; try again \
         when a request has begun"
    )]
    TooManyPixels { bytes: usize },
    /// An image of a message cannot be shown to the model. Both are numbered from 0.
    #[error("message {message}: image {image}: {error}")]
    Image {
        message: usize,
        image: usize,
        error: ImageError,
    },
    #[error("the session is closed")]
    SessionClosed,
    #[error(
        "session {name:?} is held by connection {holder} of the same user; have it closed there, or open it with the option \
         \"take\""
    )]
    SessionHeld { name: String, holder: String },
    #[error(
        "session {name:?} is there already, and not as {what} says; leave that out to go on with it, or delete it"
    )]
    SessionDiffers { name: String, what: &'static str },
    #[error("there is no session {0:?}; the list of sessions has all names")]
    NoSession(String),
    /// A quota of persistent sessions is reached.
    #[error("{why}")]
    Quota { key: &'static str, why: String },
    /// A persistent session could not be written or read.
    #[error("{0}")]
    Unkept(String),
    #[error("{asked} turns cannot be taken back: the session has {turns}")]
    Turns { asked: u32, turns: u32 },
    #[error(
        "the prompt has {tokens} tokens and the context holds {context}; shorten it, clear the session, or raise kv.context"
    )]
    ContextFull { tokens: usize, context: usize },
    #[error(
        "the prompt has {bytes} bytes and the context holds {context} tokens, of which none is more than {longest} bytes; \
         shorten it, clear the session, or raise kv.context"
    )]
    PromptBytes {
        bytes: usize,
        context: usize,
        longest: usize,
    },
    #[error("{0}")]
    InvalidMessages(String),
    #[error("{0}")]
    InvalidGrammar(#[from] GrammarError),
    #[error("{0}")]
    NotSupported(String),
}

/// A key of the configuration that sets a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// A limit of all users together.
    OfAll(&'static str),
    /// A limit of one user.
    OfUser(&'static str),
}

impl Limit {
    /// The keys of all limits.
    pub const KEYS: [&str; 11] = [
        "kv.context",
        "limits.kv_percent_per_user",
        "limits.queue_percent_per_user",
        "limits.requests",
        "limits.requests_per_user",
        "limits.sessions",
        "limits.sessions_per_user",
        "queue.capacity",
        "sessions.mib_per_user",
        "sessions.per_user",
        "vision.max_pixels",
    ];
}

impl Refusal {
    /// Returns the limit that was reached, if one was.
    #[must_use]
    pub const fn limit(&self) -> Option<Limit> {
        match self {
            Self::Busy { .. } => Some(Limit::OfAll("queue.capacity")),
            Self::UserQueue { .. } => Some(Limit::OfUser("limits.queue_percent_per_user")),
            Self::TooManyRequests(_) => Some(Limit::OfAll("limits.requests")),
            Self::UserRequests { .. } => Some(Limit::OfUser("limits.requests_per_user")),
            Self::TooManySessions(_) => Some(Limit::OfAll("limits.sessions")),
            Self::UserSessions { .. } => Some(Limit::OfUser("limits.sessions_per_user")),
            Self::UserImages { .. } | Self::UserPixels { .. } => {
                Some(Limit::OfUser("vision.max_pixels"))
            }
            Self::TooManyImages { .. } | Self::TooManyPixels { .. } => {
                Some(Limit::OfAll("vision.max_pixels"))
            }
            Self::UserPages { .. } => Some(Limit::OfUser("limits.kv_percent_per_user")),
            Self::ContextFull { .. } | Self::PromptBytes { .. } => {
                Some(Limit::OfUser("kv.context"))
            }
            Self::Quota { key, .. } => Some(Limit::OfUser(key)),
            Self::NotReady(_)
            | Self::OutOfMemory(_)
            | Self::Active { .. }
            | Self::SessionBusy
            | Self::SessionClosed
            | Self::SessionHeld { .. }
            | Self::SessionDiffers { .. }
            | Self::NoSession(_)
            | Self::Unkept(_)
            | Self::Turns { .. }
            | Self::InvalidMessages(_)
            | Self::Image { .. }
            | Self::InvalidGrammar(_)
            | Self::NotSupported(_) => None,
        }
    }
}

/// Why an accepted request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Guide(#[from] GuideError),
    #[error("{0}")]
    EngineFailed(#[from] EngineError),
}

/// The progress of a request's prefill. It is written and read without waiting.
#[derive(Clone, Debug, Default)]
pub struct Reading(Arc<[AtomicU32; 2]>);

impl Reading {
    /// Sets how many of the prompt's tokens are in the cache.
    pub(crate) fn set(&self, read: usize, of: usize) {
        let count = |tokens| u32::try_from(tokens).unwrap_or(u32::MAX);
        // The order ensures that no reader sees more tokens than there are.
        self.0[1].store(count(of), Ordering::Release);
        self.0[0].store(count(read), Ordering::Release);
    }

    /// Returns the prompt's tokens that are in the cache, and all of them; 0 of 0 until the prefill begins.
    #[must_use]
    pub fn get(&self) -> (u32, u32) {
        let read = self.0[0].load(Ordering::Acquire);
        (read, self.0[1].load(Ordering::Acquire))
    }
}

/// An accepted request.
#[derive(Debug)]
pub struct Ticket {
    /// Unique within the process.
    pub id: u64,
    /// The events. Their number is bounded by `max_tokens`, so the engine never waits for the reader.
    pub events: UnboundedReceiver<Event>,
    pub reading: Reading,
}

/// Checks a conversation that is to be answered, independent of the model.
pub(crate) fn check(messages: &[Message]) -> Result<(), Refusal> {
    let last = messages
        .last()
        .ok_or_else(|| Refusal::InvalidMessages("there are no messages".into()))?;
    check_calls(messages)?;
    // The result of a tool may be empty.
    if last.is_empty() && last.role != Role::Tool {
        return Err(Refusal::InvalidMessages("the last message is empty".into()));
    }
    if last.role == Role::Assistant || last.role == Role::System {
        let role = last.role.name();
        return Err(Refusal::InvalidMessages(format!(
            "the last message is by {role:?}; it must be by \"user\" or \"tool\""
        )));
    }
    Ok(())
}

/// Checks that each result of a tool answers a call.
pub(crate) fn check_calls(messages: &[Message]) -> Result<(), Refusal> {
    let (mut called, mut answered) = (HashSet::new(), messages.iter());
    let unknown = answered.find_map(|message| {
        called.extend(message.calls.iter().map(|call| call.id.as_str()));
        let id = message.call_id.as_deref()?;
        (!called.contains(id)).then_some(id)
    });
    if let Some(id) = unknown {
        return Err(Refusal::InvalidMessages(format!(
            "no message before has a call with the id {id:?}, which a tool's message answers; give the \"tool_calls\" of the \
             assistant's message too, or leave \"tool_call_id\" out"
        )));
    }
    Ok(())
}
