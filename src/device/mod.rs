//! One CUDA device: its context, stream, memory, kernels and recorded graphs. Each is owned, and can be dropped safely.
//!
//! Opening a context opens the driver, so the same binary starts on machines without one. This module does not know
//! models or tapes. A context and its objects stay on the thread that opened it: their types hold raw handles, so the
//! compiler checks that.

mod abi;
mod arena;
mod bandwidth;
mod captured;
mod context;
mod crash;
mod driver;
mod error;
mod event;
mod exec;
mod image;
mod kernel;
mod mailbox;
mod mapping;
mod masks;
mod memory_trial;
mod module;
mod open;
mod partition;
mod pinned;
mod plan;
mod ring;
mod scores;
mod staging;
mod stream;
mod template;
mod upload;

pub use abi::*;
pub use arena::{Arena, RowSpans};
pub use bandwidth::copy_bandwidth;
pub use captured::Captured;
pub use context::{Context, Properties};
pub use crash::{LAST_WORDS_SECONDS, report_crashes};
pub use error::Error;
pub use event::Event;
pub use exec::Exec;
pub use image::Modules;
pub use kernel::{ALL_SHARED, Geometry, Kernel, LaunchOrder};
pub use mailbox::{
    Command, GUESSES, History, NO_SLOT, PageTables, PromptMailbox, Row, STEP_ROWS, SamplerState,
    StepMailbox, TokenMailbox,
};
pub use masks::Masks;
pub use memory_trial::{MemoryFault, TriedMemory, try_memory};
pub use open::is_jetson;
pub use pinned::Pinned;
pub use plan::{CHUNK_BYTES, MemoryKind, Plan, Region};
pub use ring::Ring;
pub use scores::Scores;
pub use staging::Staging;
pub use stream::{Idle, Stream};
pub use template::Template;
pub use upload::Upload;

/// The result of a call to the driver.
pub type Result<T> = std::result::Result<T, Error>;
