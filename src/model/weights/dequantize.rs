//! The values of stored blocks, in the operations and the order that the Python package `gguf` uses, so
//! that every bit agrees; the layouts are those of ggml's `ggml-common.h`.
//!
//! The loops run over arrays of known length, so that they vectorize for whatever instructions the
//! caller has enabled: each function is inlined into it.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

/// Each block of `B` bytes beside the `N` values to write for it.
#[inline(always)]
fn blocks<'a, const B: usize, const N: usize>(
    bytes: &'a [u8],
    out: &'a mut [f32],
) -> impl Iterator<Item = (&'a [u8; B], &'a mut [f32; N])> {
    let (blocks, _) = bytes.as_chunks::<B>();
    let (outs, _) = out.as_chunks_mut::<N>();
    // A block's bytes lie side by side and those of several blocks do not: the empty barrier keeps the
    // compiler from vectorizing across blocks, which would gather single bytes (three times slower).
    blocks
        .iter()
        .zip(outs)
        .inspect(|_| std::hint::black_box(()))
}

/// The value of an IEEE 754 half, subnormals, infinities and NaN included, without a branch or a table.
#[inline(always)]
fn half(bytes: [u8; 2]) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    const ONE_EXPONENT: u32 = 1 << 23;
    let bits = u32::from(u16::from_le_bytes(bytes));
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

#[inline(always)]
pub(super) fn f32(bytes: &[u8], out: &mut [f32]) {
    for (bytes, value) in bytes.as_chunks().0.iter().zip(out) {
        *value = f32::from_le_bytes(*bytes);
    }
}

#[inline(always)]
pub(super) fn f16(bytes: &[u8], out: &mut [f32]) {
    for (bytes, value) in bytes.as_chunks().0.iter().zip(out) {
        *value = half(*bytes);
    }
}

#[inline(always)]
pub(super) fn bf16(bytes: &[u8], out: &mut [f32]) {
    for (bytes, value) in bytes.as_chunks().0.iter().zip(out) {
        *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
    }
}

#[inline(always)]
pub(super) fn q8_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<34, 32>(bytes, out) {
        let [d0, d1, quants @ ..] = block;
        let scale = half([*d0, *d1]);
        let mut values = [0.0; 32];
        for (value, quant) in values.iter_mut().zip(quants) {
            *value = f32::from(quant.cast_signed()) * scale;
        }
        *out = values;
    }
}

/// The low nibbles of 16 bytes, then the high ones.
#[inline(always)]
fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    let mut quants = [0; 32];
    for (i, byte) in bytes.iter().enumerate() {
        quants[i] = byte & 0x0f;
        quants[i + 16] = byte >> 4;
    }
    quants
}

/// `nibbles` with a fifth bit each, bit `i` of `high` for value `i`.
#[inline(always)]
fn five_bits(low: &[u8; 16], high: [u8; 4]) -> [u8; 32] {
    let mut quants = nibbles(low);
    for (i, quant) in quants.iter_mut().enumerate() {
        *quant |= (high[i / 8] >> (i % 8) & 1) << 4;
    }
    quants
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

#[inline(always)]
pub(super) fn q4_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<18, 32>(bytes, out) {
        let [d0, d1, quants @ ..] = block;
        *out = centred(half([*d0, *d1]), nibbles(quants), 8);
    }
}

#[inline(always)]
pub(super) fn q4_1(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<20, 32>(bytes, out) {
        let [d0, d1, m0, m1, quants @ ..] = block;
        *out = affine(half([*d0, *d1]), nibbles(quants), half([*m0, *m1]));
    }
}

#[inline(always)]
pub(super) fn q5_0(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<22, 32>(bytes, out) {
        let [d0, d1, h0, h1, h2, h3, quants @ ..] = block;
        let quants = five_bits(quants, [*h0, *h1, *h2, *h3]);
        *out = centred(half([*d0, *d1]), quants, 16);
    }
}

#[inline(always)]
pub(super) fn q5_1(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<24, 32>(bytes, out) {
        let [d0, d1, m0, m1, h0, h1, h2, h3, quants @ ..] = block;
        let quants = five_bits(quants, [*h0, *h1, *h2, *h3]);
        *out = affine(half([*d0, *d1]), quants, half([*m0, *m1]));
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

/// `bytes >> shift & mask`
#[inline(always)]
fn bits<const N: usize>(bytes: &[u8; N], shift: usize, mask: u8) -> [u8; N] {
    let mut quants = [0; N];
    for (quant, byte) in quants.iter_mut().zip(bytes) {
        *quant = byte >> shift & mask;
    }
    quants
}

/// `low | high << 4`
#[inline(always)]
fn join<const N: usize>(mut low: [u8; N], high: [u8; N]) -> [u8; N] {
    for (low, high) in low.iter_mut().zip(high) {
        *low |= high << 4;
    }
    low
}

#[inline(always)]
pub(super) fn q4_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<144, 256>(bytes, out) {
        let ([d0, d1, m0, m1, groups @ ..], quants) = split::<16, 128, 144>(block);
        let (scale, min) = (half([*d0, *d1]), half([*m0, *m1]));
        let groups = group_scales(groups)
            .into_iter()
            .zip(out.as_chunks_mut::<32>().0);
        for (group, ((s, m), out)) in groups.enumerate() {
            let low = bits(
                &quants.as_chunks::<32>().0[group / 2],
                4 * (group % 2),
                0x0f,
            );
            *out = affine(scale * f32::from(s), low, -(min * f32::from(m)));
        }
    }
}

#[inline(always)]
pub(super) fn q5_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<176, 256>(bytes, out) {
        let ([d0, d1, m0, m1, groups @ ..], quants) = split::<16, 160, 176>(block);
        let (high, quants) = split::<32, 128, 160>(quants);
        let (scale, min) = (half([*d0, *d1]), half([*m0, *m1]));
        let groups = group_scales(groups)
            .into_iter()
            .zip(out.as_chunks_mut::<32>().0);
        for (group, ((s, m), out)) in groups.enumerate() {
            let low = bits(
                &quants.as_chunks::<32>().0[group / 2],
                4 * (group % 2),
                0x0f,
            );
            let quants = join(low, bits(high, group, 1));
            *out = affine(scale * f32::from(s), quants, -(min * f32::from(m)));
        }
    }
}

#[inline(always)]
pub(super) fn q6_k(bytes: &[u8], out: &mut [f32]) {
    for (block, out) in blocks::<210, 256>(bytes, out) {
        let (low, rest) = split::<128, 82, 210>(block);
        let (high, [scales @ .., d0, d1]) = split::<64, 18, 82>(rest);
        let scale = half([*d0, *d1]);
        let groups = scales.iter().zip(out.as_chunks_mut::<16>().0);
        for (group, (s, out)) in groups.enumerate() {
            // Two halves of 128 values: four quarters of 32, each of two groups.
            let (half, quarter, part) = (group / 8, group / 2 % 4, group % 2);
            let low = &low.as_chunks::<16>().0[4 * half + 2 * (quarter % 2) + part];
            let high = &high.as_chunks::<16>().0[2 * half + part];
            let quants = join(
                bits(low, 4 * (quarter / 2), 0x0f),
                bits(high, 2 * quarter, 3),
            );
            *out = centred(scale * f32::from(s.cast_signed()), quants, 32);
        }
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
