//! Compares each operation of an executor with the CPU executor, on random inputs.
//!
//! Both executors start from the same memory, where everything except the inputs is 0xFF, a NaN in every type.
//! Unwritten outputs and reads out of bounds therefore show. Afterwards everything except the outputs must be
//! unchanged. Only the shapes of the tapes are checked, because a single operation reads buffers that no operation
//! wrote.
//!
//! This module does not measure speed. The reference itself is checked by the golden tests, and by plain loops for
//! attention (`oracle`) and for vision towers (`vision_loops`).

mod case;
mod compare;
mod cover;
mod deck;
mod images;
mod inputs;
mod layout;
mod oracle;
mod report;
pub mod self_test;
mod stored;
mod ties;
mod vision_loops;
mod world;

pub use case::Case;
pub use compare::{Worst, worst};
pub use cover::{images, large, towers, worlds};
pub use report::Report;
pub use world::{World, WorldError};

use self::compare::worst_beside;
use self::inputs::Inputs;
use crate::executor::{ExecuteError, Layout, Probe, StepState};
use crate::quant::DType;
use crate::sampler::Scored;
use crate::tape::{Buffer, Op, TapeError};

/// Why a comparison was impossible.
#[derive(Debug, thiserror::Error)]
pub enum DiffError {
    #[error("{case}: {error}")]
    Tape { case: String, error: TapeError },
    #[error("{case} on the {executor}: {error}")]
    Execute {
        case: String,
        executor: &'static str,
        error: ExecuteError,
    },
}

/// The memory and results of a case on one executor.
struct Left {
    /// The result of each run.
    ends: Vec<Result<Vec<StepState>, ExecuteError>>,
    /// The most probable tokens of each row of each run.
    scored: Vec<Vec<Scored>>,
    layouts: Vec<Layout>,
    /// The bytes of each buffer and its guard, before and after the last run.
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
    /// K and V of each slot.
    cache_before: Vec<[Vec<u8>; 2]>,
    cache_after: Vec<[Vec<u8>; 2]>,
}

/// Bytes after a buffer that must not change.
const GUARD: usize = 64 << 10;
/// Allocated rows of each buffer that no case uses.
const SPARE_ROWS: usize = 16;
const POISON: u8 = 0xff;

impl World {
    /// Runs the cases on two executors that were made for this world.
    ///
    /// # Errors
    /// If the shapes of a case do not fit, or an executor fails in another way than by the result of its operation.
    pub fn diff(
        &self,
        reference: &mut dyn Probe,
        subject: &mut dyn Probe,
        report: &mut Report,
    ) -> Result<(), DiffError> {
        self.cases
            .iter()
            .try_for_each(|case| self.diff_case(case, reference, subject, report))
    }

    /// Runs one case on both executors.
    pub fn diff_case(
        &self,
        case: &Case,
        reference: &mut dyn Probe,
        subject: &mut dyn Probe,
        report: &mut Report,
    ) -> Result<(), DiffError> {
        case.tape
            .check_shapes_alone()
            .map_err(|error| DiffError::Tape {
                case: case.name.clone(),
                error,
            })?;
        let inputs = self.inputs(case);
        let left = |executor, error| DiffError::Execute {
            case: case.name.clone(),
            executor,
            error,
        };
        let reference = self
            .run(case, &inputs, reference)
            .map_err(|error| left("reference", error))?;
        let subject = self
            .run(case, &inputs, subject)
            .map_err(|error| left("subject", error))?;
        let (ratio, mut failure) = self.compare(case, &inputs, [&reference, &subject]);
        if let Some(outside) = self.outside(case, &reference) {
            failure = Some(format!("the reference: {outside}"));
        }
        report.add(case.op().name(), &case.name, ratio, failure);
        Ok(())
    }

