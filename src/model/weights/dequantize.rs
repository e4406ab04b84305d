//! The values of stored blocks, in the operations and the order that the Python package `gguf` uses, so
//! that every bit agrees; the layouts are those of ggml's `ggml-common.h`.
//!
//! The loops run over arrays of known length, so that they vectorize for whatever instructions the
//! caller has enabled: each function is inlined into it.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it
#![allow(non_camel_case_types)] // named as `Format` names them

use std::hint::black_box;

/// Blocks whose halves are converted at once: one conversion alone takes as long as ten values.
const GROUP: usize = 8;

/// Values of a number format without blocks that are handed on at once.
const PIECE: usize = 32;

/// A format's blocks of `B` bytes, of `N` values each, which begin with `H` halves.
pub(super) trait Block<const B: usize, const N: usize, const H: usize> {
    /// Of a block, and the values of its halves.
    fn values(block: &[u8; B], halves: [f32; H]) -> [f32; N];
}

/// Hands on the values of each block.
#[inline(always)]
pub(super) fn blocks<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    bytes: &[u8],
    mut sink: impl FnMut(&[f32]),
) {
    let (groups, rest) = bytes.as_chunks::<B>().0.as_chunks::<GROUP>();
    for group in groups {
        some_blocks::<F, B, N, H>(group, &mut sink);
    }
    some_blocks::<F, B, N, H>(rest, &mut sink);
}

/// At most as many as are converted at once. Loops, where arrays have a `map`: that, and functions as arguments, are not
/// always inlined.
#[inline(always)]
fn some_blocks<F: Block<B, N, H>, const B: usize, const N: usize, const H: usize>(
    blocks: &[[u8; B]],
    sink: &mut impl FnMut(&[f32]),
) {
    let mut heads = [0; GROUP];
    for (head, block) in heads.iter_mut().zip(blocks) {
        *head = u32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    }
    let mut halves = [[0.0; GROUP]; H];
    for (i, halves) in halves.iter_mut().enumerate() {
        for (value, head) in halves.iter_mut().zip(heads) {
            *value = half(head >> (16 * i) & 0xffff);
        }
    }
    // A block's bytes lie side by side and those of several blocks do not: the empty barriers keep the compiler from
    // vectorizing across blocks, which would gather single bytes (three times slower).
    let halves = black_box(halves);
    for (at, block) in blocks.iter().enumerate() {
        let mut own = [0.0; H];
        for (own, halves) in own.iter_mut().zip(&halves) {
            *own = halves[at];
        }
        sink(&F::values(block, own));
        black_box(());
    }
}

/// A number of `B` bytes.
pub(super) trait Number<const B: usize> {
    fn value(bytes: [u8; B]) -> f32;
}

/// Hands on the values of numbers, some at a time.
#[inline(always)]
pub(super) fn numbers<F: Number<B>, const B: usize>(bytes: &[u8], mut sink: impl FnMut(&[f32])) {
    let (pieces, rest) = bytes.as_chunks::<B>().0.as_chunks::<PIECE>();
    for piece in pieces {
        let mut values = [0.0; PIECE];
        for (value, number) in values.iter_mut().zip(piece) {
            *value = F::value(*number);
        }
        sink(&values);
    }
    let mut values = [0.0; PIECE];
    for (value, number) in values.iter_mut().zip(rest) {
        *value = F::value(*number);
    }
    sink(&values[..rest.len()]);
}

/// The value of an IEEE 754 half, subnormals, infinities and NaN included, without a branch or a table.
#[inline(always)]
pub(crate) fn half(bits: u32) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    const ONE_EXPONENT: u32 = 1 << 23;
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
    let normal = (magnitude << 13) + REBIAS;
    // A subnormal has no leading one: give it one, at the lowest exponent, and take it away again.
    let subnormal = f32::from_bits(normal + ONE_EXPONENT) - f32::from_bits(REBIAS + ONE_EXPONENT);
    let special = normal + REBIAS;
    let finite = if magnitude < 0x0400 {
        subnormal.to_bits()
    } else {
        normal
    };
    f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { finite })
}

pub(super) struct F32;
impl Number<4> for F32 {
    #[inline(always)]
    fn value(bytes: [u8; 4]) -> f32 {
        f32::from_le_bytes(bytes)
    }
}

