//! What `stored` computes, bit for bit, in instructions of AVX-512 that portable vectors have no names for.
//!
//! All sixteen values that a block of four-bit numbers can have are computed at once, and a permutation looks each number's
//! up. The machine converts halves. Rows that are read later are asked for now: otherwise a core waits for memory a third
//! of the time.

use std::any::Any;
use std::arch::x86_64::{__m128i, __m256i, __m512, __m512i, _MM_HINT_T0};

use pulp::cast;
use pulp::x86::V4;

use super::Matrix;
use super::dots::in_pairs;
use crate::model::Format;

/// Rows that share what is loaded of the input. Each has a sum of its own, so that additions do not wait for each other.
const ROWS: usize = 4;
/// Bytes from what is read to what is asked for: about as many as arrive while memory answers.
const AHEAD: usize = 4096;

/// The instructions, if these are the vectors of a machine that has them.
#[inline(always)]
pub(super) fn of(simd: impl Any) -> Option<V4> {
    (&simd as &dyn Any).downcast_ref().copied()
}

/// A format's blocks of `B` bytes, of `N` values each.
trait Block<const B: usize, const N: usize> {
    /// `sum` and the products of a block's values with the input, those of element `i` in lane `i % 16`.
    fn add(simd: V4, block: &[u8; B], input: &[f32; N], sum: __m512) -> __m512;
}

/// `out[a] = weight[first + a] . input`, if this knows the format.
#[inline(always)]
pub(super) fn dots(
    simd: V4,
    weight: &Matrix,
    first: usize,
    input: &[f32],
    out: &mut [f32],
) -> bool {
    let rows = weight.some_rows(first, out.len());
    match weight.format() {
        Format::Q8_0 => blocks::<Q8_0, _, _>(simd, rows, input, out),
        Format::Q4_0 => blocks::<Q4_0, _, _>(simd, rows, input, out),
        Format::Q4_1 => blocks::<Q4_1, _, _>(simd, rows, input, out),
        _ => return false,
    }
    true
}

#[inline(always)]
fn blocks<F: Block<B, N>, const B: usize, const N: usize>(
    simd: V4,
    bytes: &[u8],
    input: &[f32],
    out: &mut [f32],
) {
    let (blocks, input) = (bytes.as_chunks::<B>().0, input.as_chunks::<N>().0);
    let (outs, rest) = out.as_chunks_mut::<ROWS>();
    let (some, few) = blocks.split_at(outs.len() * ROWS * input.len());
    for (rows, out) in some.chunks_exact(ROWS * input.len()).zip(outs) {
        *out = tile::<F, B, N, ROWS>(simd, rows, input);
    }
    for (row, out) in few.chunks_exact(input.len()).zip(rest) {
        [*out] = tile::<F, B, N, 1>(simd, row, input);
    }
}

/// Of `R` rows.
#[inline(always)]
fn tile<F: Block<B, N>, const B: usize, const N: usize, const R: usize>(
    simd: V4,
    rows: &[[u8; B]],
    input: &[[f32; N]],
) -> [f32; R] {
    let mut of_row = [rows; R];
    for (row, blocks) in of_row.iter_mut().zip(rows.chunks_exact(input.len())) {
        *row = blocks;
    }
    let mut sums = [simd.avx512f._mm512_setzero_ps(); R];
    for (at, input) in input.iter().enumerate() {
        for (row, sum) in of_row.iter().zip(&mut sums) {
            let block = &row[at];
            let later = block.as_ptr().wrapping_add(AHEAD).cast();
            simd.sse._mm_prefetch::<_MM_HINT_T0>(later);
            *sum = F::add(simd, block, input, *sum);
        }
    }
    let mut out = [0.0; R];
    for (out, sum) in out.iter_mut().zip(sums) {
        *out = in_pairs(&cast(sum));
    }
    out
}

/// The values of halves.
#[inline(always)]
pub(super) fn dequantize_halves(simd: V4, bytes: &[u8], out: &mut [f32]) {
    let (outs, rest) = out.as_chunks_mut::<16>();
    let (halves, others) = bytes.split_at(2 * 16 * outs.len());
    for (halves, out) in halves.as_chunks::<32>().0.iter().zip(outs) {
        let later = halves.as_ptr().wrapping_add(AHEAD).cast();
        simd.sse._mm_prefetch::<_MM_HINT_T0>(later);
        *out = cast(simd.avx512f._mm512_cvtph_ps(cast(*halves)));
    }
    Format::F16.dequantize(others, rest);
}

