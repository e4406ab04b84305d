//! What a caller asks of the engine, and what it is told.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedReceiver;

use super::error::EngineError;
use crate::guide::{Grammar, GrammarError, GuideError};
use crate::kv::PAGE;
use crate::model::{Call, Message, Role};
use crate::sampler::{Parameters, Partial};
use crate::telemetry::{FinishReason, Usage};
use crate::tools::{Piece, Tools};

/// What a caller may choose for one request. Every field has been checked by who made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// It is at least 1, but for a prompt that is only read ahead.
    pub max_tokens: usize,
    pub sampling: Parameters,
    /// The parts of `sampling` that were asked for, where the model's recommendation is to fill the others.
    pub open: Option<Partial>,
    /// Generation ends before the first of these; none is empty.
    pub stop: Vec<String>,
    /// `enable_thinking` of templates that know it; `None` leaves it to the template.
    pub thinking: Option<bool>,
    /// Tokens after which thoughts are ended.
    pub thinking_tokens: Option<usize>,
    /// What the answer must fit; it has no `stop` and no `tools` then.
    pub grammar: Option<Grammar>,
    /// Whether keywords of tools that cannot be enforced are left unchecked also where the model must call.
    pub schema_lenient: bool,
    /// What the model may call; it has no `stop` then.
    pub tools: Option<Arc<Tools>>,
    pub priority: Priority,
    /// So long after it was accepted the request ends, with what there is.
    pub deadline: Option<Duration>,
    /// This says what becomes of a turn of a session that the context does not hold any more.
    pub overflow: Overflow,
}

impl Options {
    /// Whether only a whole answer is of use: it is to fit something, or may call.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        self.grammar.is_some() || self.tools.is_some()
    }

    /// Fills what was not asked for by what the model that answers recommends.
    pub(crate) fn sample_as(&mut self, model: Partial) {
        if let Some(asked) = self.open {
            self.sampling = asked.or(model).over(&self.sampling);
        }
    }

    /// Nothing but an answer.
    #[must_use]
    pub fn new(max_tokens: usize, sampling: Parameters) -> Self {
        Self {
            max_tokens,
            sampling,
            open: None,
            stop: Vec::new(),
            thinking: None,
            thinking_tokens: None,
            grammar: None,
            schema_lenient: false,
            tools: None,
            priority: Priority::default(),
            deadline: None,
            overflow: Overflow::default(),
        }
    }
}

/// What becomes of a turn of a session that the context does not hold any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The turn is refused, and the session stays as it is.
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

/// Who comes before whom; of equals, `fair` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Makes way for `Realtime`, also in the middle of an answer.
    Background,
    #[default]
    Normal,
    /// Who may ask for it is decided elsewhere.
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

/// What a request's reader receives: any number of others, then one `Done`.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Whole characters, never empty.
    Text(String),
    /// What the model thinks before it answers; never empty.
    Reasoning(String),
    /// A part of a call of a tool.
    Call(Piece),
    /// How probable the next token was, where the request asked: before the text that it completes.
    Likelihood(Likelihood),
    Done(Outcome),
}

/// A token of an answer, as the model alone saw it: without temperature, penalty or guide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Likelihood {
    pub token: u32,
    /// What the token adds to a text; a part of a character is U+FFFD.
    pub text: String,
    /// The natural logarithm of its probability.
    pub logprob: f32,
    /// The most probable tokens in its place, in their order; they have none of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub best: Vec<Likelihood>,
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub reason: FinishReason,
    pub usage: Usage,
    /// Whether it was to fit something, or to call tools, and is only the beginning of such an answer.
    pub incomplete: bool,
    /// The model thought all this before it answered.
    pub reasoning: String,
    /// The calls that are whole.
    pub calls: Vec<Call>,
    /// JSON pointers to keywords of the request's schemas that the answer was not held to.
    pub unchecked: Vec<String>,
    /// Present if and only if `reason` is `Error`.
    pub error: Option<RequestError>,
}

