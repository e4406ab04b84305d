//! Holds each operation of an executor against the CPU executor, on random inputs.
//!
//! Both start from the same memory, where all that is not an input holds 0xFF, which is a NaN in every
//! type: what is not written, or is read from beyond, shows. Afterwards all but the outputs must be as it
//! was. A tape of one operation reads what nothing wrote, so only its shapes are checked. It says nothing
//! of speed. Whether the reference is right say the golden references, and of attention plain loops.

mod case;
mod compare;
mod cover;
mod deck;
mod inputs;
mod layout;
mod oracle;
mod report;
pub mod self_test;
mod stored;
mod world;

pub use case::Case;
pub use compare::{Worst, worst};
pub use cover::{large, worlds};
pub use report::Report;
pub use world::{World, WorldError};

use self::inputs::Inputs;
use crate::executor::{Inspect, Layout};
use crate::sampler::Scored;
use crate::tape::{Buffer, DType, ExecuteError, Op, StepState, TapeError};

/// Why nothing could be compared.
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

/// What a case leaves on one executor.
struct Left {
    /// What each run ended with.
    ends: Vec<Result<Vec<StepState>, ExecuteError>>,
    /// The most probable tokens of each row of each run.
    scored: Vec<Vec<Scored>>,
    layouts: Vec<Layout>,
    /// The bytes of each buffer, with what follows it: before the last run, and after it.
    before: Vec<Vec<u8>>,
    after: Vec<Vec<u8>>,
    /// K and V of each entry.
    cache_before: Vec<[Vec<u8>; 2]>,
    cache_after: Vec<[Vec<u8>; 2]>,
}

/// Bytes after a buffer that are watched.
const GUARD: usize = 64 << 10;
/// Rows of each buffer that are there and belong to no case.
const SPARE_ROWS: usize = 16;
const POISON: u8 = 0xff;

impl World {
    /// Runs its cases on both executors, which were made for it.
    ///
    /// # Errors
    /// If a case's shapes do not fit, or an executor fails otherwise than by its operation's result.
    pub fn diff(
        &self,
        reference: &mut dyn Inspect,
        subject: &mut dyn Inspect,
        report: &mut Report,
    ) -> Result<(), DiffError> {
        self.cases
            .iter()
            .try_for_each(|case| self.diff_case(case, reference, subject, report))
    }

    /// Runs one of its cases on both.
    pub fn diff_case(
        &self,
        case: &Case,
        reference: &mut dyn Inspect,
        subject: &mut dyn Inspect,
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
            failure = Some(format!("the reference itself: {outside}"));
        }
        report.add(case.op().name(), &case.name, ratio, failure);
        Ok(())
    }

    fn run(
        &self,
        case: &Case,
        inputs: &Inputs,
        subject: &mut dyn Inspect,
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
        let cache_before: Vec<[Vec<u8>; 2]> = (0..self.kv.entries)
            .map(|entry| {
                [0, 1].map(|side| {
                    // Others are not to be read.
                    let held = inputs.cache[side].get(&entry);
                    let stride = self.kv.types.sides()[side].bytes(self.kv.head_dim);
                    let bytes = self.kv.context * self.kv.heads * stride;
                    held.map_or_else(|| vec![POISON; bytes], |values| self.cached(values, side))
                })
            })
            .collect();
        for (entry, cache) in cache_before.iter().enumerate() {
            subject.write_cache(entry, cache)?;
        }
        subject.poison_scratch()?;
        // The first of them last: it is the one that a prompt is of.
        for (place, token) in case.places().into_iter().zip(&case.tokens).rev() {
            subject
                .executor()
                .begin(place, case.parameters, &case.history)?;
            subject.executor().post(*token);
        }
        let entries: Vec<usize> = case.places().iter().map(|(entry, _)| *entry).collect();
        let (mut ends, mut scored) = (Vec::new(), Vec::new());
        for _ in 0..case.runs {
            for (buffer, image) in buffers.iter().zip(&before) {
                subject.write_buffer(*buffer, image)?;
            }
            for entry in &entries {
                subject.executor().guide(*entry, case.mask.as_ref())?;
            }
            let end = subject.run_part(tape, &case.tokens, &entries);
            let ran = subject.executor();
            let states = || entries.iter().map(|at| ran.state_of(*at)).collect();
            ends.push(end.map(|()| states()));
            scored.extend(entries.iter().map(|at| ran.scored(*at).to_vec()));
        }
        let after = buffers
            .iter()
            .zip(&before)
            .map(|(buffer, image)| subject.read_buffer(*buffer, image.len()))
            .collect::<Result<_, _>>()?;
        let cache_after = (0..self.kv.entries)
            .map(|entry| subject.read_cache(entry))
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

    /// The worst |delta| in units of the bound, and what is wrong.
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
                    ", not a number: not written, or read from beyond its inputs"
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
            let worst = worst(&ours[..real], &theirs[..real], info.columns, info.dtype);
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

    /// What a case has changed besides its outputs.
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
            // Behind what is its own.
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
        let strides = (self.kv.types.sides()).map(|element| element.bytes(self.kv.head_dim));
        let stores = case.stores().is_some();
        for (entry, (before, after)) in left.cache_before.iter().zip(&left.cache_after).enumerate()
        {
            for (stride, (before, after)) in strides.into_iter().zip(before.iter().zip(after)) {
                let pairs = before.chunks(stride).zip(after.chunks(stride));
                for (index, (before, after)) in pairs.enumerate() {
                    let position = index % self.kv.context;
                    let within = |(of, positions): &(usize, std::ops::Range<usize>)| {
                        *of == entry && positions.contains(&position)
                    };
                    if !(stores && case.runs().iter().any(within)) && before != after {
                        return Some(format!(
                            "changed the cache at position {position} of entry {entry}"
                        ));
                    }
                }
            }
        }
        None
    }
}

/// In what the most probable tokens differ, in whatever order equals come; their probabilities are f32, summed otherwise.
fn apart(reference: &[Scored], subject: &[Scored]) -> Option<String> {
    const BOUND: f32 = 1e-4;
    let sorted = |scored: &[Scored]| {
        let mut sorted = scored.to_vec();
        // The first is the chosen one.
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

/// As a buffer of that type holds them.
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