    fn run(
        &self,
        case: &Case,
        inputs: &Inputs,
        subject: &mut dyn Probe,
    ) -> Result<Left, ExecuteError> {
        let tape = &case.tape;
        let mut roomy = tape.clone();
        roomy
            .buffers
            .iter_mut()
            .for_each(|buffer| buffer.rows += SPARE_ROWS);
        subject.executor().prepare(&roomy)?;
        let buffers: Vec<Buffer> = (0..tape.buffers.len()).map(Buffer).collect();
        let layouts: Vec<Layout> = buffers
            .iter()
            .map(|buffer| subject.layout(tape, *buffer))
            .collect();
        let before: Vec<Vec<u8>> = buffers
            .iter()
            .zip(&layouts)
            .map(|(buffer, layout)| {
                let info = tape.buffer(*buffer);
                let bytes = info.rows * layout.stride * layout.dtype.bytes() + GUARD;
                let mut image = vec![POISON; bytes.min(subject.buffer_bytes(*buffer))];
                if let Some((_, values)) = inputs.buffers.iter().find(|(input, _)| input == buffer)
                {
                    layout.put(values, info.columns, &mut image);
                }
                image
            })
            .collect();
        let cache_before: Vec<[Vec<u8>; 2]> = (0..self.kv.slots)
            .map(|slot| {
                [0, 1].map(|side| {
                    // Other positions must not be read.
                    let held = inputs.cache[side].get(&slot);
                    let stride = self.kv.types.sides()[side].bytes(self.kv.kinds[0].head_dim);
                    let bytes = self.kv.context * self.kv.kinds[0].heads * stride;
                    held.map_or_else(|| vec![POISON; bytes], |values| self.cached(values, side))
                })
            })
            .collect();
        for (slot, cache) in cache_before.iter().enumerate() {
            subject.write_cache(slot, cache)?;
        }
        subject.poison_scratch()?;
        // The first row comes last, because a prompt runs in the active slot.
        for (place, token) in case.places().into_iter().zip(&case.tokens).rev() {
            subject
                .executor()
                .begin(place, case.parameters, &case.history)?;
            subject.executor().set_token(*token);
            subject.executor().set_rotary_offset(place.0, case.offset)?;
        }
        let slots: Vec<usize> = case.places().iter().map(|(slot, _)| *slot).collect();
        let (mut ends, mut scored) = (Vec::new(), Vec::new());
        for _ in 0..case.runs {
            for (buffer, image) in buffers.iter().zip(&before) {
                subject.write_buffer(*buffer, image)?;
            }
            for slot in &slots {
                subject.executor().guide(*slot, case.mask.as_ref())?;
            }
            let end = if case.images.is_empty() {
                subject.run_part(tape, &case.tokens, &slots)
            } else {
                case.run_images(inputs, subject)
            };
            let ran = subject.executor();
            let states = || slots.iter().map(|at| ran.state_of(*at)).collect();
            ends.push(end.map(|()| states()));
            scored.extend(slots.iter().map(|at| ran.scored(*at).concat()));
        }
        let after = buffers
            .iter()
            .zip(&before)
            .map(|(buffer, image)| subject.read_buffer(*buffer, image.len()))
            .collect::<Result<_, _>>()?;
        let cache_after = (0..self.kv.slots)
            .map(|slot| subject.read_cache(slot))
            .collect::<Result<_, _>>()?;
        Ok(Left {
            ends,
            scored,
            layouts,
            before,
            after,
            cache_before,
            cache_after,
        })
    }

    /// The greatest |delta| in units of the bound, and the reason of a failure.
    fn compare(
        &self,
        case: &Case,
        inputs: &Inputs,
        [reference, subject]: [&Left; 2],
    ) -> (f64, Option<String>) {
        let mut failure = self.outside(case, subject);
        if reference.ends != subject.ends {
            let pairs = reference.ends.iter().zip(&subject.ends);
            let at = pairs.take_while(|(a, b)| a == b).count();
            failure = Some(format!(
                "run {at} ends with {:?}, not {:?}",
                subject.ends[at], reference.ends[at]
            ));
        }
        let mut pairs = reference.scored.iter().zip(&subject.scored);
        if let Some(apart) = pairs.find_map(|(a, b)| apart(a, b)) {
            failure.get_or_insert(apart);
        }
        let mut ratio = if failure.is_some() {
            f64::INFINITY
        } else {
            0.0
        };
        let mut hold = |what: &str, worst: Worst| {
            if worst.ratio > 1.0 {
                let state = if worst.value.is_nan() {
                    ", not a number: not written, or computed from other memory than its inputs"
                } else {
                    ""
                };
                failure.get_or_insert_with(|| {
                    format!(
                        "{what} row {} column {} is {}{state}, not {} ({:.2} of the bound)",
                        worst.row, worst.column, worst.value, worst.reference, worst.ratio
                    )
                });
            }
            ratio = ratio.max(worst.ratio);
        };
        if matches!(case.op(), Op::Sample { .. }) {
            return (ratio, failure);
        }
        for buffer in case.op().buffers().1 {
            let info = case.tape.buffer(buffer);
            let real = info.rows.min(case.tokens.len()) * info.columns;
            let [ours, theirs] = [reference, subject]
                .map(|left| left.layouts[buffer.0].take(info, &left.after[buffer.0]));
            let (ours, theirs) = (&ours[..real], &theirs[..real]);
            let mut worst = worst(ours, theirs, info.columns, info.dtype);
            if worst.ratio > 1.0 {
                let allowed = self.moved_by_ties(case, inputs);
                worst = worst_beside(ours, theirs, &allowed, info.columns, info.dtype);
            }
            hold(info.name, worst);
        }
        if case.stores().is_some() {
            for (side, name) in ["cached k", "cached v"].into_iter().enumerate() {
                hold(
                    name,
                    self.worst_stored(case, inputs, [reference, subject], side),
                );
            }
        }
        (ratio, failure)
    }

