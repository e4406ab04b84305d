//! What runs tapes: the trait that the CPU and a CUDA device implement. It names neither, and knows no model.
//!
//! A call goes through a table of functions and allocates nothing for that; beside a step it is not to be measured.

mod inspect;
mod preempted;

use std::fmt::Debug;

pub use self::inspect::{Inspect, Layout};
pub use self::preempted::{Leaves, PLACES, PREEMPTED, Pass, Preempted, Preempts, Rows, STEP_PLACE};
use crate::fault::Faults;
use crate::graph::{Counts, LifeCycle, Mode};
use crate::sampler::{Mask, Parameters, Promise, Scored};
use crate::tape::{ExecuteError, Span, StepState, StepTimes, Tape, Timed};

/// A step that a device may launch before the tokens of the one before it have been taken: without tokens that are given. Where
/// something may preempt it, that is asked as late as the device does not idle for it.
pub struct Behind<'a> {
    pub tape: &'a Tape,
    pub entries: &'a [usize],
    /// Whether it may be left.
    pub cut: bool,
    pub preempts: Preempts<'a>,
}

/// What runs tapes, on a cache of several entries, each of which holds a conversation.
///
/// It goes to another thread whole, and one thread at a time uses it.
pub trait Executor: Debug + Send {
    fn name(&self) -> &'static str;

    /// The multiprocessors of a GPU that kernels run on, and all that it has; a CPU has none.
    fn multiprocessors(&self) -> Option<(u32, u32)> {
        None
    }

    /// Makes room for a tape: after this, running it moves nothing.
    fn prepare(&mut self, tape: &Tape) -> Result<(), ExecuteError>;

    /// Bytes of activations, and of what kernels keep to themselves.
    fn activation_bytes(&self) -> u64;

    /// Starts a request whose entry of the cache holds `position` positions.
    fn begin(
        &mut self,
        place: (usize, usize),
        parameters: Parameters,
        prompt: &[u32],
    ) -> Result<(), ExecuteError>;

    /// From now on the positions of an entry lie in these pages, `PAGE` in each, and it has no others.
    fn seat(&mut self, entry: usize, pages: &[usize]) -> Result<(), ExecuteError>;

    /// Gives the memory of chunks of pages back to the system, which no turn that runs has a page of; it waits for what was
    /// launched first. A table that leads there ends before, and none may again until they are allocated.
    fn give_back(&mut self, chunks: &[usize]) -> Result<(), ExecuteError>;

    /// Allocates the memory of a chunk of pages that was given back; what they hold is unknown.
    fn allocate(&mut self, chunk: usize) -> Result<(), ExecuteError>;

    /// Copies what a page of the cache holds to another.
    ///
    /// # Errors
    /// If the device has failed; what the other page holds is then unknown.
    fn copy_page(&mut self, from: usize, to: usize) -> Result<(), ExecuteError>;

    /// Has what a page of the cache holds of its first positions read, as it is after all that was run; nobody waits for that. False
    /// where as many are on their way as may be: those are to be taken first.
    fn send_page(&mut self, page: usize, positions: usize) -> Result<bool, ExecuteError>;

    /// The oldest page that was sent and not taken, once it is there. Zeros stand for the positions that were not asked for.
    fn take_sent(&mut self) -> Result<Option<Vec<u8>>, ExecuteError>;

    /// What was sent and not taken is nobody's any more.
    fn forget_sent(&mut self);

    /// Has a page of the cache hold what was taken of one, before whatever is run next; nobody waits for that. False where too many
    /// are on their way: it is to be asked again.
    ///
    /// # Errors
    /// If the device has failed; what the page holds is then unknown.
    fn write_page(&mut self, page: usize, bytes: &[u8]) -> Result<bool, ExecuteError>;

    /// What computes, as far as the last bits depend on it.
    fn identity(&self) -> String;

    /// The entry whose turn runs.
    fn entry(&self) -> usize;

