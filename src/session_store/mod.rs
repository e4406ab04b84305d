//! Conversations on disk: what a session with a name has said, so that it outlives its caller, the daemon and a power cut.
//!
//! `record` is how an entry lies in a file and how a torn one is told from a damaged one, `entry` what is said in it,
//! `past` what the entries of a file amount to, `compact` which of them are still of use, `trail` the tokens of its turns.
//! `log` is the append-only file of one session, `commit` the thread that writes and syncs them in groups, `store` the folder
//! of each user and how much it may hold, `brief` what there is to say of a session and `index` what is remembered of that. A file that cannot be read is set aside and told of, never lost, and stops nobody
//! else.
//!
//! It knows neither the bus nor the engine's threads, it holds no keys and values of a model, and it never waits for a
//! disk on its caller's thread but where it says so.

mod brief;
mod commit;
mod compact;
mod entry;
mod error;
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
pub use name::{Name, NameError};
pub use past::{Past, PastTurn};
pub use store::{Quota, Store, Stored, Summary, now};
pub use trail::{Context, Trail};

#[cfg(test)]
mod tests;
