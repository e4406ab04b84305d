//! The shared memory of a step's product: how many rows and warps a block has, and how many blocks fit a
//! multiprocessor.

use crate::device::STEP_ROWS;
use crate::quant::{Format, Storage};

/// Shared memory of a multiprocessor for all blocks: that of an Orin. Larger devices use the rest as cache.
const MULTIPROCESSOR_SHARED: usize = 164 << 10;
/// Bytes that the system reserves for each block.
const RESERVED: usize = 1 << 10;

/// The most blocks with one team on a multiprocessor.
const BLOCKS: usize = 2;
/// The most teams of a block, and of a block that works in phases.
const TEAMS: u32 = 3;
const PHASED_TEAMS: u32 = 2;
/// Teams of a block with one row and a shared table of codes: a multiprocessor then has a single table.
const CODES_TEAMS: u32 = 2;
/// Bytes of that table: all pairs of codes for each lane of a warp, as `Codes` of `kernels/step/codes.cuh`.
const TABLE: usize = 256 * 32 * 4;
/// The numbers of phases into which columns can be split, if they do not fit together.
const PHASES: [u32; 3] = [2, 4, 8];

/// The properties of a product of several rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub(super) storage: Storage,
    pub(super) rows: u32,
    pub(super) columns: usize,
    /// Tiles of weights, and the multiprocessors that share them.
    pub(super) tiles: u32,
    pub(super) multiprocessors: u32,
    /// Whether whole rows are needed, because the kernel norms them.
    pub(super) whole: bool,
}

/// How a block sums the rows of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Rows at a time.
    pub(super) rows: u32,
    /// Teams of eight warps, each with its own tiles.
    pub(super) teams: u32,
    /// Parts of the columns, one after another.
    pub(super) phases: u32,
    /// Bytes of shared memory.
    pub(super) shared: usize,
}

impl Fit {
    /// Selects a layout for a number of bytes: first as many rows as possible, because weights are read again for the
    /// others; then two or more teams; then all columns together.
    pub(super) fn of(problem: Problem, room: usize) -> Self {
        let mut rows = problem.rows;
        loop {
            let at_once = |teams: u32| Self::at_once(problem, rows, teams, room);
            let several = || (2..=TEAMS).rev().find_map(at_once);
            let in_phases = |teams: u32| Self::in_phases(problem, rows, teams, room);
            let fit = if rows == 1 {
                let codes = problem.storage.layout().codes;
                let two = codes.then(|| at_once(CODES_TEAMS)).flatten();
                two.or_else(|| at_once(1))
            } else {
                several()
                    .or_else(|| in_phases(PHASED_TEAMS))
                    .or_else(|| at_once(1))
                    .or_else(|| in_phases(1))
            };
            if let Some(fit) = fit {
                return fit;
            }
            rows /= 2;
        }
    }

    /// A layout with all columns together. A single team with one row is used even without enough room.
    fn at_once(problem: Problem, rows: u32, teams: u32, room: usize) -> Option<Self> {
        let columns = problem.columns;
        let shared = bytes(problem.storage, rows as usize, columns, teams as usize);
        (shared <= room || rows == 1 && teams == 1).then_some(Self {
            rows,
            teams,
            phases: 1,
            shared,
        })
    }

    /// A layout for two products of the same rows, whose blocks have as many warps; `None` if either has no room for
    /// all rows and columns.
    pub(super) fn of_both(problems: [Problem; 2], room: usize) -> Option<Self> {
        let fits = problems.map(|problem| Self::of(problem, room));
        let teams = fits[0].teams.min(fits[1].teams);
        let of = |problem: &Problem| {
            let (rows, teams) = (problem.rows as usize, teams as usize);
            bytes(problem.storage, rows, problem.columns, teams)
        };
        let whole = |(problem, fit): (&Problem, &Self)| fit.rows == problem.rows && fit.phases == 1;
        problems.iter().zip(&fits).all(whole).then(|| Self {
            teams,
            shared: problems.iter().map(of).max().unwrap_or_default(),
            ..fits[0]
        })
    }

    /// A layout that keeps the sums of each tile of a team from phase to phase.
    fn in_phases(problem: Problem, rows: u32, teams: u32, room: usize) -> Option<Self> {
        let mut fits = PHASES.into_iter().filter_map(|phases| {
            let kept = problem.tiles.div_ceil(problem.multiprocessors * teams) * teams;
            let columns = phase_columns(problem.columns, phases as usize);
            let shared = bytes(problem.storage, rows as usize, columns, teams as usize)
                + kept as usize * SUMMED_BYTES;
            (shared <= room).then_some(Self {
                rows,
                teams,
                phases,
                shared,
            })
        });
        fits.next().filter(|_| rows > 1 && !problem.whole)
    }

