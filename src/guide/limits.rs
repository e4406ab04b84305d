//! The limits of a grammar, and of the processes that serve it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Bytes that the process of a grammar may add to those of the keeper: while it compiles, and for all its answers.
pub(super) const COMPILING: usize = 128 << 20;
pub(super) const ANSWERING: usize = 192 << 20;
/// The most bytes that a compiled grammar may have, because its answers need memory too.
pub(super) const COMPILED: usize = 64 << 20;

/// The limits of a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes of the caller's text.
    pub bytes: usize,
    /// Nodes of regular expressions that compiling may make, and symbols of the grammar.
    pub work: usize,
    /// Processor time of compiling.
    pub compile: Duration,
    /// Processor time of one mask.
    pub mask: Duration,
}

impl Limits {
    /// The defaults: the largest schemas in use take a fifth of them.
    pub const USUAL: Self = Self {
        bytes: 256 << 10,
        work: 500_000,
        compile: Duration::from_secs(2),
        mask: Duration::from_secs(1),
    };
}