pub(super) struct F16;
impl Number<2> for F16 {
    #[inline(always)]
    fn value(bytes: [u8; 2]) -> f32 {
        half(u32::from(u16::from_le_bytes(bytes)))
    }
}

pub(super) struct BF16;
impl Number<2> for BF16 {
    #[inline(always)]
    fn value(bytes: [u8; 2]) -> f32 {
        f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
    }
}

pub(super) struct Q8_0;
impl Block<34, 32, 1> for Q8_0 {
    #[inline(always)]
    fn values([_, _, quants @ ..]: &[u8; 34], [scale]: [f32; 1]) -> [f32; 32] {
        let mut values = [0.0; 32];
        for (value, quant) in values.iter_mut().zip(quants) {
            *value = f32::from(quant.cast_signed()) * scale;
        }
        values
    }
}

/// The low nibbles of all `N` bytes, then the high ones: `M = 2 N`.
#[inline(always)]
fn nibbles<const N: usize, const M: usize>(bytes: &[u8; N]) -> [u8; M] {
    const { assert!(M == 2 * N) };
    let mut quants = [0; M];
    for (i, byte) in bytes.iter().enumerate() {
        quants[i] = byte & 0x0f;
        quants[i + N] = byte >> 4;
    }
    quants
}

/// `nibbles` with a fifth bit each, bit `i` of `high` for value `i`.
#[inline(always)]
fn five_bits(low: &[u8; 16], high: [u8; 4]) -> [u8; 32] {
    let mut quants = nibbles(low);
    let high = u32::from_le_bytes(high);
    for (i, quant) in quants.iter_mut().enumerate() {
        *quant |= (high >> i & 1).to_le_bytes()[0] << 4;
    }
    quants
}

/// Puts the lowest `bits` bits of each byte of `high` atop a nibble, and takes them off: vectors of bytes can only be
/// shifted by what is known beforehand.
#[inline(always)]
fn raise<const N: usize>(nibbles: &mut [u8; N], high: &mut [u8; N], bits: u32) {
    for (nibble, high) in nibbles.iter_mut().zip(high) {
        *nibble |= *high << (8 - bits) >> (4 - bits);
        *high >>= bits;
    }
}

/// `scale * quants + min`, rounded after each operation.
#[inline(always)]
fn affine<const N: usize>(scale: f32, quants: [u8; N], min: f32) -> [f32; N] {
    let mut values = [0.0; N];
    for (value, quant) in values.iter_mut().zip(quants) {
        *value = scale * f32::from(quant) + min;
    }
    values
}

/// `scale * (quants - zero)`
#[inline(always)]
fn centred<const N: usize>(scale: f32, quants: [u8; N], zero: i8) -> [f32; N] {
    let mut values = [0.0; N];
    for (value, quant) in values.iter_mut().zip(quants) {
        *value = scale * f32::from(quant.cast_signed() - zero);
    }
    values
}

pub(super) struct Q4_0;
impl Block<18, 32, 1> for Q4_0 {
    #[inline(always)]
    fn values([_, _, quants @ ..]: &[u8; 18], [scale]: [f32; 1]) -> [f32; 32] {
        centred(scale, nibbles(quants), 8)
    }
}

pub(super) struct Q4_1;
impl Block<20, 32, 2> for Q4_1 {
    #[inline(always)]
    fn values([_, _, _, _, quants @ ..]: &[u8; 20], [scale, min]: [f32; 2]) -> [f32; 32] {
        affine(scale, nibbles(quants), min)
    }
}

pub(super) struct Q5_0;
impl Block<22, 32, 1> for Q5_0 {
    #[inline(always)]
    fn values([_, _, rest @ ..]: &[u8; 22], [scale]: [f32; 1]) -> [f32; 32] {
        let (high, quants) = split::<4, 16, 20>(rest);
        centred(scale, five_bits(quants, *high), 16)
    }
}

pub(super) struct Q5_1;
impl Block<24, 32, 2> for Q5_1 {
    #[inline(always)]
    fn values([_, _, _, _, rest @ ..]: &[u8; 24], [scale, min]: [f32; 2]) -> [f32; 32] {
        let (high, quants) = split::<4, 16, 20>(rest);
        affine(scale, five_bits(quants, *high), min)
    }
}

