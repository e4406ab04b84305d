//! Pages of the cache on disk: a session whose pages were evicted need not be prefilled again.
//!
//! - `key`: what the values of pages depend on
//! - `file`: the file format of a sequence; `refusal`: why a file is not used
//! - `place`: the session and the path of a file; `rules`: limits on space and writes
//! - `shelf`: the files, their eviction, and the bytes written today; `wear`: whether writing wears out the disk
//! - `cost`: the time for prefilling compared with reading; `ahead`: threads that read pages
//! - `store`: the interface and the thread that writes
//! - `host`: pages in the host's memory, which restore an idle session without the disk
//!
//! All content can be computed again: a file that does not match is deleted and reported in the journal. This module
//! does not know the engine. Pages are read and written on its own threads. Only opening the store and deleting pages
//! wait for the disk on the caller's thread.

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