    /// The number of blocks that fit a multiprocessor, at least one.
    pub(super) fn blocks(self) -> usize {
        let alone = self.teams > 1 || self.phases > 1;
        let most = if alone { 1 } else { BLOCKS };
        resident(self.shared).clamp(1, most)
    }
}

/// The number of blocks with `shared` bytes that fit a multiprocessor.
pub(super) const fn resident(shared: usize) -> usize {
    MULTIPROCESSOR_SHARED / (shared + RESERVED)
}

/// Bytes of shared memory: a table of codes, the rows, the corrections of their blocks' sums, the sums of a team's
/// eight warps, and the warps' rings. See `Rows` of `kernels/step/rows.cuh` and `Ring` of `kernels/step/fetch.cuh`.
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
        _ if one && (layout.codes || 576 < unit && unit < 1024) => (4608 / together).clamp(2, 6),
        _ if one => (6912 / together).clamp(2, 6),
        _ => (3456 / together).clamp(2, 4),
    };
    let excess = layout.block_columns.map_or(0, |block| {
        columns / block * if one { 8 } else { 8 * STEP_ROWS / 2 }
    });
    let parts = match layout.block_columns {
        // Four tiles, twice.
        Some(_) if one => 2 * 4 * 8 * 16,
        None if one => 2 * 8 * 16,
        _ => 8 * STEP_ROWS * 16,
    };
    let apart = if one { 0 } else { 8 };
    let table = if one && layout.codes { TABLE } else { 0 };
    table + 2 * (columns + apart) * rows + excess + teams * (4 * parts + 8 * depth * together)
}

/// Bytes of a tile's sums between two phases: four numbers for each thread.
const SUMMED_BYTES: usize = 256 * 16;

/// Columns of a phase: whole rounds of eight warps with 64 columns each, as `Phases` of `kernels/step/rows.cuh`.
const fn phase_columns(columns: usize, phases: usize) -> usize {
    const ROUND: usize = 8 * 64;
    columns.div_ceil(ROUND).div_ceil(phases) * ROUND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_prefer_rows_then_teams_then_columns() {
        let fit = |format: Format,
                   rows: u32,
                   columns: usize,
                   kib: usize,
                   multiprocessors: u32,
                   whole: bool| {
            let problem = Problem {
                storage: Storage::Stored(format),
                rows,
                columns,
                tiles: 160,
                multiprocessors,
                whole,
            };
            let fit = Fit::of(problem, kib << 10);
            assert!(fit.shared <= kib << 10);
            (fit.rows, fit.phases, fit.teams)
        };
        let of = |rows, columns, kib, multiprocessors, whole| {
            fit(Format::Q4_0, rows, columns, kib, multiprocessors, whole)
        };
        assert_eq!(of(8, 2560, 163, 16, true), (8, 1, 3));
        assert_eq!(of(8, 4096, 163, 16, true), (8, 1, 3));
        assert_eq!(of(8, 9728, 227, 132, false), (8, 1, 2));
        assert_eq!(fit(Format::Q6_K, 8, 9728, 227, 132, false), (8, 2, 2));
        assert_eq!(of(8, 9728, 163, 16, false), (8, 4, 2));
        assert_eq!(of(8, 9728, 163, 8, false), (8, 4, 1));
        assert_eq!(of(8, 12288, 163, 16, true), (4, 1, 1));
        assert_eq!(of(1, 9728, 163, 16, false), (1, 1, 1));
        // With codes, two teams share a table; without room for two teams, one has it.
        let mut formats = Format::ALL.into_iter();
        let coded = formats.find(|format| Storage::Stored(*format).layout().codes);
        let of_coded = |columns| fit(coded.expect("a format"), 1, columns, 163, 16, false);
        assert_eq!(of_coded(9728), (1, 1, 2));
        assert_eq!(of_coded(27_648), (1, 1, 1));
    }

    #[test]
    fn two_products_share_the_room_of_the_larger_one() {
        let of = |rows: u32, columns: usize| {
            [Format::Q4_K, Format::Q6_K].map(|format| Problem {
                storage: Storage::Stored(format),
                rows,
                columns,
                tiles: 64,
                multiprocessors: 16,
                whole: true,
            })
        };
        for rows in [1, 2, 8] {
            let problems = of(rows, 2560);
            let both = Fit::of_both(problems, 163 << 10).expect("both have room");
            assert_eq!((both.rows, both.phases), (rows, 1));
            for problem in problems {
                let alone = bytes(problem.storage, rows as usize, 2560, both.teams as usize);
                assert!(alone <= both.shared && both.shared <= 163 << 10);
            }
        }
        // Four times eight rows would need another kernel.
        assert_eq!(Fit::of_both(of(8, 12288), 163 << 10), None);
    }
}
