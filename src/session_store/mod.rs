//! Named conversations on disk: `store` has each user's sessions, `log` the append-only file of one session. They
//! survive their caller, a restart of the daemon and a power cut; a damaged file is set aside and affects only its own
//! session.
//! Not here: the bus, the engine's threads, and a model's keys and values (`kv_store`).

mod brief;
mod commit;
mod compact;
mod entry;
mod error;
mod facts;
mod folder;
mod index;
mod log;
mod name;
mod past;
mod record;
mod store;
mod trail;

pub use commit::{Commits, Durability};
pub use entry::{Entry, Tokens, Turn};
pub use error::StoreError;
pub use facts::Summary;
pub use name::{Name, NameError};
pub use past::{Past, PastTurn};
pub use store::{Quota, Store, Stored, now};
pub use trail::{Context, Trail};

#[cfg(test)]
mod tests;
