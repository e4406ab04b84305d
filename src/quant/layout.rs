//! How the parts of weights lie in device memory: the other side of `kernels/tile.cuh`, which describes it.

/// Rows of a tile.
pub const TILE_ROWS: usize = 16;
/// Columns of a unit.
pub const UNIT: usize = 64;

/// Bytes of the parts of a unit, and of the head that four units of a K format share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub quants: usize,
    pub high: usize,
    pub scales: usize,
    pub head: usize,
    /// Columns that share a scale, as kernels sum them; `None` where values are as they are.
    pub block_columns: Option<usize>,
    /// Whether a value is a multiple of its scale and a minimum more.
    pub has_minimum: bool,
    /// Whether nibbles are codes, which kernels look up.
    pub codes: bool,
}

impl Layout {
    /// How nibbles lie, without the scales that belong to them.
    pub(super) const NIBBLES: Self = Self {
        quants: 512,
        ..Self::of_values(0)
    };

    /// How values of so many bytes each lie.
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

    #[must_use]
    pub const fn unit(self) -> usize {
        self.quants + self.high + self.scales
    }

    /// Where the head and the unit itself begin in their tile.
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
