//! The products of a step: one launch for matrices of one storage form and width.
//!
//! Other forms, which some files mix within a layer, have their own launch. Each output is summed separately, so that
//! does not change the bits.

use super::narrow::narrow;
use super::queue::LaunchQueue;
use super::step_shared::{self, Fit};
use super::work::Work;
use crate::device::{Epilogue, Error, Geometry, MixedStepArgs, StepArgs, Tiles};
use crate::quant::Storage;

/// Threads of a team.
const THREADS: u32 = 256;

/// The ranges of neighbours with one storage form. A missing matrix has no rows.
pub(super) fn runs(weights: &[Tiles; 3]) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
    let mut first = 0;
    std::iter::from_fn(move || {
        let of = weights.get(first).filter(|weight| weight.rows > 0)?;
        let other = |next: &usize| weights[*next].rows == 0 || weights[*next].format != of.format;
        let run = first..(first + 1..3).find(other).unwrap_or(3);
        first = run.end;
        Some(run)
    })
}

/// Selects the elements of a run, starting at index 0.
pub(super) fn of_run<T: Copy + Default>(all: [T; 3], run: &std::ops::Range<usize>) -> [T; 3] {
    std::array::from_fn(|index| {
        let at = run.start + index;
        if at < run.end { all[at] } else { T::default() }
    })
}

