//! Exact conversion of IEEE 754 halves: by the machine's vector instruction if safe code can use it (AVX-512), and
//! otherwise by integer operations.
#![allow(clippy::inline_always)] // an executor's vector instructions reach only what is inlined into it

/// Halves that are converted at a time.
pub(super) const VECTOR: usize = 16;

#[inline(always)]
pub(super) fn vector(halves: [u16; VECTOR]) -> [f32; VECTOR] {
    // Only the code for this kind of machine calls it, where the conversion is one instruction.
    #[cfg(target_arch = "x86_64")]
    if let Some(machine) = pulp::x86::V4::try_new() {
        let halves: core::arch::x86_64::__m256i = pulp::cast(halves);
        return pulp::cast(machine.avx512f._mm512_cvtph_ps(halves));
    }
    let mut values = [0.0; VECTOR];
    for (value, bits) in values.iter_mut().zip(halves) {
        *value = half(u32::from(bits));
    }
    values
}

/// The value of an IEEE 754 half, including subnormals, infinities and NaN, without a branch or a table.
#[inline(always)]
pub(crate) fn half(bits: u32) -> f32 {
    const REBIAS: u32 = (127 - 15) << 23;
    const ONE_EXPONENT: u32 = 1 << 23;
    let (sign, magnitude) = ((bits & 0x8000) << 16, bits & 0x7fff);
    let normal = (magnitude << 13) + REBIAS;
    // A subnormal has no leading one: it gets one, at the lowest exponent, which is then subtracted.
    let subnormal = f32::from_bits(normal + ONE_EXPONENT) - f32::from_bits(REBIAS + ONE_EXPONENT);
    let special = normal + REBIAS;
    let finite = if magnitude < 0x0400 {
        subnormal.to_bits()
    } else {
        normal
    };
    f32::from_bits(sign | if magnitude >= 0x7c00 { special } else { finite })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_converts_exactly() {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for halves in all.as_chunks::<VECTOR>().0 {
            for (bits, value) in halves.iter().zip(vector(*halves)) {
                let number = ::half::f16::from_bits(*bits).to_f32();
                let one = half(u32::from(*bits));
                let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                assert!(same(value, number) && same(one, number), "{bits:#x}");
            }
        }
    }
}
