//! Boards of synthetic files: what their sensors show, and what slows decoding down on them.

mod following;
mod sensors;
pub(crate) mod tree;
