//! A caller, as limits count it and the journal names it. Its permissions are decided above the engine.

use std::sync::Arc;

/// One caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The name of its connection, which is unique while the connection lasts.
    pub name: Arc<str>,
    /// The user that it runs as. Limits of a user count all connections of that user.
    pub user: u32,
}
