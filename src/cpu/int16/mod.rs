//! Products of weights whose blocks are integers with rows of activations of 16 bits.
//!
//! Each span of a row of activations, as long as a block of the weight, becomes 16-bit integers with a unit of its own:
//! each value is rounded to 2^-15 of the span's greatest. The products of a span are summed exactly, in 32 bits, and
//! scaled once.
//!
//! A span of 256 has sixteen partial sums, each of four neighbouring columns in sixty-four, or four of sixteen columns if
//! the products are small. A span of 32 has one sum, and each fourth span is added to the same partial sum. The bits of a
//! product therefore depend neither on the number of rows nor on the machine. `groups` computes the same with 30-bit
//! activations.
//!
//! The vectors of a step have neighbouring columns of a row (`step`), and those of a prompt have rows (`panels`, `tiles`).

#[cfg(target_arch = "aarch64")]
mod arm;
mod decoded;
mod inputs;
mod machine;
mod panels;
mod portable;
mod spans;
mod step;
#[cfg(test)]
mod tests;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::cell::RefCell;

use pulp::NullaryFnOnce;

use self::decoded::Decoded;
pub(super) use self::inputs::Inputs;
use self::portable::Portable;
use self::step::Products;
use self::tiles::Tiles;
use super::weight::Matrix;

thread_local! {
    /// Decoded rows of a weight, on the thread that multiplies them.
    static DECODED: RefCell<Decoded> = RefCell::default();
}

/// `out[a][b] = weight[first + a] . input[b]`: the weight has blocks, out is (_, rows).
pub(super) fn multiply(weight: &Matrix, first: usize, inputs: &Inputs, out: &mut [f32]) {
    // `$together` rows share a decoded block in a step; `$a` rows of the weight share `$b` panels of a prompt.
    macro_rules! with {
        ($machine:expr, $run:expr, $together:literal, $a:literal, $b:literal) => {
            if !inputs.are_panels() {
                $run(Products::<_, $together> {
                    machine: $machine,
                    weight,
                    first,
                    inputs,
                    out,
                })
            } else {
                // Only what is called directly is compiled for the machine's vectors.
                DECODED.with_borrow_mut(|decoded| {
                    $run(Tiles::<_, $a, $b> {
                        machine: $machine,
                        weight,
                        first,
                        inputs,
                        decoded,
                        out,
                    })
                })
            }
        };
    }
    // The numbers are those of the machine's registers.
    #[cfg(target_arch = "x86_64")]
    {
        if let (Some(fused), Some(machine)) = (x86::Fused::try_new(), pulp::x86::V4::try_new()) {
            return with!(machine, |run| fused.vectorize(run), 8, 8, 2);
        }
        if let Some(machine) = pulp::x86::V4::try_new() {
            return with!(machine, |run| machine.vectorize(run), 8, 8, 2);
        }
        if let Some(machine) = pulp::x86::V3::try_new() {
            return with!(machine, |run| machine.vectorize(run), 4, 4, 1);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(machine) = pulp::aarch64::Neon::try_new() {
        return with!(machine, |run| machine.vectorize(run), 4, 4, 1);
    }
    with!(Portable, NullaryFnOnce::call, 4, 4, 1);
}
