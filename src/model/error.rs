//! TBD
#[derive(Debug, thiserror::Error)]
pub enum ModelError {}
