//! TBD
pub struct Checkpoint;
