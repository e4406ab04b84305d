//! The operations on the rows of a prompt that are embeddings of an image, and the positions that these rows have.
//!
//! The host writes the embeddings into a buffer of the tape, one row for each row of the prompt, and says which rows
//! they are. Other rows of the buffer may contain anything.

use super::operands::Buffer;

/// An operation on the rows of images. Other rows stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageRows {
    /// `x = rows`
    Place { rows: Buffer, x: Buffer },
    /// `x += rows`, of which the columns from `first` on are added (DeepStack: Meng et al. 2024).
    Add {
        rows: Buffer,
        first: usize,
        x: Buffer,
    },
}

impl ImageRows {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Place { .. } => "place_images",
            Self::Add { .. } => "add_images",
        }
    }

    /// The buffer that the host writes.
    #[must_use]
    pub const fn rows(self) -> Buffer {
        match self {
            Self::Place { rows, .. } | Self::Add { rows, .. } => rows,
        }
    }

    /// The residual stream.
    #[must_use]
    pub const fn x(self) -> Buffer {
        match self {
            Self::Place { x, .. } | Self::Add { x, .. } => x,
        }
    }
}

/// The pairs of a head that rotate by each part of a position: by time, row and column of an image. The parts alternate
/// from the first pair on, and the remaining pairs rotate by time (interleaved M-RoPE: Qwen3-VL).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections {
    /// The number of pairs of each part.
    pub pairs: [usize; 3],
}

impl Sections {
    /// The part that a pair rotates by: 0 is time, 1 the row, 2 the column.
    #[must_use]
    pub const fn part(self, pair: usize) -> usize {
        let part = pair % 3;
        if part > 0 && pair < 3 * self.pairs[part] {
            part
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Qwen3.5: rows have the pairs 1, 4, ..., 31, columns 2, 5, ..., 29.
    #[test]
    fn parts_alternate_until_their_pairs_are_used() {
        let sections = Sections {
            pairs: [11, 11, 10],
        };
        let parts: Vec<usize> = (0..32).map(|pair| sections.part(pair)).collect();
        assert_eq!(parts[..6], [0, 1, 2, 0, 1, 2]);
        assert_eq!(parts[27..], [0, 1, 2, 0, 1]);
        for (part, pairs) in sections.pairs.into_iter().enumerate() {
            assert_eq!(parts.iter().filter(|of| **of == part).count(), pairs);
        }
        let uneven = Sections { pairs: [6, 5, 5] };
        assert_eq!(uneven.part(16), 0, "the columns have their five pairs");
    }
}
