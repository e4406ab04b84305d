//! How an executor records steps and prompts: plain values with their defaults.

use super::buckets::Budget;
use super::mode::Mode;

/// What an executor records, and how much memory the recordings may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphOptions {
    pub mode: Mode,
    /// Rows to which short prompts are padded (`Mode::Full`).
    pub capture_sizes: Vec<usize>,
    /// The limits of recorded prompts.
    pub budget: Budget,
    /// Whether prompts are recorded when the model has been loaded, rather than on their first use.
    pub record_at_start: bool,
    /// Whether every replay is checked against the recorded addresses.
    pub verify_addresses: bool,
    /// The number of first replays that are refused on purpose, for tests.
    pub refuse_launches: u32,
    /// The bytes that a step moves between two points where it can be preempted.
    pub part_bytes: u64,
}

/// A smaller part costs more launches, and a larger one makes an arriving request wait longer.
const PART_BYTES: u64 = 512 << 20;

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            capture_sizes: vec![16, 32, 64, 128],
            budget: Budget {
                graphs: 16,
                bytes: 64 << 20,
            },
            record_at_start: false,
            verify_addresses: false,
            refuse_launches: 0,
            part_bytes: PART_BYTES,
        }
    }
}
