//! The products of a prompt: norms and sums, then a launch for matrices of one storage form and width.
//!
//! A launch takes up to three matrices. Other forms, which some files mix within a layer, have their own launch. Each
//! output is summed separately, so that does not change the bits.

use super::activation::number;
use super::memory::stride;
use super::narrow::narrow;
use super::product::{of_run, runs};
use super::queue::LaunchQueue;
use super::shapes::{self, SHAPES};
use super::work::Work;
use crate::device::{Epilogue, Error, Geometry, NormArgs, PromptArgs, Row, SumsArgs, Tiles};
use crate::quant::Storage;
use crate::tape::{Activation, Buffer, Input, Tape, WeightId};

/// Threads of a block of the small kernels.
const THREADS: u32 = 256;
/// The launches of one tape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prompt<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) tape: &'a Tape,
    pub(super) rows: usize,
}

/// Rows that are prepared for products.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    pub(super) address: u64,
    pub(super) stride: u32,
}

impl Prompt<'_> {
    /// Launches the norm of the rows of x, and their sums.
    pub(super) fn norm(
        &self,
        queue: &mut LaunchQueue<'_>,
        (x, norm, epsilon): (Buffer, WeightId, f32),
    ) -> Result<Inputs, Error> {
        self.normed(queue, (x, self.work.vector(norm), epsilon))
    }

    /// Launches the rounding of the rows of x to the type of activations, and their sums. A step has rows for it, too.
    pub(super) fn round(&self, queue: &mut LaunchQueue<'_>, x: Buffer) -> Result<Inputs, Error> {
        self.normed(queue, (x, 0, 0.0))
    }

    /// Returns the rows of a buffer.
    pub(super) fn rows_of(&self, input: Buffer) -> Inputs {
        Inputs {
            address: self.work.buffer(input),
            stride: narrow(stride(self.tape, input)),
        }
    }

    /// Launches the norm of rows, by the weights at an address; 0 means none.
    fn normed(
        &self,
        queue: &mut LaunchQueue<'_>,
        (x, weight, epsilon): (Buffer, u64, f32),
    ) -> Result<Inputs, Error> {
        let hidden = narrow(self.tape.buffer(x).columns);
        let args = NormArgs {
            x: self.work.buffer(x),
            weight,
            out: self.work.buffers.normed(),
            sums: self.work.buffers.sums(),
            count: self.count(),
            stamp: queue.stamp(),
            hidden,
            stride: hidden.next_multiple_of(64),
            epsilon,
            rows: self.rows(),
        };
        let geometry = Geometry::new(self.rows(), THREADS);
        queue.launch(&self.work.kernels.norm, geometry, &args)?;
        Ok(Inputs {
            address: args.out,
            stride: args.stride,
        })
    }

    /// The rows of a buffer, with their sums if the weight needs them.
    pub(super) fn summed(
        &self,
        queue: &mut LaunchQueue<'_>,
        input: Buffer,
        weight: Tiles,
    ) -> Result<Inputs, Error> {
        self.sums(queue, self.rows_of(input), weight)
    }

    /// Launches the sums of rows, if the weight needs them.
    pub(super) fn sums(
        &self,
        queue: &mut LaunchQueue<'_>,
        inputs: Inputs,
        weight: Tiles,
    ) -> Result<Inputs, Error> {
        if Storage::of_code(weight.format).is_some_and(|of| of.layout().needs_sums()) {
            let args = SumsArgs {
                input: inputs.address,
                sums: self.work.buffers.sums(),
                count: self.count(),
                stamp: queue.stamp(),
                stride: inputs.stride,
                rows: self.rows(),
            };
            let geometry = Geometry::new(self.rows(), THREADS);
            queue.launch(&self.work.kernels.sums, geometry, &args)?;
        }
        Ok(inputs)
    }

    /// Launches `out[i] = weight[i] input + bias[i]`.
    pub(super) fn linear(
        &self,
        queue: &mut LaunchQueue<'_>,
        input: Inputs,
        matrices: &[Tiles; 3],
        added: &[u64; 3],
        filled: &[u64; 3],
    ) -> Result<(), Error> {
        for run in runs(matrices) {
            let [weight0, weight1, weight2] = of_run(*matrices, &run);
            let [bias0, bias1, bias2] = of_run(*added, &run);
            let [out0, out1, out2] = of_run(*filled, &run);
            let args = PromptArgs {
                weight0,
                weight1,
                weight2,
                bias0,
                bias1,
                bias2,
                out0,
                out1,
                out2,
                epilogue: Epilogue::Stored,
                ..PromptArgs::default()
            };
            self.launch(queue, input, args)?;
        }
        Ok(())
    }

    /// Launches `out = weight input`, or `out += weight input`.
    pub(super) fn multiply(
        &self,
        queue: &mut LaunchQueue<'_>,
        input: Inputs,
        weight: Tiles,
        (out0, epilogue): (u64, Epilogue),
    ) -> Result<(), Error> {
        let args = PromptArgs {
            weight0: weight,
            out0,
            epilogue,
            ..PromptArgs::default()
        };
        self.launch(queue, input, args)
    }

    /// Launches `out = activation(gate input) * (up input)`, rounded; `out_stride` is the number of elements from one row to
    /// the next.
    pub(super) fn gate_up(
        &self,
        queue: &mut LaunchQueue<'_>,
        input: Inputs,
        [gate, up]: [Tiles; 2],
        activation: Activation,
        (out0, out_stride): (u64, u32),
    ) -> Result<(), Error> {
        let args = PromptArgs {
            weight0: gate,
            weight1: up,
            out0,
            out_stride,
            epilogue: Epilogue::Gated,
            activation: number(activation),
            ..PromptArgs::default()
        };
        if gate.format == up.format {
            return self.launch(queue, input, args);
        }
        // Each storage form has its own launch, and the gate is kept in f32 until the second one.
        let activated = PromptArgs {
            weight1: Tiles::default(),
            out0: self.work.buffers.gates(),
            epilogue: Epilogue::Activated,
            ..args
        };
        self.launch(queue, input, activated)?;
        let multiplied = PromptArgs {
            weight0: up,
            weight1: Tiles::default(),
            out1: self.work.buffers.gates(),
            epilogue: Epilogue::Multiplied,
            ..args
        };
        self.launch(queue, input, multiplied)
    }

    /// Launches a part of the logits of all rows.
    pub(super) fn head(
        &self,
        queue: &mut LaunchQueue<'_>,
        input: Inputs,
        weight: Tiles,
        (out0, out_stride): (u64, u32),
    ) -> Result<(), Error> {
        let args = PromptArgs {
            weight0: weight,
            out0,
            out_stride,
            epilogue: Epilogue::Stored,
            ..PromptArgs::default()
        };
        self.launch(queue, input, args)
    }

    /// Launches a product of one storage form.
    pub(super) fn launch(
        &self,
        queue: &mut LaunchQueue<'_>,
        input: Inputs,
        args: PromptArgs,
    ) -> Result<(), Error> {
        let args = PromptArgs {
            input: input.address,
            sums: self.work.buffers.sums(),
            count: self.count(),
            stamp: queue.stamp(),
            rows: self.rows(),
            stride: input.stride,
            ..args
        };
        let weights = [args.weight0, args.weight1, args.weight2];
        let tiles = weights.iter().map(|weight| weight.rows.div_ceil(16)).sum();
        let missing = || Error::NoKernel {
            kernel: format!("prompt of format {}", args.weight0.format),
        };
        let storage = Storage::of_code(args.weight0.format).ok_or_else(missing)?;
        let multiprocessors = self.work.multiprocessors.max(1);
        let gates = args.epilogue == Epilogue::Gated;
        let quickest = shapes::quickest((storage, gates), (args.rows, tiles), multiprocessors);
        let (index, way) = quickest.ok_or_else(missing)?;
        let kernel = self.work.kernels.prompt(storage, index);
        let shape = &SHAPES[index];
        let args = PromptArgs {
            whole: way.whole,
            along: way.along,
            ..args
        };
        let geometry = Geometry {
            grid: way.grid,
            block: [shape.threads, 1, 1],
            shared: shape.shared(storage),
        };
        queue.launch(kernel.ok_or_else(missing)?, geometry, &args)
    }

    fn rows(&self) -> u32 {
        narrow(self.rows)
    }

    /// The address of the number of rows that are not padding; 0 in a step or an image.
    fn count(&self) -> u64 {
        match self.tape.input {
            Input::Prompt => self.work.addresses.prompt + Row::COUNT_AT,
            Input::Step | Input::Patches { .. } => 0,
        }
    }
}
