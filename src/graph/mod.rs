//! A sequence of launches, recorded once and replayed by one call. What is recorded, and when it is no
//! longer what should run, is not known here.

mod recording;
mod replay;

pub use recording::Recording;
pub use replay::{Graph, Renewal};
