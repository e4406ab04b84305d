//! The board as the kernel shows it: power mode, temperatures, clocks, power and throttling; what slows decoding down, and
//! the energy of answers.
//!
//! All files are optional: what a file does not show is absent, and never an error. It changes no setting of the board,
//! starts no thread, and knows no request.

mod clocks;
mod energy;
mod files;
mod power_mode;
mod rails;
mod sensors;
mod slowing;
mod state;
mod thermal;
mod throttling;
mod watched;

pub use clocks::{Clock, is_gpu};
pub use energy::{EnergyMark, EnergyMeter};
pub use power_mode::{PowerMode, PowerModes};
pub use rails::Rail;
pub use sensors::Sensors;
pub use slowing::{Cause, Change, Processor, Rules, Slowing};
pub use state::BoardState;
pub use thermal::ThermalZone;
pub use throttling::ThrottleCounts;
pub use watched::Watched;

#[cfg(test)]
pub(crate) mod tests;
