//! The layout of weights in device memory, which `kernels/tile.cuh` describes.

/// Rows of a tile.
pub const TILE_ROWS: usize = 16;
/// Columns of a unit.
pub const UNIT: usize = 64;

/// Columns of the sums that a prompt's kernels multiply by minima.
const SUMMED: usize = 32;

/// Bytes of the parts of a unit, and of the head that four units of a K format share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub quants: usize,
    pub high: usize,
    pub scales: usize,
    pub head: usize,
    /// Columns that share a scale in kernels; `None` for formats without scales.
    pub block_columns: Option<usize>,
    /// Whether values have a minimum besides their scale.
    pub has_minimum: bool,
    /// Whether nibbles are codes for a lookup table.
    pub codes: bool,
}

impl Layout {
    /// The layout of nibbles without scales.
    pub(super) const NIBBLES: Self = Self {
        quants: 512,
        ..Self::of_values(0)
    };

    /// The layout of values with a number of bytes each.
    pub(super) const fn of_values(bytes: usize) -> Self {
        Self {
            quants: TILE_ROWS * UNIT * bytes,
            high: 0,
            scales: 0,
            head: 0,
            block_columns: None,
            has_minimum: false,
            codes: false,
        }
    }

    /// Whether a prompt's kernels multiply minima by sums of the inputs. They multiply minima of fewer columns by the
    /// inputs themselves.
    #[must_use]
    pub const fn needs_sums(self) -> bool {
        self.has_minimum && matches!(self.block_columns, Some(SUMMED))
    }

    #[must_use]
    pub const fn unit(self) -> usize {
        self.quants + self.high + self.scales
    }

    /// The offsets of the head and of a unit in a tile.
    pub(super) const fn places(self, unit: usize) -> (usize, usize) {
        if self.head == 0 {
            return (0, unit * self.unit());
        }
        let head = unit / 4 * (self.head + 4 * self.unit());
        (head, head + self.head + unit % 4 * self.unit())
    }

    /// Bytes of a tile of `columns`, a multiple of `UNIT`.
    pub(super) const fn tile_bytes(self, columns: usize) -> usize {
        columns / UNIT * self.unit() + columns / 256 * self.head
    }
}

/// Columns rounded up to whole units.
#[must_use]
pub const fn padded(columns: usize) -> usize {
    columns.next_multiple_of(UNIT)
}