    /// From now on the turn in another entry is the one that runs; it goes on where it stands.
    fn turn_to(&mut self, entry: usize);

    /// The next step of the turn that runs starts with `token` rather than the one chosen last.
    fn post(&mut self, token: u32);

    /// What the conversation in an entry may say next; `None`: anything, from now on. Once it has had a mask it waits for
    /// another before each of its tokens: a step that finds none leaves its state as it was, and costs its time. `begin`
    /// frees it.
    fn guide(&mut self, entry: usize, mask: Option<&Mask>) -> Result<(), ExecuteError>;

    /// The same with a mask that is still being made. What chooses before it is there waits for it, or does as a step does that
    /// finds none; if there never is one, so does every step.
    fn guide_later(&mut self, entry: usize, mask: Promise) -> Result<(), ExecuteError>;

    /// Whether the last step left an entry as it was, for want of its mask.
    fn waits(&self, entry: usize) -> bool;

    /// The token that was chosen last in an entry, then the most probable ones in their order, as its sampler's parameters
    /// ask for; empty where they do not.
    fn scored(&self, entry: usize) -> &[Scored];

    /// Where generation of an entry stands.
    fn state_of(&self, entry: usize) -> StepState;

    /// Where generation of the turn that runs stands.
    fn state(&self) -> StepState {
        self.state_of(self.entry())
    }

    /// Runs a prepared tape of a prompt in the entry whose turn runs; fewer `tokens` than it has rows are padded.
    ///
    /// # Errors
    /// A token outside the vocabulary, a position outside the context, logits that are not finite, a
    /// device that fails. The state is then as before.
    fn run(&mut self, tape: &Tape, tokens: &[u32]) -> Result<(), ExecuteError> {
        self.run_until(tape, tokens, None).map(drop)
    }

    /// The same, but between two half layers `preempts` is asked whether to leave it there. The same rows go on from where they
    /// were left, with the same bits, whatever has run meanwhile in other entries. What is recorded is never left, and no more
    /// than `PREEMPTED` are at once.
    fn run_until(
        &mut self,
        tape: &Tape,
        tokens: &[u32],
        preempts: Preempts<'_>,
    ) -> Result<Pass, ExecuteError>;

    /// What was left in an entry does not go on; `begin` says so too.
    fn forget(&mut self, entry: usize);

    /// Has a device begin a prompt behind steps that are ahead, so that it does not idle while their tokens are taken; the same
    /// goes on from there when it is run. Others have nothing to gain.
    fn start(&mut self, _tape: &Tape, _tokens: &[u32]) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Runs a prepared step of the turn that runs. `more` says that another will follow, which a device may then begin
    /// before this one's token has been read: it has no time to idle then. A step that was launched ahead and is not wanted
    /// costs its time, no more.
    fn step(&mut self, tape: &Tape, more: bool) -> Result<(), ExecuteError> {
        let entries = [self.entry()];
        let entries = &entries[..];
        let behind = more.then_some(Behind {
            tape,
            entries,
            cut: false,
            preempts: None,
        });
        self.step_rows(tape, entries, &[], None, behind).map(drop)
    }

    /// The same of several conversations, each a row, from where `begin` and `post` left their entries; a tape of more rows
    /// is filled up. Where an entry comes again, in the row after, the conversation goes on with the next of `forced`
    /// tokens; what follows its last row is chosen. The step may be one that was launched ahead, and the one `behind` it is of
    /// whomever it says: rows come and go between two steps, and nothing waits for that.
    ///
    /// Where it has no `forced` tokens `leaves` may be asked on the way whether to leave it there. It is ahead then, and the same
    /// goes on, with the same bits, whatever prompts have run meanwhile; a step of others has it run anew.
    ///
    /// # Errors
    /// As `run`; one that does not fit is said before anything runs.
    fn step_rows(
        &mut self,
        tape: &Tape,
        entries: &[usize],
        forced: &[u32],
        leaves: Leaves<'_>,
        behind: Option<Behind<'_>>,
    ) -> Result<Pass, ExecuteError>;

