//! In which form a matrix lies on the device: as its file has it, but for bf16 that meets activations of f16.
//!
//! A bf16 has fewer digits than an f16 and a wider range. Times a power of two of its row's own, nearly all of a
//! row is an f16 exactly: what is not lies 2^32 below the greatest of the row. So both cost the same.

use super::tiles::{Layout, TILE_ROWS, UNIT, padded};
use crate::model::Format;
use crate::tape::DType;

/// `Format` of `kernels/tile.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Storage {
    Stored(Format),
    /// f16 values, and for each row the power of two that they are to be multiplied by.
    ScaledF16,
}

impl Storage {
    pub(super) const fn of(format: Format, activation: DType) -> Self {
        match (format, activation) {
            (Format::BF16, DType::F16) => Self::ScaledF16,
            _ => Self::Stored(format),
        }
    }

    /// As kernels know it.
    pub(super) const fn code(self) -> u32 {
        match self {
            Self::Stored(Format::F32) => 0,
            Self::Stored(Format::F16) => 1,
            Self::Stored(Format::BF16) => 2,
            Self::Stored(Format::Q8_0) => 3,
            Self::Stored(Format::Q4_0) => 4,
            Self::Stored(Format::Q4_1) => 5,
            Self::Stored(Format::Q5_0) => 6,
            Self::Stored(Format::Q5_1) => 7,
            Self::Stored(Format::Q4_K) => 8,
            Self::Stored(Format::Q5_K) => 9,
            Self::Stored(Format::Q6_K) => 10,
            Self::ScaledF16 => 11,
        }
    }

    /// Of what a kernel is given.
    pub(super) fn of_code(code: u32) -> Option<Self> {
        let stored = Format::ALL.into_iter().map(Self::Stored);
        stored
            .chain([Self::ScaledF16])
            .find(|storage| storage.code() == code)
    }

    /// As kernels are named.
    pub(super) fn name(self) -> String {
        match self {
            Self::Stored(format) => format!("{format:?}").to_lowercase(),
            Self::ScaledF16 => "scaled_f16".into(),
        }
    }

    /// What its file has.
    pub(super) const fn format(self) -> Format {
        match self {
            Self::Stored(format) => format,
            Self::ScaledF16 => Format::BF16,
        }
    }

    pub(super) const fn layout(self) -> Layout {
        Layout::of(self.format())
    }

    /// Whether a value is a multiple of its scale and a minimum more.
    pub(super) const fn has_minimum(self) -> bool {
        matches!(
            self,
            Self::Stored(Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K)
        )
    }

    /// Columns that share a scale, as kernels sum them; `None` where values are as they are.
    pub(super) const fn block_columns(self) -> Option<usize> {
        match self {
            Self::ScaledF16 | Self::Stored(Format::F32 | Format::F16 | Format::BF16) => None,
            Self::Stored(Format::Q6_K) => Some(16),
            Self::Stored(_) => Some(32),
        }
    }

    /// Bytes of a tile of `columns` of a matrix.
    pub(super) const fn tile_bytes(self, columns: usize) -> usize {
        let scales = match self {
            Self::ScaledF16 => 4 * TILE_ROWS,
            Self::Stored(_) => 0,
        };
        self.layout().tile_bytes(padded(columns)) + scales
    }

    /// Bytes of a matrix in tiles.
    pub(super) const fn matrix_bytes(self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(TILE_ROWS) * self.tile_bytes(columns)
    }

    /// Writes one tile: `rows` are at most 16 rows of `columns` values as their file stores them, `out` has
    /// `tile_bytes`. Rows and columns that do not exist become zeros.
    pub(super) fn repack(self, columns: usize, rows: &[u8], out: &mut [u8]) {
        match self {
            Self::Stored(format) => super::tiles::repack(format, columns, rows, out),
            Self::ScaledF16 => {
                let (tile, scales) =
                    out.split_at_mut(padded(columns) / UNIT * self.layout().unit());
                let mut values = Vec::with_capacity(rows.len());
                scales.fill(0);
                for (row, scale) in rows.chunks_exact(2 * columns).zip(scales.as_chunks_mut().0) {
                    *scale = scale_row(row, &mut values).to_le_bytes();
                }
                super::tiles::repack(Format::F16, columns, &values, tile);
            }
        }
    }
}

/// Appends a row of bf16 as f16 and says what each is to be multiplied by.
fn scale_row(row: &[u8], scaled: &mut Vec<u8>) -> f32 {
    let values = || row.as_chunks().0.iter().copied().map(u16::from_le_bytes);
    // Without their signs, bits are in the order of their numbers.
    let magnitudes = values().map(|bits| bits & 0x7fff);
    let finite = magnitudes.map(|bits| if bits < 0x7f80 { bits } else { 0 });
    let greatest = finite.fold(0, u16::max);
    // The exponent of the greatest becomes 15, the highest of an f16; the least and the greatest of all are out of
    // reach either way.
    let exponent = (greatest >> 7).cast_signed() - 127;
    let up = if greatest == 0 {
        0
    } else {
        (15 - exponent).clamp(-112, 112)
    };
    // Digits all fit and need no rounding, where the exponent does: 1 to 30, as an f16 counts it.
    let moved = ((up - 112) << 7).cast_unsigned();
    let magnitude = |bits: u16| (bits & 0x7fff).wrapping_add(moved);
    let fits = |magnitude| (1 << 7..31 << 7).contains(&magnitude);
    let start = scaled.len();
    scaled.resize(start + row.len(), 0);
    let out = scaled[start..].as_chunks_mut().0;
    let mut all = true;
    for (bits, out) in values().zip(&mut *out) {
        let magnitude = magnitude(bits);
        all &= fits(magnitude);
        *out = (bits & 0x8000 | (magnitude & 0x0fff) << 3).to_le_bytes();
    }
    if !all {
        let factor = 2.0_f32.powi(i32::from(up));
        for (bits, out) in values().zip(out) {
            if !fits(magnitude(bits)) {
                let value = half::bf16::from_bits(bits).to_f32() * factor;
                *out = half::f16::from_f32(value).to_le_bytes();
            }
        }
    }
    2.0_f32.powi(-i32::from(up))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_of_thirty_two_powers_of_two_is_exact_as_scaled_f16() {
        let mut row = Vec::new();
        for power in -20..12 {
            for digits in [0x00, 0x01, 0x55, 0x7f_u16] {
                let exponent = u16::try_from(power + 127).expect("it is positive");
                row.extend((exponent << 7 | digits).to_le_bytes());
                row.extend((0x8000 | exponent << 7 | digits).to_le_bytes());
            }
        }
        let mut scaled = Vec::new();
        let scale = scale_row(&row, &mut scaled);
        for (was, is) in row.as_chunks().0.iter().zip(scaled.as_chunks().0) {
            let is = half::f16::from_le_bytes(*is).to_f32() * scale;
            assert_eq!(
                is.to_bits(),
                half::bf16::from_le_bytes(*was).to_f32().to_bits()
            );
        }
        assert_eq!(scaled.len(), row.len());
    }
}