impl Outcome {
    /// The answer of a request that has said nothing but text.
    #[must_use]
    pub fn new(reason: FinishReason, usage: Usage, error: Option<RequestError>) -> Self {
        Self {
            reason,
            usage,
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
    #[error("the session is closed")]
    SessionClosed,
    #[error(
        "session {name:?} is held by connection {holder} of the same user; have it closed there, or open it with the option \
         \"take\""
    )]
    SessionHeld { name: String, holder: String },
    #[error(
        "session {name:?} is there already, and not as {what} says; leave that out to go on with it, or delete it \
         (Manager.DeleteSession)"
    )]
    SessionDiffers { name: String, what: &'static str },
    #[error("there is no session {0:?}; Manager.ListSessions has those that there are")]
    NoSession(String),
    /// A limit of what one user may keep is reached.
    #[error("{why}")]
    Quota { key: &'static str, why: String },
    /// What was to be kept could not be, or not be read.
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
    /// Whoever asks next is refused.
    OfAll(&'static str),
    /// The others go on.
    OfUser(&'static str),
}

impl Refusal {
    /// The limit that was reached, if one was.
    #[must_use]
    pub const fn limit(&self) -> Option<Limit> {
        match self {
            Self::Busy { .. } => Some(Limit::OfAll("queue.capacity")),
            Self::UserQueue { .. } => Some(Limit::OfUser("limits.queue_percent_per_user")),
            Self::TooManyRequests(_) => Some(Limit::OfAll("limits.requests")),
            Self::UserRequests { .. } => Some(Limit::OfUser("limits.requests_per_user")),
            Self::TooManySessions(_) => Some(Limit::OfAll("limits.sessions")),
            Self::UserSessions { .. } => Some(Limit::OfUser("limits.sessions_per_user")),
            Self::UserPages { .. } => Some(Limit::OfUser("limits.kv_percent_per_user")),
            Self::ContextFull { .. } | Self::PromptBytes { .. } => {
                Some(Limit::OfUser("kv.context"))
            }
            Self::Quota { key, .. } => Some(Limit::OfUser(key)),
            Self::NotReady(_)
            | Self::SessionBusy
            | Self::SessionClosed
            | Self::SessionHeld { .. }
            | Self::SessionDiffers { .. }
            | Self::NoSession(_)
            | Self::Unkept(_)
            | Self::Turns { .. }
            | Self::InvalidMessages(_)
            | Self::InvalidGrammar(_)
            | Self::NotSupported(_) => None,
        }
    }
}

/// Why a request that was accepted could not be finished.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    #[error("{0}")]
    Refused(#[from] Refusal),
    #[error("{0}")]
    Guide(#[from] GuideError),
    #[error("{0}")]
    EngineFailed(#[from] EngineError),
}

/// How far the reading of a request's prompt has got, for whoever looks; nobody waits for it.
#[derive(Clone, Debug, Default)]
pub struct Reading(Arc<[AtomicU32; 2]>);

impl Reading {
    /// So many tokens of so many are in the cache.
    pub(crate) fn set(&self, read: usize, of: usize) {
        let count = |tokens| u32::try_from(tokens).unwrap_or(u32::MAX);
        // In this order: nobody sees more read than there are.
        self.0[1].store(count(of), Ordering::Release);
        self.0[0].store(count(read), Ordering::Release);
    }

    /// Tokens of the prompt that are read, and all of them; 0 of 0 until the reading begins.
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
    /// Bounded by the request's `max_tokens`: the engine never waits for it.
    pub events: UnboundedReceiver<Event>,
    pub reading: Reading,
}

/// What every conversation must be that is to be answered, whatever the model.
pub(crate) fn check(messages: &[Message]) -> Result<(), Refusal> {
    let last = messages
        .last()
        .ok_or_else(|| Refusal::InvalidMessages("there are no messages".into()))?;
    check_calls(messages)?;
    // A tool may have nothing to say.
    if last.content.trim().is_empty() && last.role != Role::Tool {
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

/// What tools say must answer calls.
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