    /// Leaves the step that is ahead where it stands, if it has not come too far. Returns whether it is left, now or since before.
    fn leave_step(&mut self, tape: &Tape) -> Result<bool, ExecuteError>;

    /// Whether the step that is ahead is left.
    fn is_left(&self) -> bool;

    /// Waits for what was launched, whose tokens are as before: a device may compute when a call has returned.
    fn finish(&mut self) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Whether a step was launched whose tokens have not been taken: they are by `step_rows` of the same conversations. A step
    /// of others, or a prompt, would run after it and take them away.
    fn is_ahead(&self) -> bool {
        false
    }

    /// Waits for steps that are ahead, whose tokens nobody wants: their conversations stand where they stood.
    fn abandon_ahead(&mut self) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Runs one prepared step of the turn that runs, operation by operation, and tells when each began and ended; what is
    /// recorded is neither run nor touched. `None` if the step had been launched ahead: it has run, and was not timed.
    ///
    /// # Errors
    /// As `step`; if there is not enough memory for the times.
    fn time_step(&mut self, tape: &Tape) -> Result<Option<Vec<Option<Span>>>, ExecuteError>;

    /// From now on operations of a step take timestamps. On a CPU that is quick: each of them does.
    fn measure(&mut self, step: &Tape, timed: Timed) -> Result<(), ExecuteError>;

    /// When each operation of the last step began and ended, in nanoseconds, `None` for one that another did on the way;
    /// empty where nothing was measured.
    fn take_spans(&mut self) -> Result<Vec<Option<Span>>, ExecuteError>;

    /// The row of logits that a tape of `Ending::Logits` left.
    fn logits(&self, tape: &Tape, row: usize) -> &[f32];

    /// The rows of logits that the last run of a tape left, (rows, vocabulary), once it has ended.
    fn left_logits(&mut self, tape: &Tape) -> Result<Vec<f32>, ExecuteError>;

    /// Whether these are of the step whose tokens were taken last, also where another was launched behind it.
    fn keeps_logits(&self) -> bool {
        false
    }

    /// How the last step spent its time.
    fn step_times(&self) -> StepTimes;

    /// The life cycle of the decode graph.
    fn graph(&self) -> &LifeCycle;

    fn graph_mut(&mut self) -> &mut LifeCycle;

    /// What became of recorded prompts.
    fn prompt_graphs(&self) -> Counts;

    /// Goes on with what was counted of another executor's prompts.
    fn succeed_prompts(&mut self, before: Counts);

    /// Takes the place of another, whose cache is gone; what was counted goes on.
    fn succeed(&mut self, before: &mut dyn Executor) {
        self.succeed_prompts(before.prompt_graphs());
        self.graph_mut().succeed(before.graph_mut());
    }

    /// It has come from the thread that made it, and runs on this one from now on.
    fn settle(&self) -> Result<(), ExecuteError> {
        Ok(())
    }

    /// Records a prepared tape of a prompt for an entry, without running it.
    fn record(&mut self, tape: &Tape, entry: usize) -> Result<(), ExecuteError>;

    /// Drops all that was recorded; what failures had disabled is tried again.
    fn reset_graph(&mut self);

    /// Records in another way from now on.
    fn set_graph_mode(&mut self, mode: Mode);

    /// The kernels that a run of a tape takes, each with the operation that it belongs to; the CPU has one for each operation.
    fn launches(&mut self, tape: &Tape) -> Vec<(&'static str, String)>;

    /// The decode graph in DOT, one graph a segment; empty before the first recording.
    fn graph_dot(&self) -> Result<String, ExecuteError>;

    /// What tests let fail.
    fn faults(&self) -> &Faults;
}
