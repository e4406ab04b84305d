//! The formats whose nibbles are codes. Each code stands for one of sixteen values, which are denser near zero.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

use super::block::{Block, Factors, nibbles, split, two_blocks};
use super::layout::Layout;
use super::long::Long;
use super::recipe;
use super::rows::Destination;
use super::short::Short;
use super::vectors::Vectors;

/// The values of the codes.
const VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Codes with a scale for each block of 32.
const OF_HALVES: Layout = Layout {
    scales: 64,
    block_columns: Some(32),
    codes: true,
    ..Layout::NIBBLES
};

/// Codes with a byte as the scale for each 32 of them.
pub(super) const OF_BYTES: Layout = Layout {
    scales: 32,
    head: 32,
    ..OF_HALVES
};

/// The value of a code, selected bit by bit: without a table, vectors of bytes are computed at once.
#[inline(always)]
fn value(code: u8) -> i8 {
    let mut left = VALUES.map(i8::cast_unsigned);
    for bit in 0..4 {
        let mask = 0_u8.wrapping_sub(code >> bit & 1);
        for at in 0..8 >> bit {
            let (clear, set) = (left[2 * at], left[2 * at + 1]);
            left[at] = clear ^ (clear ^ set) & mask;
        }
    }
    left[0].cast_signed()
}

/// The values of codes.
#[inline(always)]
fn looked_up<const N: usize>(codes: [u8; N]) -> [i8; N] {
    let mut integers = [0; N];
    for (integer, code) in integers.iter_mut().zip(codes) {
        *integer = value(code);
    }
    integers
}

/// The values of the codes of two groups.
#[inline(always)]
fn looked_up_in<V: Vectors>(vectors: V, [first, second]: [&[u8; 16]; 2]) -> V::Bytes {
    vectors.look_up(&VALUES, two_blocks(vectors, first, second))
}

/// The codes in the form for kernels, with the upper two bits exchanged: see `codebook` in `kernels/format.cuh`.
pub(super) fn for_kernels<const N: usize>(codes: [u8; N]) -> [u8; N] {
    codes.map(|code| code & 3 | (code & 4) << 1 | (code & 8) >> 1)
}

pub(super) struct IQ4_NL;
impl Block<18, 32, 1> for IQ4_NL {
    const LAYOUT: Layout = OF_HALVES;
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 67.0,
        minimum: 0.0,
    };

    #[inline(always)]
    fn integers([_, _, codes @ ..]: &[u8; 18]) -> [i8; 32] {
        looked_up(nibbles(codes))
    }

    #[inline(always)]
    fn factors(_: &[u8; 18], [scale]: [f32; 1]) -> Factors {
        Factors::of_one(scale, 0.0)
    }

    fn take_apart([d0, d1, codes @ ..]: &[u8; 18], to: &mut Destination<'_, 32>) {
        to.scale(0, &[*d0, *d1]);
        *to.quants = for_kernels(nibbles(codes));
    }
}
impl Short<18, 1> for IQ4_NL {
    const SIGNED: bool = true;

    #[inline(always)]
    fn vector<V: Vectors>(vectors: V, [first, second]: [&[u8; 18]; 2]) -> V::Bytes {
        let [(_, first), (_, second)] = [split::<2, 16, 18>(first), split::<2, 16, 18>(second)];
        looked_up_in(vectors, [first, second])
    }
}

