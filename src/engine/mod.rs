//! The engine: one thread owns the model; turns wait for it in a bounded queue, and each answers with events.
//!
//! It knows tokens, turns and sessions. It never names D-Bus, and it never waits for a reader.

mod accept;
mod admission;
mod answer;
mod beginning;
mod chunk;
mod client;
mod codec;
mod control;
mod control_group;
mod encoder;
mod engine_error;
mod entry;
mod fair;
mod flat;
mod handle;
mod held;
mod hold;
mod ids;
mod inbox;
mod kept;
mod kv_memory;
mod lane;
mod limits;
mod live;
mod load;
mod load_error;
mod loaded_model;
mod named;
mod observe;
mod open_sessions;
mod overflow;
mod prepare;
mod prewarm;
mod progress;
mod queue;
mod registration;
mod replace;
mod replacement;
mod report;
mod request;
mod requests;
pub mod runner;
mod schedule;
mod service;
mod session;
mod settings;
mod shared;
mod site;
mod slices;
mod speech;
mod status;
mod status_watch;
mod stop;
mod stored;
mod transcript;
mod turn;
mod waits;
mod witness;

pub mod score;
pub mod sim;
pub mod worker;

pub use crate::model::{Message, Role};
pub use crate::session_store::{Commits, Name, NameError};
pub use crate::telemetry::{FinishReason, Receipt, Usage};
pub use admission::{Admitted, Pool, Refusal as MemoryRefusal};
pub use answer::Answer;
pub use client::Client;
pub use codec::Codec;
pub use control::{Command, Control};
pub use control_group::ControlGroups;
pub use encoder::{Encoded, Encoder};
pub use engine_error::EngineError;
pub use handle::{Handle, channel};
pub use held::{ActiveHold, Held};
pub use hold::Hold;
pub use inbox::Inbox;
pub use limits::{Limits, UserLimits};
pub use live::{GraphStatus, Snapshot, Work};
pub use load_error::LoadError;
pub use named::{Asked, Listed, Opened, Opening};
pub use progress::{Phase, Progress, Pulse};
pub use replacement::{ReplaceError, Replaced, Replacement};
pub use request::{
    Event, Likelihood, Limit, Options, Outcome, Overflow, Priority, Reading, Refusal, RequestError,
    Ticket,
};
pub use session::{Lease, Said, SessionId, SessionStatus};
pub use site::{Site, admit};
pub use slices::Share;
pub use status::{MemoryUse, ModelInfo, State, Status};
pub use status_watch::StatusReceiver;
pub use turn::Turn;
pub use waits::Waits;
