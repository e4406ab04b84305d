//! The boards and their power modes, from `boards.toml`.

use serde::Deserialize;

use super::speed::Limits;

const TABLE: &str = include_str!("boards.toml");

/// A Jetson board.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// "Nano".
    pub name: String,
    /// A part of the device tree's name of it.
    #[serde(rename = "board")]
    in_device_tree: String,
    memory_gib: u64,
    bus_bits: u32,
    /// The fastest comes first.
    modes: Vec<BoardMode>,
}

/// What a power mode leaves of a board.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardMode {
    /// nvpmodel's name of it.
    pub name: String,
    multiprocessors: u32,
    gpu_mhz: u32,
    memory_mhz: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    board: Vec<Board>,
}

/// Returns all boards, the smallest first.
#[must_use]
pub fn boards() -> Vec<Board> {
    // A test reads the table.
    toml::from_str::<Table>(TABLE).map_or_else(|_| Vec::new(), |table| table.board)
}

impl Board {
    /// Finds the board that a device tree names, with that many bytes of memory, some of which the firmware keeps.
    #[must_use]
    pub fn find(model: &str, memory: u64) -> Option<Self> {
        let has_memory = |board: &Self| {
            let whole = board.memory_gib << 30;
            memory <= whole && memory > whole / 4 * 3
        };
        let mut boards = boards().into_iter();
        boards.find(|board| model.contains(&board.in_device_tree) && has_memory(board))
    }

    /// Returns its fastest mode.
    #[must_use]
    pub fn fastest(&self) -> Option<&BoardMode> {
        self.modes.first()
    }

    /// Returns the mode of that name.
    #[must_use]
    pub fn mode(&self, name: &str) -> Option<&BoardMode> {
        self.modes.iter().find(|mode| mode.name == name)
    }

    /// Returns what a mode leaves of the board's speed.
    #[must_use]
    pub fn limits(&self, mode: &BoardMode) -> Limits {
        const TRANSFERS: f64 = 2.0;
        let bytes = f64::from(self.bus_bits) / 8.0;
        Limits {
            multiprocessors: mode.multiprocessors,
            gpu_hertz: f64::from(mode.gpu_mhz) * 1e6,
            bytes_per_second: f64::from(mode.memory_mhz) * 1e6 * TRANSFERS * bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_have_the_bandwidths_of_their_data_sheets() {
        let boards = boards();
        let of = |board: &Board| {
            let limits = board.limits(board.fastest().expect("a mode"));
            (limits.bytes_per_second / 1e8).round() / 10.0
        };
        let all: Vec<_> = boards.iter().map(|one| (&*one.name, of(one))).collect();
        assert_eq!(all, [("Nano", 102.4), ("NX", 102.4), ("AGX", 204.7)]);
    }

    #[test]
    fn a_board_is_found_by_its_name_and_its_memory() {
        let nano = "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super";
        let name = |model, memory| Some(Board::find(model, memory)?.name);
        assert_eq!(name(nano, 7_800_000_000).as_deref(), Some("Nano"));
        // A module with a narrower bus.
        assert_eq!(name(nano, 3_900_000_000), None);
        let agx = "NVIDIA Jetson AGX Orin Developer Kit";
        assert_eq!(name(agx, 65_900_000_000).as_deref(), Some("AGX"));
        assert_eq!(name("a PC", 7_800_000_000), None);
    }
}
