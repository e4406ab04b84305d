//! Projects the speed of a model on a board: from the bytes that a step reads, the work of a prompt's token, the board's
//! memory and clocks, and measurements on other GPUs.
//!
//! `ganglionctl verify` compares a board with it, `ganglionctl pull --list` shows it, and the README's table is made of it.
//! It measures nothing and reads no file of the machine.

mod boards;
#[cfg(test)]
mod readme;
mod speed;

pub use boards::{Board, BoardMode, boards};
pub use speed::{Limits, Work};
