//! The engine: one thread that owns the model, and the interface through which many callers use it.
//!
//! It knows tokens, requests and sessions. It never names D-Bus or HTTP, and its thread never waits for a caller.
//!
//! A request passes through the folders in this order: `caller` is the interface. `intake` checks the request, has
//! `prompt` encode it, and then queues it. `worker` is the engine thread, which asks `schedule` what to run. `generation`
//! is the answer, and `session` is the conversation that the answer joins. `reload` replaces the model, `observe`
//! publishes the engine's state, `picture` has the images of conversations, and `sim` takes the place of a model in tests.

mod caller;
mod generation;
mod intake;
mod observe;
mod picture;
mod prompt;
mod reload;
mod schedule;
mod session;
pub mod sim;
pub mod worker;

pub use crate::model::{Message, MessageImage, Role};
pub use crate::session_store::{Commits, Name, NameError};
pub use crate::telemetry::{FinishReason, Receipt, Usage};
pub use caller::client::{Client, ConnectionName};
pub use caller::error::EngineError;
pub use caller::handle::{Handle, channel};
pub use caller::held::{ActiveHold, Held};
pub use caller::hold::Hold;
pub use caller::limits::{Limits, UserLimits};
pub use caller::request::{
    Event, Likelihood, Limit, Options, Outcome, Overflow, Priority, Reading, Refusal, RequestError,
    Ticket,
};
pub use caller::status::{ModelInfo, State, Status};
pub use caller::status_watch::StatusReceiver;
pub use intake::control::{Command, Control};
pub use intake::receiver::Receiver;
pub use intake::request::Request;
pub use intake::wait_estimate::WaitEstimate;
pub use observe::live::{GraphStatus, ImageCounts, Snapshot, Work};
pub use observe::progress::{Phase, Progress, Pulse};
pub use picture::quota::{ImageQuota, ImageShare};
pub use prompt::codec::Codec;
pub use prompt::encoder::{Encoded, Encoder};
pub use reload::replacement::{ReplaceError, Replaced, Replacement};
pub use schedule::slices::Share;
pub use session::answer::Answer;
pub use session::listing::Listed;
pub use session::named::{Openable, Opened, Opening};
pub use session::sessions::{Lease, Said, SessionId, SessionStatus};