impl Work<'_> {
    /// Launches a product for each run of weights with one storage form, or one for two forms if a kernel has both.
    pub(super) fn product(&self, queue: &mut LaunchQueue<'_>, args: StepArgs) -> Result<(), Error> {
        let matrices = [args.weight0, args.weight1, args.weight2];
        let mut runs = runs(&matrices).map(|run| {
            let [weight0, weight1, weight2] = of_run(matrices, &run);
            let [bias0, bias1, bias2] = of_run([args.bias0, args.bias1, args.bias2], &run);
            let [out0, out1, out2] = of_run([args.out0, args.out1, args.out2], &run);
            StepArgs {
                weight0,
                weight1,
                weight2,
                bias0,
                bias1,
                bias2,
                out0,
                out1,
                out2,
                ..args
            }
        });
        let runs: [Option<StepArgs>; 3] = std::array::from_fn(|_| runs.next());
        if let [Some(first), Some(second), None] = runs
            && self.mixed(queue, first, second)?
        {
            return Ok(());
        }
        runs.into_iter()
            .flatten()
            .try_for_each(|run| self.alike(queue, run))
    }

    /// Launches one product for two storage forms, if a kernel has both and both fit shared memory. Blocks are divided
    /// by the bytes that they read.
    fn mixed(
        &self,
        queue: &mut LaunchQueue<'_>,
        first: StepArgs,
        second: StepArgs,
    ) -> Result<bool, Error> {
        let [a, b] = [first, second].map(|args| Storage::of_code(args.weight0.format));
        let (Some(a), Some(b)) = (a, b) else {
            return Ok(false);
        };
        let Some(kernels) = self.kernels.mixed(a, b) else {
            return Ok(false);
        };
        let problems = [self.problem(a, first), self.problem(b, second)];
        let Some(fit) = Fit::of_both(problems, kernels.several.shared()) else {
            return Ok(false);
        };
        // Each form has at least one block.
        let blocks = (self.multiprocessors * narrow(fit.blocks())).max(2);
        let [read, others_read] = problems.map(|of| of.tiles as usize * of.storage.layout().unit());
        let share = narrow((blocks as usize * read).div_ceil(read + others_read));
        let share = share.clamp(1, blocks - 1).min(problems[0].tiles);
        let others = (blocks - share).min(problems[1].tiles);
        let args = MixedStepArgs {
            first: StepArgs { phases: 1, ..first },
            second: StepArgs {
                phases: 1,
                ..second
            },
            blocks: share,
            ..MixedStepArgs::default()
        };
        let geometry = Geometry {
            shared: narrow(fit.shared),
            ..Geometry::new(share + others, fit.teams * THREADS)
        };
        queue.launch(kernels.of(fit), geometry, &args)?;
        Ok(true)
    }

    fn problem(&self, storage: Storage, args: StepArgs) -> step_shared::Problem {
        let tiles = |weight: Tiles| weight.rows.div_ceil(16);
        let gated = args.epilogue == Epilogue::Gated;
        step_shared::Problem {
            storage,
            rows: args.rows,
            columns: args.stride as usize,
            tiles: if gated {
                tiles(args.weight0)
            } else {
                tiles(args.weight0) + tiles(args.weight1) + tiles(args.weight2)
            },
            multiprocessors: self.multiprocessors.max(1),
            whole: args.input == 0,
        }
    }

    /// Launches `activation(gate) * up`.
    pub(super) fn gated(&self, queue: &mut LaunchQueue<'_>, args: StepArgs) -> Result<(), Error> {
        if args.weight0.format == args.weight1.format {
            let epilogue = Epilogue::Gated;
            return self.alike(queue, StepArgs { epilogue, ..args });
        }
        let gates = self.buffers.gates();
        let activated = StepArgs {
            weight1: Tiles::default(),
            out0: gates,
            epilogue: Epilogue::Activated,
            ..args
        };
        self.alike(queue, activated)?;
        let multiplied = StepArgs {
            weight0: args.weight1,
            weight1: Tiles::default(),
            out1: gates,
            epilogue: Epilogue::Multiplied,
            ..args
        };
        self.alike(queue, multiplied)
    }

    /// Launches a product of one storage form. Rows that do not fit shared memory together are split in halves.
    fn alike(&self, queue: &mut LaunchQueue<'_>, args: StepArgs) -> Result<(), Error> {
        let storage = Storage::of_code(args.weight0.format);
        let missing = || Error::NoKernel {
            kernel: format!("step of format {}", args.weight0.format),
        };
        let storage = storage.ok_or_else(missing)?;
        let kernels = self.kernels.step(storage).ok_or_else(missing)?;
        let problem = self.problem(storage, args);
        let fit = Fit::of(problem, kernels.several.shared());
        let kernel = kernels.of(fit);
        // Neighbouring blocks are on different multiprocessors, so that those with one more tile are spread evenly.
        let blocks = problem
            .tiles
            .min(problem.multiprocessors * narrow(fit.blocks()));
        let args = StepArgs {
            phases: fit.phases,
            ..args
        };
        let geometry = Geometry {
            shared: narrow(fit.shared),
            ..Geometry::new(blocks, fit.teams * THREADS)
        };
        for first in (0..args.rows).step_by(fit.rows as usize) {
            queue.launch(kernel, geometry, &part(args, first, fit.rows))?;
        }
        Ok(())
    }
}

/// The arguments for `rows` rows of a step from `first` on.
fn part(args: StepArgs, first: u32, rows: u32) -> StepArgs {
    let skip = |address: u64, columns: u32, bytes: u64| {
        if address == 0 {
            0
        } else {
            address + u64::from(first) * u64::from(columns) * bytes
        }
    };
    let wide = |weight: Tiles| {
        if args.out_stride > 0 {
            args.out_stride
        } else {
            weight.rows
        }
    };
    let multiplied = args.epilogue == Epilogue::Multiplied;
    let rounded = multiplied || args.epilogue == Epilogue::Gated;
    let bytes = if rounded { 2 } else { 4 };
    StepArgs {
        out0: skip(args.out0, wide(args.weight0), bytes),
        // They are the gates of `Multiplied`, which lie as the outputs do.
        out1: if multiplied {
            skip(args.out1, wide(args.weight0), 4)
        } else {
            skip(args.out1, wide(args.weight1), 4)
        },
        out2: skip(args.out2, wide(args.weight2), 4),
        x: skip(args.x, args.hidden, 4),
        input: skip(args.input, args.stride, 2),
        rows,
        ..args
    }
}
