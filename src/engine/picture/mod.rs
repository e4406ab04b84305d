//! The images of conversations: their numbers in prompts, their pixels, and their embeddings.
//!
//! A picture belongs to one user. Nothing here runs a tower.

pub(crate) mod cache;
pub(crate) mod decode;
pub(crate) mod encodings;
#[allow(clippy::module_inception)] // the folder is named after its main type
pub(crate) mod picture;
pub(crate) mod pictures;
pub(crate) mod quota;
pub(crate) mod sight;
pub(crate) mod viewer;
