//! The engine: one thread owns the model; turns wait for it in a bounded queue, and each answers with events.
//!
//! It knows tokens, turns and sessions. It never names D-Bus, and it never waits for a reader.

mod admission;
mod codec;
mod handle;
mod live;
mod load;
mod observe;
mod progress;
mod queue;
mod request;
pub mod runner;
mod session;
mod settings;
mod status;
mod stop;

pub mod score;
pub mod sim;
pub mod worker;

pub use crate::model::{Message, Role};
pub use crate::telemetry::{FinishReason, Receipt, Usage};
pub use admission::{Pool, Refusal as MemoryRefusal};
pub use codec::Codec;
pub use handle::{Handle, Limits, channel};
pub use live::{GraphStatus, Snapshot};
pub use load::LoadError;
pub use progress::{Phase, Progress, Pulse};
pub use queue::{Command, Control, Inbox, Turn};
pub use request::{Cancel, Event, Options, Outcome, Refusal, RequestError, Ticket};
pub use session::{Answer, SessionId, SessionStatus};
pub use status::{Memory, ModelInfo, State, Status};