/// The scales of eight groups of 32 codes, then zeros. Each has 6 bits and an offset of 32; the upper two bits are in
/// the first two bytes.
#[inline(always)]
fn group_scales([h0, h1, low @ ..]: &[u8; 6]) -> [i8; 16] {
    // Each step halves the bits that are together, until each scale's are in a byte of its own.
    let low = u64::from(u32::from_le_bytes(*low));
    let low = (low | low << 16) & 0x0000_ffff_0000_ffff;
    let low = (low | low << 8) & 0x00ff_00ff_00ff_00ff;
    let low = (low | low << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let high = u64::from(u16::from_le_bytes([*h0, *h1]));
    let high = (high | high << 24) & 0x0000_00ff_0000_00ff;
    let high = (high | high << 12) & 0x000f_000f_000f_000f;
    let high = (high | high << 6) & 0x0303_0303_0303_0303;
    // The uppermost bit of each byte keeps it from borrowing of the next one.
    let raised = low | high << 4 | 0x8080_8080_8080_8080;
    let scales = (raised - 0x2020_2020_2020_2020) ^ 0x8080_8080_8080_8080;
    pulp::cast([scales.to_le(), 0])
}

pub(super) struct IQ4_XS;
impl Block<136, 256, 1> for IQ4_XS {
    const LAYOUT: Layout = OF_BYTES;
    const RANDOM: recipe::Scales = recipe::Scales {
        at: 0,
        spread: 1250.0,
        minimum: 0.0,
    };

    #[inline(always)]
    fn integers(block: &[u8; 136]) -> [i8; 256] {
        let (_, codes) = split::<8, 128, 136>(block);
        let mut integers = [0; 256];
        let groups = integers.as_chunks_mut::<32>().0;
        for (group, codes) in groups.iter_mut().zip(codes.as_chunks::<16>().0) {
            *group = looked_up(nibbles(codes));
        }
        integers
    }

    #[inline(always)]
    fn factors(block: &[u8; 136], [scale]: [f32; 1]) -> Factors {
        let ([_, _, packed @ ..], _) = split::<8, 128, 136>(block);
        Factors {
            scales: group_scales(packed),
            ..Factors::of_one(scale, 0.0)
        }
    }

    fn take_apart(block: &[u8; 136], to: &mut Destination<'_, 256>) {
        let ([d0, d1, scales @ ..], codes) = split::<8, 128, 136>(block);
        to.head(&[*d0, *d1]);
        for (group, scale) in group_scales(scales).into_iter().take(8).enumerate() {
            to.scale(group, &scale.to_le_bytes());
        }
        let quants = to.quants.as_chunks_mut::<32>().0;
        for (quants, codes) in quants.iter_mut().zip(codes.as_chunks::<16>().0) {
            *quants = for_kernels(nibbles(codes));
        }
    }
}
impl Long<136, 1> for IQ4_XS {
    #[inline(always)]
    fn unpack<V: Vectors>(vectors: V, block: &[u8; 136]) -> [V::Bytes; 4] {
        let (_, codes) = split::<8, 128, 136>(block);
        let groups = codes.as_chunks().0;
        [
            looked_up_in(vectors, [&groups[0], &groups[1]]),
            looked_up_in(vectors, [&groups[2], &groups[3]]),
            looked_up_in(vectors, [&groups[4], &groups[5]]),
            looked_up_in(vectors, [&groups[6], &groups[7]]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::TILE_ROWS;
    use super::super::rows::TileRows;
    use super::super::{Format, random};

    /// The instruction `prmt` of PTX: each nibble of `by` selects a byte of the two words, or the sign of that byte in
    /// all bits.
    fn permute(low: u32, high: u32, by: u32) -> [u8; 4] {
        let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
        std::array::from_fn(|at| {
            let by = by >> (4 * at) & 15;
            let byte = bytes[(by & 7) as usize];
            match (by & 8, byte & 0x80) {
                (0, _) => byte,
                (_, 0) => 0,
                _ => 0xff,
            }
        })
    }

    /// The words of the line of `kernels/format.cuh` for a format.
    fn words(format: Format) -> Vec<u32> {
        let kernels = include_str!("../../kernels/format.cuh");
        let begin = format!("CODEBOOK({format:?}, ");
        let line = kernels.lines().find_map(|line| line.strip_prefix(&begin));
        let line = line.unwrap_or_else(|| panic!("kernels/format.cuh has no {begin}"));
        let words = line.trim_end_matches(')').split(", ").map(|word| {
            let digits = word.trim_start_matches("0x").trim_end_matches('u');
            u32::from_str_radix(digits, 16).expect("a word")
        });
        words.collect()
    }

    #[test]
    fn kernels_look_up_the_same_integers() {
        let formats = Format::ALL.into_iter();
        for format in formats.filter(|format| format.about().layout.codes) {
            let (about, words) = (format.about(), words(format));
            let blocks = random::matrix(5, format, TILE_ROWS, 1024);
            let mut apart = TileRows::new(about.layout, 1024);
            (about.take_apart)(&blocks, 1024, &mut apart);
            let mut codes = apart.quants.iter();
            format.groups(&blocks, |integers, _, _| {
                for (integer, code) in integers.iter().zip(codes.by_ref()) {
                    let stored = u32::from(*code) * 0x1111;
                    let low = permute(words[0], words[1], stored);
                    let high = permute(words[2], words[3], stored ^ 0x8888);
                    for (low, high) in low.into_iter().zip(high) {
                        let found = i32::from(low ^ high) - 128;
                        assert_eq!(found, i32::from(*integer), "{format:?} {code}");
                    }
                }
            });
            assert_eq!(codes.len(), 0);
        }
    }
}
