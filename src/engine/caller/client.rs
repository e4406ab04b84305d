//! Who asks, as limits count it and the journal names it. Whether it may ask is decided elsewhere.

use std::sync::Arc;

/// One caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The name of its connection; unique while that lasts.
    pub name: Arc<str>,
    /// The user that it runs as: limits are for each of these.
    pub user: u32,
}
