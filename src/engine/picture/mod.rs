//! The images of conversations: their numbers in prompts, their pixels, and their embeddings.
//!
//! A picture belongs to one user. It decodes no image and runs no tower by itself.

pub(crate) mod picture;
pub(crate) mod sight;
