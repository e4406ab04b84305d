//! From bytes to the numbers that a tower reads.

/// The number of a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Normalization {
    /// `byte / 255`.
    Scaled,
    /// `(byte / 255 - mean) / deviation`, for red, green and blue.
    Standardized { mean: [f32; 3], deviation: [f32; 3] },
}

impl Normalization {
    /// From -1 to 1.
    pub const SYMMETRIC: Self = Self::Standardized {
        mean: [0.5; 3],
        deviation: [0.5; 3],
    };

    /// Returns the numbers of all bytes, by channel. The operations are those of the reference, in its order.
    pub(super) fn table(self) -> [[f32; 256]; 3] {
        const MOST: f32 = 255.0;
        let mut table = [[0.0; 256]; 3];
        for (channel, numbers) in table.iter_mut().enumerate() {
            for (byte, number) in (0_u8..=255).zip(numbers) {
                *number = match self {
                    Self::Scaled => f32::from(byte) * (1.0 / MOST),
                    Self::Standardized { mean, deviation } => {
                        (f32::from(byte) - MOST * mean[channel]) / (MOST * deviation[channel])
                    }
                };
            }
        }
        table
    }
}
