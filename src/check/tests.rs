//! The comparison itself, CPU against CPU: equals are equal, and each kind of fault is caught.

use super::*;
use crate::cpu::Cpu;
use crate::executor::Executor;
use crate::quant::Format;
use crate::tape::{KvType, Tape};

/// What an executor gets wrong after each run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// An element of its first output is off by a little more than the bound allows.
    Element,
    /// An element of its first output was never written.
    Unwritten,
    /// What follows its first output.
    Beyond,
    /// An input.
    Input,
    /// The cache, where nothing is stored.
    Cache,
    /// The choice.
    State,
    /// The quants of a block that is stored are the next ones: one alone may lie halfway.
    Quant,
    /// The scale of what is stored is off by a little more than the bound allows.
    Scale,
}

struct Faulty {
    cpu: Cpu,
    fault: Option<Fault>,
}

impl Faulty {
    /// Changes one element of a buffer, which may lie beyond its last.
    fn set(
        &mut self,
        buffer: Buffer,
        at: usize,
        new: impl Fn(f32) -> f32,
    ) -> Result<(), ExecuteError> {
        let mut bytes = self
            .cpu
            .read_buffer(buffer, self.cpu.buffer_bytes(buffer))?;
        let at = &mut bytes[4 * at..4 * at + 4];
        let old = decode(DType::F32, at)[0];
        at.copy_from_slice(&new(old).to_le_bytes());
        self.cpu.write_buffer(buffer, &bytes)
    }

    fn change(&mut self, tape: &Tape, fault: Fault, entry: usize) -> Result<(), ExecuteError> {
        let inputs = tape.ops[0].buffers().0;
        let outputs = tape.ops[tape.ops.len() - 1].buffers().1;
        let last = |buffer: Buffer| tape.buffer(buffer).rows * tape.buffer(buffer).columns - 1;
        match fault {
            Fault::Element => {
                let info = tape.buffer(outputs[0]);
                let bytes = self.cpu.read_buffer(outputs[0], 4 * info.columns)?;
                let values = decode(DType::F32, &bytes);
                let beyond = |step: &f32| {
                    let mut off = values.clone();
                    off[0] += step;
                    worst(&values, &off, info.columns, info.dtype).ratio > 1.2
                };
                let mut steps = std::iter::successors(Some(1e-6), |step| Some(step * 1.1));
                let step = steps.find(beyond).expect("it is found");
                self.set(outputs[0], 0, |old| old + step)
            }
            Fault::Unwritten => self.set(outputs[0], 0, |_| f32::from_bits(u32::MAX)),
            Fault::Beyond => self.set(outputs[0], last(outputs[0]) + 1, |_| 0.0),
            Fault::Input => self.set(inputs[0], 0, |old| old + 1e-6),
            Fault::Cache => {
                let mut cache = self.cpu.read_cache(1)?;
                let last = cache[1].len() - 1;
                cache[1][last] ^= 1;
                self.cpu.write_cache(1, &cache)
            }
            Fault::State => {
                let token = self.cpu.state().token;
                self.cpu.post(token ^ 1);
                Ok(())
            }
            Fault::Quant | Fault::Scale => {
                let (element, head_dim) = (tape.kv.element, tape.kv.head_dim);
                let position = self.cpu.state_of(entry).position - 1;
                let mut cache = self.cpu.read_cache(entry)?;
                let head = &mut cache[0][position * element.bytes(head_dim)..];
                if fault == Fault::Quant {
                    let block = head[..KvType::Q8_0.granule()].iter_mut();
                    block.for_each(|quant| *quant ^= 1);
                } else {
                    let scale = u16::from_le_bytes([head[head_dim], head[head_dim + 1]]);
                    head[head_dim..head_dim + 2].copy_from_slice(&(scale + 2).to_le_bytes());
                }
                self.cpu.write_cache(entry, &cache)
            }
        }
    }
}

impl Inspect for Faulty {
    fn executor(&mut self) -> &mut dyn Executor {
        &mut self.cpu
    }

    fn run_part(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        entries: &[usize],
    ) -> Result<(), ExecuteError> {
        self.cpu.run_part(tape, tokens, entries)?;
        self.fault
            .map_or(Ok(()), |fault| self.change(tape, fault, entries[0]))
    }

    fn layout(&self, tape: &Tape, buffer: Buffer) -> Layout {
        self.cpu.layout(tape, buffer)
    }

    fn buffer_bytes(&self, buffer: Buffer) -> usize {
        self.cpu.buffer_bytes(buffer)
    }

    fn write_buffer(&mut self, buffer: Buffer, bytes: &[u8]) -> Result<(), ExecuteError> {
        self.cpu.write_buffer(buffer, bytes)
    }

    fn read_buffer(&mut self, buffer: Buffer, bytes: usize) -> Result<Vec<u8>, ExecuteError> {
        self.cpu.read_buffer(buffer, bytes)
    }

    fn write_cache(&mut self, entry: usize, bytes: &[Vec<u8>; 2]) -> Result<(), ExecuteError> {
        self.cpu.write_cache(entry, bytes)
    }

    fn read_cache(&mut self, entry: usize) -> Result<[Vec<u8>; 2], ExecuteError> {
        self.cpu.read_cache(entry)
    }

    fn poison_scratch(&mut self) -> Result<(), ExecuteError> {
        self.cpu.poison_scratch()
    }
}

/// Which faults an operation can have.
fn faults(op: &Op) -> &'static [Fault] {
    match op {
        Op::Embed { .. } => &[Fault::Element, Fault::Unwritten, Fault::Beyond],
        Op::RopeStore { .. } | Op::Attend { .. } => &[
            Fault::Element,
            Fault::Unwritten,
            Fault::Beyond,
            Fault::Input,
            Fault::Cache,
        ],
        Op::Sample { .. } => &[Fault::State],
        _ => &[
            Fault::Element,
            Fault::Unwritten,
            Fault::Beyond,
            Fault::Input,
        ],
    }
}

