//! The linear layers of vision towers: a product of a prompt's kernels, and a kernel before and after it where values are
//! clamped.

use super::activation::number;
use super::encode_kernels::EncodeKernels;
use super::encode_needs::direct;
use super::memory::stride;
use super::narrow::narrow;
use super::prompt::{Inputs, Prompt};
use super::queue::LaunchQueue;
use super::work::{THREADS, Work};
use crate::device::{
    self, Epilogue, Error, Geometry, PromptArgs, Tiles, VisionClampArgs, VisionFinishArgs,
};
use crate::quant::{DType, padded};
use crate::tape::{Buffer, Clip, Tape, Vision};

impl Work<'_> {
    /// Launches a linear layer.
    pub(super) fn vision_linear(
        &self,
        kernels: &EncodeKernels,
        tape: &Tape,
        op: &Vision,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let Vision::Linear {
            input,
            weight,
            bias,
            clip,
            activation,
            adds,
            out,
            first,
        } = *op
        else {
            return Ok(());
        };
        let (weight, rows) = (self.whole(weight), tape.buffer(input).rows);
        let prompt = Prompt {
            work: self,
            tape,
            rows,
        };
        let inputs = match clip {
            Some(clip) => {
                let clamped = self.clamped(kernels, tape, (input, clip), queue)?;
                prompt.sums(queue, clamped, weight)?
            }
            None if tape.buffer(input).dtype == DType::F32 => prompt.round(queue, input)?,
            None => prompt.summed(queue, input, weight)?,
        };
        let info = tape.buffer(out);
        let to = self.buffer(out) + (info.dtype.bytes() * first) as u64;
        let product = |weight0: Tiles| PromptArgs {
            weight0,
            bias0: bias.map_or(0, |bias| self.vector(bias)),
            ..PromptArgs::default()
        };
        let out_stride = narrow(stride(tape, out));
        if let Some((epilogue, activation)) = direct(tape, op) {
            let args = PromptArgs {
                out0: to,
                out_stride,
                epilogue,
                activation,
                ..product(weight)
            };
            return prompt.launch(queue, inputs, args);
        }
        let y = self.buffers.gates();
        let args = PromptArgs {
            out0: y,
            epilogue: Epilogue::Stored,
            ..product(weight)
        };
        prompt.launch(queue, inputs, args)?;
        let [least, greatest] = clip.map_or([f32::NEG_INFINITY, f32::INFINITY], |of| of.output);
        let args = VisionFinishArgs {
            y,
            out: to,
            stamp: queue.stamp(),
            columns: weight.rows,
            stride: out_stride,
            least,
            greatest,
            activation: activation.map_or(device::Activation::Identity, number),
            adds: adds.into(),
            rounded: (info.dtype != DType::F32).into(),
            pad: 0,
        };
        queue.launch(&kernels.finish, of_rows(rows, weight.rows), &args)
    }

    /// Launches the clamping and rounding of inputs.
    fn clamped(
        &self,
        kernels: &EncodeKernels,
        tape: &Tape,
        (input, clip): (Buffer, Clip),
        queue: &mut LaunchQueue<'_>,
    ) -> Result<Inputs, Error> {
        let info = tape.buffer(input);
        let [least, greatest] = clip.input;
        let args = VisionClampArgs {
            input: self.buffer(input),
            out: self.buffers.normed(),
            stamp: queue.stamp(),
            columns: narrow(info.columns),
            input_stride: narrow(stride(tape, input)),
            stride: narrow(padded(info.columns)),
            rounded: (info.dtype != DType::F32).into(),
            least,
            greatest,
        };
        queue.launch(&kernels.clamp, of_rows(info.rows, args.stride), &args)?;
        Ok(Inputs {
            address: args.out,
            stride: args.stride,
        })
    }
}

/// A thread for each of some columns of each row.
pub(super) fn of_rows(rows: usize, columns: u32) -> Geometry {
    Geometry {
        grid: [narrow(rows), columns.div_ceil(THREADS), 1],
        ..Geometry::new(1, THREADS)
    }
}