/// Of sixteen vectors each one's lanes, added as `in_pairs` does: four times fewer instructions than one by one.
#[inline(always)]
pub(super) fn all_in_pairs(simd: V4, sums: &[[f32; 16]; 16]) -> [f32; 16] {
    // Taken in this order, they come out in their own.
    const ORDER: [usize; 16] = [0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15];
    let avx512f = simd.avx512f;
    let mut halves = [avx512f._mm512_setzero_ps(); 8];
    for (i, half) in halves.iter_mut().enumerate() {
        let (a, b) = (lanes(sums[ORDER[i]]), lanes(sums[ORDER[i + 8]]));
        let first = avx512f._mm512_shuffle_f32x4::<0b01_00_01_00>(a, b);
        let second = avx512f._mm512_shuffle_f32x4::<0b11_10_11_10>(a, b);
        *half = avx512f._mm512_add_ps(first, second);
    }
    let mut quarters = [avx512f._mm512_setzero_ps(); 4];
    for (i, quarter) in quarters.iter_mut().enumerate() {
        let (a, b) = (halves[i], halves[i + 4]);
        let first = avx512f._mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
        let second = avx512f._mm512_shuffle_f32x4::<0b11_01_11_01>(a, b);
        *quarter = avx512f._mm512_add_ps(first, second);
    }
    let mut eighths = [avx512f._mm512_setzero_ps(); 2];
    for (i, eighth) in eighths.iter_mut().enumerate() {
        let (a, b) = (quarters[i], quarters[i + 2]);
        let first = avx512f._mm512_shuffle_ps::<0b01_00_01_00>(a, b);
        let second = avx512f._mm512_shuffle_ps::<0b11_10_11_10>(a, b);
        *eighth = avx512f._mm512_add_ps(first, second);
    }
    let [a, b] = eighths;
    let first = avx512f._mm512_shuffle_ps::<0b10_00_10_00>(a, b);
    let second = avx512f._mm512_shuffle_ps::<0b11_01_11_01>(a, b);
    cast(avx512f._mm512_add_ps(first, second))
}

struct Q8_0;
impl Block<34, 32> for Q8_0 {
    #[inline(always)]
    fn add(simd: V4, block: &[u8; 34], input: &[f32; 32], sum: __m512) -> __m512 {
        let [low, high, quants @ ..] = block;
        let scale = half(simd, [*low, *high]);
        let (quants, inputs) = (quants.as_chunks().0, input.as_chunks().0);
        let mut sum = sum;
        for (quants, input) in quants.iter().zip(inputs) {
            let values = simd.avx512f._mm512_mul_ps(signed(simd, *quants), scale);
            sum = simd.avx512f._mm512_fmadd_ps(values, lanes(*input), sum);
        }
        sum
    }
}

struct Q4_0;
impl Block<18, 32> for Q4_0 {
    #[inline(always)]
    fn add(simd: V4, block: &[u8; 18], input: &[f32; 32], sum: __m512) -> __m512 {
        let [low, high, quants @ ..] = block;
        let scale = half(simd, [*low, *high]);
        let values = simd.avx512f._mm512_mul_ps(scale, numbers(-8.0));
        add_nibbles(simd, values, *quants, input, sum)
    }
}

struct Q4_1;
impl Block<20, 32> for Q4_1 {
    #[inline(always)]
    fn add(simd: V4, block: &[u8; 20], input: &[f32; 32], sum: __m512) -> __m512 {
        let [a, b, c, d, quants @ ..] = block;
        let (scale, min) = halves(simd, [*a, *b, *c, *d]);
        let scaled = simd.avx512f._mm512_mul_ps(scale, numbers(0.0));
        let values = simd.avx512f._mm512_add_ps(scaled, min);
        add_nibbles(simd, values, *quants, input, sum)
    }
}

/// The low nibbles of all bytes, then the high ones, are numbers of these values.
#[inline(always)]
fn add_nibbles(
    simd: V4,
    values: __m512,
    quants: [u8; 16],
    input: &[f32; 32],
    sum: __m512,
) -> __m512 {
    let inputs = input.as_chunks().0;
    // Of each lane a permutation takes the lowest four bits.
    let low = simd.avx512f._mm512_cvtepu8_epi32(cast(quants));
    let high = simd.avx512f._mm512_srli_epi32::<4>(low);
    let mut sum = sum;
    for (numbers, input) in [low, high].into_iter().zip(inputs) {
        let values = simd.avx512f._mm512_permutexvar_ps(numbers, values);
        sum = simd.avx512f._mm512_fmadd_ps(values, lanes(*input), sum);
    }
    sum
}

/// What four bits can say, from `least` on.
#[inline(always)]
fn numbers(least: f32) -> __m512 {
    let mut numbers = [least; 16];
    let mut next = least;
    for number in &mut numbers {
        *number = next;
        next += 1.0;
    }
    lanes(numbers)
}

/// A half, in all lanes.
#[inline(always)]
fn half(simd: V4, bytes: [u8; 2]) -> __m512 {
    let all: __m256i = simd.avx._mm256_set1_epi16(i16::from_le_bytes(bytes));
    simd.avx512f._mm512_cvtph_ps(all)
}

/// Two of them, each in all lanes.
#[inline(always)]
fn halves(simd: V4, bytes: [u8; 4]) -> (__m512, __m512) {
    let pairs = simd.avx._mm256_set1_epi32(i32::from_le_bytes(bytes));
    let pairs = simd.avx512f._mm512_cvtph_ps(pairs);
    (
        simd.avx512f._mm512_moveldup_ps(pairs),
        simd.avx512f._mm512_movehdup_ps(pairs),
    )
}

#[inline(always)]
fn signed(simd: V4, quants: [u8; 16]) -> __m512 {
    let quants: __m512i = simd
        .avx512f
        ._mm512_cvtepi8_epi32(cast::<_, __m128i>(quants));
    simd.avx512f._mm512_cvtepi32_ps(quants)
}

#[inline(always)]
fn lanes(values: [f32; 16]) -> __m512 {
    cast(values)
}
