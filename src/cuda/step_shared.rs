//! Shared memory of a step's product, how many rows and warps it takes at once, and how many of its blocks that leaves room for.

use crate::device::STEP_ROWS;
use crate::quant::{Format, Storage};

/// Shared memory of a multiprocessor that blocks may share: an Orin's, and that of larger ones beside their first cache.
const MULTIPROCESSOR_SHARED: usize = 163 << 10;

/// Blocks of one team on a multiprocessor, at most.
const BLOCKS: usize = 2;
/// Teams of a block, at most.
const TEAMS: u32 = 3;

/// How a block sums the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Rows at once.
    pub(super) rows: u32,
    /// Eight warps each, that take tiles of their own.
    pub(super) teams: u32,
    /// Bytes of shared memory.
    pub(super) shared: usize,
}

impl Fit {
    /// What fits so many bytes: as many rows at once as can be, for weights are read anew for those that are left; then
    /// as many warps.
    pub(super) fn of(storage: Storage, rows: u32, columns: usize, room: usize) -> Self {
        let mut rows = rows;
        loop {
            let most = if rows == 1 { 1 } else { TEAMS };
            for teams in (1..=most).rev() {
                let shared = bytes(storage, rows as usize, columns, teams as usize);
                if shared <= room || (rows == 1 && teams == 1) {
                    return Self {
                        rows,
                        teams,
                        shared,
                    };
                }
            }
            rows /= 2;
        }
    }

    /// How many blocks a multiprocessor has room for; at least one.
    pub(super) fn blocks(self) -> usize {
        let most = if self.teams == 1 { BLOCKS } else { 1 };
        (MULTIPROCESSOR_SHARED / self.shared).clamp(1, most)
    }
}

/// Bytes of shared memory: the rows, what goes off the sums of each block of theirs, what eight warps of a team have summed,
/// and the warps' rings. `Rows` and `Ring` of `kernels/step/product.cuh`.
pub(super) fn bytes(of: Storage, rows: usize, columns: usize, teams: usize) -> usize {
    let layout = of.layout();
    let unit = layout.unit() + layout.head;
    let one = rows == 1;
    let together = if unit < (if one { 2048 } else { 1024 }) {
        2 * unit
    } else {
        unit
    };
    let depth = match (of.format(), layout.block_columns) {
        (Format::F32, _) => 4,
        (_, None) if one => 6,
        (_, None) => 3,
        _ if one => (4608 / together).clamp(2, 4),
        _ => (3456 / together).clamp(2, 4),
    };
    let excess = layout.block_columns.map_or(0, |block| {
        columns / block * if one { 16 } else { 8 * STEP_ROWS / 2 }
    });
    let parts = if one { 2 * 8 * 16 } else { 8 * STEP_ROWS * 16 };
    let apart = if one { 0 } else { 32 };
    2 * (columns + apart) * rows + excess + teams * (4 * parts + 8 * depth * together)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_rows_as_there_is_room_for_come_before_as_many_warps() {
        let of = |rows: u32, columns: usize, kib: usize| {
            let fit = Fit::of(Storage::Stored(Format::Q4_0), rows, columns, kib << 10);
            assert!(fit.shared <= kib << 10);
            (fit.rows, fit.teams)
        };
        assert_eq!(of(8, 2560, 163), (8, 3));
        assert_eq!(of(8, 4096, 163), (8, 3));
        assert_eq!(of(8, 9728, 227), (8, 2));
        assert_eq!(of(8, 9728, 163), (4, 2));
        assert_eq!(of(1, 9728, 163), (1, 1));
    }
}
