//! The executors, as one: a match, and no more.

use crate::cpu::Cpu;
#[cfg(feature = "cuda")]
use crate::cuda::Cuda;
use crate::fault::Faults;
use crate::graph::{Counts, LifeCycle, Mode};
#[cfg(feature = "cuda")]
use crate::sampler::History;
use crate::sampler::{Mask, Parameters, Scored};
use crate::tape::{ExecuteError, Noted, Pace, Span, StepState, Tape};

/// What runs tapes.
#[derive(Debug)]
pub enum Executor {
    Cpu(Box<Cpu>),
    #[cfg(feature = "cuda")]
    Cuda(Box<Cuda>),
}

impl Executor {
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cpu(_) => "cpu",
            #[cfg(feature = "cuda")]
            Self::Cuda(_) => "cuda",
        }
    }

    /// Of a GPU, the multiprocessors that kernels run on, and all that it has.
    #[must_use]
    pub fn multiprocessors(&self) -> Option<(u32, u32)> {
        match self {
            Self::Cpu(_) => None,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Some(cuda.multiprocessors()),
        }
    }

    /// Makes room for a tape: after this, running it moves nothing.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.prepare(tape),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.prepare(tape)?,
        }
        Ok(())
    }

    /// Bytes of activations.
    #[must_use]
    pub fn activation_bytes(&self) -> u64 {
        match self {
            Self::Cpu(cpu) => cpu.activation_bytes() as u64,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.activation_bytes(),
        }
    }

    /// Starts a request whose region of the cache holds `position` positions.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn begin(
        &mut self,
        (region, position): (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.begin((region, position), parameters, prompt),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.begin((region, position), parameters, &History::of(prompt))?,
        }
        Ok(())
    }

    /// From now on the positions of a conversation lie in these pages, `PAGE` in each, and it has no others.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn seat(&mut self, entry: usize, pages: &[usize]) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.seat(entry, pages),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.seat(entry, pages)?,
        }
        Ok(())
    }

    /// Copies what a page of the cache holds to another.
    ///
    /// # Errors
    /// If the device has failed; what the other page holds is then unknown.
    pub fn copy_page(&mut self, from: usize, to: usize) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.copy_page(from, to),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.copy_page(from, to)?,
        }
        Ok(())
    }

    /// The next step starts with `token` rather than the one chosen last.
    pub fn post(&mut self, token: u32) {
        match self {
            Self::Cpu(cpu) => cpu.post(token),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.post(token),
        }
    }

    /// What the conversation in a region of the cache may say next; `None`: anything, from now on. Once it has had a mask it
    /// waits for another before each of its tokens: a step that finds none leaves its state as it was, and costs its time.
    /// `begin` frees it.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn guide(&mut self, region: usize, mask: Option<&Mask>) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.guide(region, mask),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.guide(region, mask)?,
        }
        Ok(())
    }

    /// Whether the last step left a region as it was, for want of its mask.
    #[must_use]
    pub fn waits(&self, region: usize) -> bool {
        match self {
            Self::Cpu(cpu) => cpu.waits(region),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.waits(region),
        }
    }

    /// The token that was chosen last in a region, then the most probable ones in their order, as its sampler's parameters
    /// ask for; empty where they do not.
    #[must_use]
    pub fn scored(&self, region: usize) -> &[Scored] {
        match self {
            Self::Cpu(cpu) => cpu.scored(region),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.scored(region),
        }
    }

    /// Where generation stands.
    #[must_use]
    pub fn state(&self) -> StepState {
        match self {
            Self::Cpu(cpu) => cpu.state(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.state(),
        }
    }

    /// Runs a prepared tape of a prompt; fewer `tokens` than it has rows are padded.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, logits that are not finite, a
    /// device that fails. The state is then as before.
    pub fn run(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.run(tape, tokens),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.run(tape, tokens),
        }
    }

    /// Runs a prepared step from the token of the state. `more` says that another will follow, which a device may
    /// then begin before this one's token has been read.
    ///
    /// # Errors
    /// As `run`.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))] // a CPU runs nothing ahead
    pub fn step(&mut self, tape: &Tape, more: bool) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.step(tape),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.step(tape, more),
        }
    }

    /// The same of several conversations, each a row, from where `begin` and `post` left their regions of the cache; a
    /// tape of more rows is filled up. Where a region comes again, in the row after, the conversation goes on with the next
    /// of `forced` tokens; what follows its last row is chosen.
    ///
    /// # Errors
    /// As `run`.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))] // a CPU runs nothing ahead
    pub fn step_rows(
        &mut self,
        tape: &Tape,
        regions: &[usize],
        forced: &[u32],
        more: bool,
    ) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.step_rows(tape, regions, forced),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.step_rows(tape, regions, forced, more),
        }
    }

    /// Where generation of a region of the cache stands.
    #[must_use]
    pub fn state_of(&self, region: usize) -> StepState {
        match self {
            Self::Cpu(cpu) => cpu.state_of(region),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.state_of(region),
        }
    }

    /// The rows of logits that the last step left, (rows, vocabulary).
    ///
    /// # Errors
    /// If the device has failed.
    pub fn step_logits(&mut self, step: &Tape) -> Result<Vec<f32>, ExecuteError> {
        match self {
            Self::Cpu(cpu) => Ok((0..step.rows)
                .flat_map(|row| cpu.logits(step, row))
                .copied()
                .collect()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Ok(cuda.step_logits(step)?),
        }
    }

    /// How the last step spent its time.
    #[must_use]
    pub fn pace(&self) -> Pace {
        match self {
            Self::Cpu(cpu) => cpu.pace(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.pace(),
        }
    }

    /// The life cycle of the decode graph.
    #[must_use]
    pub fn graph(&self) -> &LifeCycle {
        match self {
            Self::Cpu(cpu) => cpu.graph(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.graph(),
        }
    }

    pub fn graph_mut(&mut self) -> &mut LifeCycle {
        match self {
            Self::Cpu(cpu) => cpu.graph_mut(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.graph_mut(),
        }
    }

    /// What became of recorded prompts.
    #[must_use]
    pub fn prompt_graphs(&self) -> Counts {
        match self {
            Self::Cpu(cpu) => cpu.prompt_graphs(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.prompt_graphs(),
        }
    }

    /// Takes the place of another, whose cache is gone; what was counted goes on.
    pub fn succeed(&mut self, before: &mut Self) {
        let prompts = before.prompt_graphs();
        match self {
            Self::Cpu(cpu) => cpu.succeed_prompts(prompts),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.succeed_prompts(prompts),
        }
        self.graph_mut().succeed(before.graph_mut());
    }

    /// It has come from the thread that made it, and runs on this one from now on.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn settle(&self) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Ok(cuda.settle()?),
        }
    }

    /// Records a prepared tape of a prompt for a region of the cache, without running it.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn record(&mut self, tape: &Tape, region: usize) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.record(tape, region),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Ok(cuda.record(tape, region)?),
        }
    }

    /// Drops all that was recorded; what failures had disabled is tried again.
    pub fn reset_graph(&mut self) {
        match self {
            Self::Cpu(cpu) => cpu.reset_graph(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.reset_graph(),
        }
    }

    /// Records in another way from now on.
    pub fn set_graph_mode(&mut self, mode: Mode) {
        match self {
            Self::Cpu(cpu) => cpu.set_graph_mode(mode),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.set_graph_mode(mode),
        }
    }

    /// The kernels that a run of a tape takes, each with the operation that it belongs to; the CPU has one for each operation.
    #[must_use]
    pub fn launches(&mut self, tape: &Tape) -> Vec<(&'static str, String)> {
        match self {
            Self::Cpu(_) => tape
                .ops
                .iter()
                .map(|op| (op.name(), op.name().into()))
                .collect(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.launches(tape),
        }
    }

    /// The decode graph in DOT, one graph a segment; empty before the first recording.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn graph_dot(&self) -> Result<String, ExecuteError> {
        match self {
            Self::Cpu(cpu) => Ok(cpu.graph_dot()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Ok(cuda.graph_dot()?),
        }
    }

    /// From now on operations of a step note when they begin and end. A CPU's note is short: each of them makes one.
    ///
    /// # Errors
    /// If there is not enough memory.
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))] // as said
    pub fn measure(&mut self, step: &Tape, noted: Noted) -> Result<(), ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.measure(step),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.measure(step, noted)?,
        }
        Ok(())
    }

    /// When each operation of the last step began and ended, in nanoseconds, `None` for one that another did on the way;
    /// empty where nothing was measured.
    ///
    /// # Errors
    /// If the device has failed.
    pub fn take_spans(&mut self) -> Result<Vec<Option<Span>>, ExecuteError> {
        match self {
            Self::Cpu(cpu) => Ok(cpu.take_spans()),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => Ok(cuda.take_spans()?),
        }
    }

    /// Runs one prepared step of the turn that runs, operation by operation, and tells when each began and ended; what is
    /// recorded is neither run nor touched. `None` if the step had been launched ahead: it has run, and was not timed.
    ///
    /// # Errors
    /// As `step`.
    pub fn time_step(&mut self, tape: &Tape) -> Result<Option<Vec<Option<Span>>>, ExecuteError> {
        match self {
            Self::Cpu(cpu) => cpu.time_step(tape).map(Some),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.time_step(tape),
        }
    }

    /// What tests let fail.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        match self {
            Self::Cpu(cpu) => cpu.faults(),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.faults(),
        }
    }

    /// The row of logits that a tape of `Ending::Logits` left.
    #[must_use]
    pub fn logits(&self, tape: &Tape, row: usize) -> &[f32] {
        match self {
            Self::Cpu(cpu) => cpu.logits(tape, row),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.logits(row),
        }
    }

    /// From now on the turn in another region of the cache is the one that runs; it goes on where it stands.
    pub fn turn_to(&mut self, region: usize) {
        match self {
            Self::Cpu(cpu) => cpu.turn_to(region),
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.turn_to(region),
        }
    }

    /// Whether a step was launched whose tokens have not been taken. Until they are, by `step_rows` of the same
    /// conversations, no other may run: it would take them away.
    #[must_use]
    pub fn is_ahead(&self) -> bool {
        match self {
            Self::Cpu(_) => false,
            #[cfg(feature = "cuda")]
            Self::Cuda(cuda) => cuda.is_ahead(),
        }
    }
}
