//! The task of the processes that serve guides.

use super::inside;
use crate::confined::Task;

/// Holds a vocabulary, compiles grammars and computes masks.
pub const TASK: Task = Task {
    argument: "--run-guides",
    run: inside::run,
};