    /// A change outside of the outputs of a case.
    fn outside(&self, case: &Case, left: &Left) -> Option<String> {
        let written = case.writes();
        for (index, info) in case.tape.buffers.iter().enumerate() {
            let (before, after) = (&left.before[index], &left.after[index]);
            let layout = left.layouts[index];
            let output = written.contains(&Buffer(index));
            let row_bytes = layout.stride * layout.dtype.bytes();
            let mut rows = before
                .chunks(row_bytes)
                .zip(after.chunks(row_bytes))
                .enumerate();
            // The elements of the row are followed by padding.
            let changed = rows.find_map(|(row, (before, after))| {
                let own = if output { layout.own(info, row) } else { 0 };
                let (before, after) = (before.get(own..)?, after.get(own..)?);
                if before == after {
                    return None;
                }
                let apart = before.iter().zip(after).position(|(a, b)| a != b)?;
                Some(row * row_bytes + own + apart)
            });
            if let Some(at) = changed {
                let element = at / layout.dtype.bytes();
                return Some(format!(
                    "changed {} of {} x {} at row {} column {}, which is not its output",
                    info.name,
                    info.rows,
                    info.columns,
                    element / layout.stride,
                    element % layout.stride
                ));
            }
        }
        let strides =
            (self.kv.types.sides()).map(|element| element.bytes(self.kv.kinds[0].head_dim));
        let stores = case.stores().is_some();
        for (slot, (before, after)) in left.cache_before.iter().zip(&left.cache_after).enumerate() {
            for (stride, (before, after)) in strides.into_iter().zip(before.iter().zip(after)) {
                let pairs = before.chunks(stride).zip(after.chunks(stride));
                for (index, (before, after)) in pairs.enumerate() {
                    let position = index % self.kv.context;
                    let within = |(of, positions): &(usize, std::ops::Range<usize>)| {
                        *of == slot && positions.contains(&position)
                    };
                    if !(stores && case.runs().iter().any(within)) && before != after {
                        return Some(format!(
                            "changed the cache at position {position} of slot {slot}"
                        ));
                    }
                }
            }
        }
        None
    }
}

/// The difference between two lists of most probable tokens. Tokens of equal probability may be in any order, and
/// probabilities differ like f32 sums.
fn apart(reference: &[Scored], subject: &[Scored]) -> Option<String> {
    const BOUND: f32 = 1e-4;
    let sorted = |scored: &[Scored]| {
        let mut sorted = scored.to_vec();
        // The first is the chosen token.
        if let Some((_, rest)) = sorted.split_first_mut() {
            rest.sort_unstable_by_key(|scored| scored.token);
        }
        sorted
    };
    let (ours, theirs) = (sorted(reference), sorted(subject));
    let alike = |(a, b): (&Scored, &Scored)| {
        a.token == b.token && (a.logprob - b.logprob).abs() <= BOUND * (1.0 + a.logprob.abs())
    };
    let same = ours.len() == theirs.len() && ours.iter().zip(&theirs).all(alike);
    (!same).then(|| format!("the most probable tokens are {theirs:?}, not {ours:?}"))
}

/// Encodes values in a type.
fn encode(dtype: DType, values: &[f32]) -> Vec<u8> {
    use half::{bf16, f16};
    let bytes = |values: &[f32], each: fn(f32) -> [u8; 2]| {
        values.iter().flat_map(|value| each(*value)).collect()
    };
    match dtype {
        DType::F32 => values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        DType::F16 => bytes(values, |value| f16::from_f32(value).to_le_bytes()),
        DType::BF16 => bytes(values, |value| bf16::from_f32(value).to_le_bytes()),
    }
}

fn decode(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    use half::{bf16, f16};
    let pairs = bytes.as_chunks::<2>().0.iter();
    match dtype {
        DType::F32 => {
            let words = bytes.as_chunks::<4>().0.iter();
            words.map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
        DType::F16 => pairs.map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
        DType::BF16 => pairs.map(|b| bf16::from_le_bytes(*b).to_f32()).collect(),
    }
}
