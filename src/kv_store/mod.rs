//! Pages of the cache on disk: what was computed of a session, so that it need not be again when its pages are gone.
//!
//! `key` is what pages depend on, `file` how a sequence lies in a file and how it is seen to be whole, `refusal` why it is
//! not used, `place` whose it is, `rules` how much may be kept and written, `shelf` which files there are and which go first,
//! `wear` what writing would wear out, `cost` what reading again takes beside reading from the disk, `ahead` the threads
//! that read pages, `store` the one that they read for, which writes. `host` is another place for pages, in the host's memory.
//!
//! It holds nothing that cannot be made again: whatever does not match is deleted, and nobody is told of it but the journal. It
//! knows no engine, and waits for a disk on no thread but its own, and while it is opened.

mod ahead;
mod cost;
mod file;
mod host;
mod key;
mod place;
mod refusal;
mod rules;
mod shelf;
mod store;
mod wear;

pub use cost::{Cost, Depths};
pub use host::{Asked, Filling, Found, Host, HostRules, Page, Whose};
pub use key::Key;
pub use place::Place;
pub use rules::Rules;
pub use store::{Arrived, Counts, Load, Save, Store, Wake};
pub use wear::wears_out;

#[cfg(test)]
mod tests;