/// Every fifth case: all operations appear, and it does not take long.
#[test]
fn equals_are_equal_and_every_fault_is_caught() {
    let mut equal = Report::default();
    let mut caught = std::collections::BTreeMap::new();
    let mut cases = 0;
    for world in worlds() {
        cases += world.cases.len();
        let mut reference = world.cpu(2).expect("threads start");
        let mut subject = Faulty {
            cpu: world.cpu(2).expect("threads start"),
            fault: None,
        };
        // Long prompts and far positions take a CPU long, and read the cache no differently.
        let far = |rows| if rows < 16 { 4096 } else { 256 };
        let quick = |case: &&Case| case.position < far(case.tape.rows);
        for case in world.cases.iter().step_by(5).filter(quick) {
            subject.fault = None;
            world
                .diff_case(case, &mut reference, &mut subject, &mut equal)
                .expect("it runs");
            let count: &mut usize = caught.entry(case.op().name()).or_default();
            let faults = faults(case.op());
            let fault = faults[*count % faults.len()];
            *count += 1;
            subject.fault = Some(fault);
            let mut report = Report::default();
            world
                .diff_case(case, &mut reference, &mut subject, &mut report)
                .expect("it runs");
            // A choice that is refused leaves no token to get wrong.
            let refused = case.name.contains("NaN") || case.name.contains("inf");
            assert_eq!(
                report.failures().len(),
                usize::from(!refused),
                "{fault:?} in {}",
                case.name
            );
        }
    }
    assert!(equal.failures().is_empty(), "{equal}");
    // Each format has some of its own.
    let most = 748 + 32 * Format::ALL.len();
    assert!((600..=most).contains(&cases), "{cases} cases");
    let all = caught.values().all(|count| *count >= 5);
    assert!(
        caught.len() == 8 && all,
        "every operation, every fault: {caught:?}"
    );
}

/// It holds of what turns, what is stored, and what is attended to, in each case that is not too long for that.
#[test]
#[allow(clippy::cast_possible_truncation)] // compared as executors hold it
fn the_reference_turns_and_attends_as_plain_loops_do() {
    /// Products of queries and keys.
    const MOST: usize = 4_000_000;
    let (mut cases, mut kinds) = (0, std::collections::BTreeSet::new());
    for world in worlds() {
        let mut reference = world.cpu(2).expect("threads start");
        for case in &world.cases {
            let (expected, buffer) = match case.op() {
                Op::RopeStore { rotated, .. } => (0, rotated),
                Op::Attend { out, .. } => (1, out),
                _ => continue,
            };
            let (rows, columns) = (case.rows(), case.tape.buffer(*buffer).columns);
            let products: usize = rows.iter().map(|(_, position)| position * columns).sum();
            if expected == 1 && products > MOST {
                continue;
            }
            let inputs = world.inputs(case);
            let exact = match expected {
                0 => world.turned(case, &inputs, 0),
                _ => world.attended(case, &inputs),
            };
            let left = world.run(case, &inputs, &mut reference).expect("it runs");
            let info = case.tape.buffer(*buffer);
            let ours = left.layouts[buffer.0].take(info, &left.after[buffer.0]);
            let exact: Vec<f32> = exact.iter().map(|value| *value as f32).collect();
            let real = rows.len() * columns;
            let worst = worst(&exact[..real], &ours[..real], columns, info.dtype);
            assert!(worst.ratio <= 1.0, "{}: {worst:?}", case.name);
            if case.stores().is_some()
                && let Some(number) = world.kv.element.number()
            {
                for side in [0, 1] {
                    let exact = world.exact(case, &inputs, side);
                    let exact: Vec<f32> = exact.iter().map(|value| *value as f32).collect();
                    let stored = decode(number, &world.stored(case, &left, side));
                    let worst = super::worst(&exact, &stored, world.kv.head_dim, number);
                    assert!(worst.ratio <= 1.0, "{}: cached {side} {worst:?}", case.name);
                }
            }
            cases += 1;
            let kind = case.name.split(", ").skip(4);
            kinds.extend(kind.filter_map(|kind| kind.split(' ').next().map(str::to_owned)));
        }
    }
    assert!(cases >= 200, "{cases} cases");
    for kind in ["window", "softcap", "sinks", "scale", "queries"] {
        assert!(kinds.contains(kind), "{kind} among {kinds:?}");
    }
}

/// What a cache of quants holds is held against exact values, so that neither may be off by a step.
#[test]
fn a_quant_or_a_scale_that_is_off_is_caught() {
    let mut cases = 0;
    for world in worlds().filter(|world| world.kv.element == KvType::Q8_0) {
        let mut reference = world.cpu(2).expect("threads start");
        let mut subject = Faulty {
            cpu: world.cpu(2).expect("threads start"),
            fault: None,
        };
        let stores = |case: &&Case| matches!(case.op(), Op::RopeStore { .. });
        for case in world.cases.iter().filter(stores) {
            for fault in [Fault::Quant, Fault::Scale] {
                subject.fault = Some(fault);
                let mut report = Report::default();
                world
                    .diff_case(case, &mut reference, &mut subject, &mut report)
                    .expect("it runs");
                let failures = report.failures();
                let found = failures.first().is_some_and(|why| why.contains("cached k"));
                assert!(found, "{fault:?} in {}: {failures:?}", case.name);
                cases += 1;
            }
        }
    }
    assert!(cases >= 40, "{cases} cases");
}
