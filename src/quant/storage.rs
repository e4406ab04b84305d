//! The form of a matrix on a device: as in its file, except for bf16 with activations of f16.
//!
//! A bf16 has fewer digits than an f16 and a wider range. After multiplication by a power of two for each row, almost
//! all values are exact as f16; the others are less than 2^-32 of the greatest. Both formats therefore have the same
//! cost.

use super::Format;
use super::layout::{Layout, TILE_ROWS, UNIT, padded};
use super::tile;

/// `Format` of `kernels/format.cuh`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Storage {
    Stored(Format),
    /// f16 values, and the inverse power of two for each row.
    ScaledF16,
}

impl Storage {
    /// The storage of a format, with activations of f16 or others.
    #[must_use]
    pub const fn of(format: Format, meets_f16: bool) -> Self {
        match format {
            Format::BF16 if meets_f16 => Self::ScaledF16,
            _ => Self::Stored(format),
        }
    }

    /// The code of the format in kernels.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Stored(format) => format.number(),
            Self::ScaledF16 => 1 << 8,
        }
    }

    /// The storage with a code of kernels.
    #[must_use]
    pub fn of_code(code: u32) -> Option<Self> {
        let stored = Format::ALL.into_iter().map(Self::Stored);
        stored
            .chain([Self::ScaledF16])
            .find(|storage| storage.code() == code)
    }

    /// The name in kernels.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Stored(format) => format!("{format:?}").to_lowercase(),
            Self::ScaledF16 => "scaled_f16".into(),
        }
    }

    /// The format of the file.
    #[must_use]
    pub const fn format(self) -> Format {
        match self {
            Self::Stored(format) => format,
            Self::ScaledF16 => Format::BF16,
        }
    }

    #[must_use]
    pub const fn layout(self) -> Layout {
        self.format().about().layout
    }

    /// Bytes of a tile of `columns` of a matrix.
    #[must_use]
    pub const fn tile_bytes(self, columns: usize) -> usize {
        let scales = match self {
            Self::ScaledF16 => 4 * TILE_ROWS,
            Self::Stored(_) => 0,
        };
        self.layout().tile_bytes(padded(columns)) + scales
    }

    /// Bytes of a matrix in tiles.
    #[must_use]
    pub const fn matrix_bytes(self, rows: usize, columns: usize) -> usize {
        rows.div_ceil(TILE_ROWS) * self.tile_bytes(columns)
    }

    /// Writes one tile. `rows` are at most 16 rows of `columns` values as their file stores them; `out` has
    /// `tile_bytes`. Missing rows and columns become zero.
    pub fn repack(self, columns: usize, rows: &[u8], out: &mut [u8]) {
        match self {
            Self::Stored(format) => tile::repack(format, columns, rows, out),
            Self::ScaledF16 => {
                let (tile, scales) =
                    out.split_at_mut(padded(columns) / UNIT * self.layout().unit());
                let mut values = Vec::with_capacity(rows.len());
                scales.fill(0);
                for (row, scale) in rows.chunks_exact(2 * columns).zip(scales.as_chunks_mut().0) {
                    *scale = scale_row(row, &mut values).to_le_bytes();
                }
                tile::repack(Format::F16, columns, &values, tile);
            }
        }
    }
}

/// Appends a row of bf16 as f16, and returns the factor that restores it.
fn scale_row(row: &[u8], scaled: &mut Vec<u8>) -> f32 {
    let values = || row.as_chunks().0.iter().copied().map(u16::from_le_bytes);
    // Without their signs, bits are in the order of their numbers.
    let magnitudes = values().map(|bits| bits & 0x7fff);
    let finite = magnitudes.map(|bits| if bits < 0x7f80 { bits } else { 0 });
    let greatest = finite.fold(0, u16::max);
    // The greatest exponent becomes 15, the highest of an f16. The least and the greatest bf16 are out of reach either
    // way.
    let exponent = (greatest >> 7).cast_signed() - 127;
    let up = if greatest == 0 {
        0
    } else {
        (15 - exponent).clamp(-112, 112)
    };
    // The digits always fit without rounding; the exponent fits from 1 to 30, as an f16 counts it.
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

    /// A line of the list in `kernels/format.cuh`: number, bytes of quants, high bits, scales and head, columns of a
    /// block.
    fn line(storage: Storage) -> String {
        let layout = storage.layout();
        let block = layout.block_columns.unwrap_or(0);
        let parts = [
            layout.quants,
            layout.high,
            layout.scales,
            layout.head,
            block,
        ];
        let parts = parts.map(|part| part.to_string()).join(",");
        let name = storage.name().to_uppercase();
        format!("FORMAT({name},{},{parts},", storage.code())
    }

    #[test]
    fn kernels_have_the_same_formats() {
        let kernels = include_str!("../../kernels/format.cuh").replace(' ', "");
        let lines = || kernels.lines().filter(|line| line.starts_with("FORMAT("));
        let all = Format::ALL.map(Storage::Stored).into_iter();
        let all: Vec<_> = all.chain([Storage::ScaledF16]).collect();
        assert_eq!(lines().count(), all.len());
        for storage in all {
            let ours = line(storage);
            let theirs = lines().find(|line| line.starts_with(&ours));
            let theirs = theirs.unwrap_or_else(|| panic!("kernels/format.cuh has no {ours}"));
            let pairs = theirs.contains("PAIRS");
            assert_eq!(pairs, storage.layout().has_minimum, "{theirs}");
        }
    }

    #[test]
    fn scaled_f16_is_exact_over_thirty_two_powers_of_two() {
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
