//! Many numbers made one in pairs, those of the first half with those of the second: an order that vectors of any width
//! have.

#[inline(always)]
pub(super) fn fold_32(values: &[f32; 32], of: impl Fn(f32, f32) -> f32 + Copy) -> f32 {
    fold_16(&half(values, of), of)
}

#[inline(always)]
pub(super) fn fold_16(values: &[f32; 16], of: impl Fn(f32, f32) -> f32 + Copy) -> f32 {
    let values: [f32; 8] = half(values, of);
    let values: [f32; 4] = half(&values, of);
    let [a, b] = half(&values, of);
    of(a, b)
}

/// `M = 2 N`. Arrays of their own, rather than one that shrinks: so they stay in registers.
#[inline(always)]
fn half<const M: usize, const N: usize>(
    values: &[f32; M],
    of: impl Fn(f32, f32) -> f32,
) -> [f32; N] {
    const { assert!(M == 2 * N) };
    let (first, second) = values.split_at(N);
    let mut half = [0.0; N];
    for (half, (a, b)) in half.iter_mut().zip(first.iter().zip(second)) {
        *half = of(*a, *b);
    }
    half
}
