//! Philox4x32-10 (Salmon et al. 2011): a random number is a pure function of seed and counter. A recorded step needs no
//! generator state, and every device draws the same numbers.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// Returns four random words.
pub(super) fn philox(mut key: [u32; 2], mut counter: [u32; 4]) -> [u32; 4] {
    for _ in 0..ROUNDS {
        let wide = |n: usize| u64::from(MULTIPLIERS[n]) * u64::from(counter[2 * n]);
        let [(high0, low0), (high1, low1)] = [wide(0), wide(1)].map(halves);
        counter = [
            high1 ^ counter[1] ^ key[0],
            low1,
            high0 ^ counter[3] ^ key[1],
            low0,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// Returns a number in 0..1 with the 24 bits of an f32's significand.
pub(super) fn uniform(seed: u64, counter: u64) -> f32 {
    let ((key1, key0), (high, low)) = (halves(seed), halves(counter));
    let [word, ..] = philox([key0, key1], [low, high, 0, 0]);
    #[allow(clippy::cast_precision_loss)] // 24 bits are exact in an f32
    let significand = (word >> 8) as f32;
    significand / 16_777_216.0
}

#[allow(clippy::cast_possible_truncation)] // the low half is what is meant
fn halves(wide: u64) -> (u32, u32) {
    ((wide >> 32) as u32, wide as u32)
}

#[cfg(test)]
mod tests {
    use super::philox;

    /// Known answers published with the Random123 library. A wrong constant would still look random.
    #[test]
    fn known_answers() {
        assert_eq!(
            philox([0; 2], [0; 4]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 2], [u32::MAX; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
    }
}