/// The 6-bit scales and minima of a K block's eight groups: four of each in bytes 0..4 and 4..8, and the
/// other four in the nibbles of 8..12 with their upper two bits atop the first eight bytes.
#[inline(always)]
fn group_scales(packed: &[u8; 12]) -> [(u8, u8); 8] {
    let mut groups = [(0, 0); 8];
    for i in 0..4 {
        let (scale, min, both) = (packed[i], packed[i + 4], packed[i + 8]);
        groups[i] = (scale & 0x3f, min & 0x3f);
        groups[i + 4] = (both & 0x0f | scale >> 2 & 0x30, both >> 4 | min >> 2 & 0x30);
    }
    groups
}

pub(super) struct Q4_K;
impl Block<144, 256, 2> for Q4_K {
    #[inline(always)]
    fn values(block: &[u8; 144], [scale, min]: [f32; 2]) -> [f32; 256] {
        let ([_, _, _, _, scales @ ..], quants) = split::<16, 128, 144>(block);
        let mut values = [0.0; 256];
        let (pairs, outs) = (group_scales(scales), values.as_chunks_mut::<64>().0);
        let pairs = pairs.as_chunks::<2>().0;
        for ((quants, pair), out) in quants.as_chunks::<32>().0.iter().zip(pairs).zip(outs) {
            let quants: [u8; 64] = nibbles(quants);
            groups(scale, min, &quants, pair, out);
        }
        values
    }
}

pub(super) struct Q5_K;
impl Block<176, 256, 2> for Q5_K {
    #[inline(always)]
    fn values(block: &[u8; 176], [scale, min]: [f32; 2]) -> [f32; 256] {
        let ([_, _, _, _, scales @ ..], quants) = split::<16, 160, 176>(block);
        let (high, quants) = split::<32, 128, 160>(quants);
        let (mut high, mut values) = (*high, [0.0; 256]);
        let (pairs, outs) = (group_scales(scales), values.as_chunks_mut::<64>().0);
        let pairs = pairs.as_chunks::<2>().0;
        for ((quants, pair), out) in quants.as_chunks::<32>().0.iter().zip(pairs).zip(outs) {
            let mut quants: [u8; 64] = nibbles(quants);
            for group in quants.as_chunks_mut::<32>().0 {
                raise(group, &mut high, 1);
            }
            groups(scale, min, &quants, pair, out);
        }
        values
    }
}

/// Two groups of 32 values, with a scale and a minimum each.
#[inline(always)]
fn groups(scale: f32, min: f32, quants: &[u8; 64], pair: &[(u8, u8); 2], out: &mut [f32; 64]) {
    let (quants, outs) = (quants.as_chunks::<32>().0, out.as_chunks_mut::<32>().0);
    for ((quants, (s, m)), out) in quants.iter().zip(pair).zip(outs) {
        *out = affine(scale * f32::from(*s), *quants, -(min * f32::from(*m)));
        black_box(());
    }
}

/// Its half comes last.
pub(super) struct Q6_K;
impl Block<210, 256, 0> for Q6_K {
    #[inline(always)]
    fn values(block: &[u8; 210], []: [f32; 0]) -> [f32; 256] {
        let (low, rest) = split::<128, 82, 210>(block);
        let (high, [scales @ .., d0, d1]) = split::<64, 18, 82>(rest);
        let scale = F16::value([*d0, *d1]);
        let mut values = [0.0; 256];
        // Two halves of 128 values, of eight groups each; four values share a byte of the high bits.
        let halves = low.as_chunks::<64>().0.iter().zip(high.as_chunks::<32>().0);
        let scales = scales.as_chunks::<8>().0.iter();
        let outs = values.as_chunks_mut::<128>().0;
        for (((low, high), scales), out) in halves.zip(scales).zip(outs) {
            let (mut quants, mut high): ([u8; 128], _) = (nibbles(low), *high);
            for quarter in quants.as_chunks_mut::<32>().0 {
                raise(quarter, &mut high, 2);
            }
            let quants = quants.as_chunks::<16>().0.iter();
            for ((quants, s), out) in quants.zip(scales).zip(out.as_chunks_mut::<16>().0) {
                *out = centred(scale * f32::from(s.cast_signed()), *quants, 32);
                black_box(());
            }
        }
        values
    }
}

/// The first `A` and the last `B` bytes of `A + B = N`.
#[inline(always)]
fn split<const A: usize, const B: usize, const N: usize>(bytes: &[u8; N]) -> (&[u8; A], &[u8; B]) {
    const { assert!(A + B == N) };
    let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else {
        unreachable!("A and B are at most N")
    };
    (first, last)
}
