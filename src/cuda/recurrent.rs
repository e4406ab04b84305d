//! Launches the operations of recurrent layers.

use super::memory::stride;
use super::narrow::narrow;
use super::queue::LaunchQueue;
use super::work::{THREADS, Work};
use crate::device::{
    CommitArgs, ConvolveArgs, CopyStateArgs, Error, GatedNormArgs, Geometry, Places, Row, State,
    UpdateArgs,
};
use crate::tape::{Buffer, Convolution, GateOrder, HeadOrder, Input, Recurrent, StateInfo, Tape};

/// The widest group that one warp norms, as in `kernels/recurrent/gated_norm.cu`.
const NARROW: usize = 256;
/// Warps of a block.
const WARPS: usize = THREADS as usize / 32;
/// Blocks that copy a page of a checkpoint.
const COPY_BLOCKS: u32 = 64;

/// A page of a checkpoint, for a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckpointPage {
    pub(super) page: u64,
    pub(super) first_page: u64,
    /// Bytes of the pages before this one, and of each page.
    pub(super) before: usize,
    pub(super) bytes: usize,
}

impl Work<'_> {
    /// Queues an operation of a recurrent layer.
    pub(super) fn recurrent(
        &self,
        tape: &Tape,
        op: &Recurrent,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        // `check` refuses a tape with recurrent layers and no state.
        let (Some(kernels), Some(info)) = (&self.kernels.recurrent, tape.state) else {
            return Ok(());
        };
        match *op {
            Recurrent::Commit => self.commit(info, None, queue),
            // The host gives the slot its new state once the prompt has succeeded.
            Recurrent::Swap => Ok(()),
            Recurrent::Convolve {
                layer,
                input,
                convolution,
                silu,
                out,
            } => {
                let args = ConvolveArgs {
                    silu: silu.into(),
                    ..self.convolution(tape, info, (layer, convolution), input, out, queue)
                };
                queue.launch(&kernels.convolve, of_channels(info.channels, tape), &args)
            }
            Recurrent::Shift { input, out } => self.shift(tape, info, (input, out), queue),
            Recurrent::ShortConv {
                layer,
                input,
                convolution,
                out,
            } => {
                let args = self.convolution(tape, info, (layer, convolution), input, out, queue);
                queue.launch(&kernels.short_conv, of_channels(info.channels, tape), &args)
            }
            Recurrent::DeltaNet {
                layer,
                input,
                gates: [steps, betas],
                rate,
                dt_bias,
                epsilon,
                out,
            } => {
                let args = UpdateArgs {
                    betas: self.buffer(betas),
                    epsilon,
                    ..self.update(tape, info, (layer, input), steps, out, queue)
                };
                let [rate, step_bias] = [rate, dt_bias].map(|id| self.vector(id));
                let args = UpdateArgs {
                    rate,
                    step_bias,
                    ..args
                };
                self.launch_update(tape, info, &args, queue)
            }
            Recurrent::Mamba2 {
                layer,
                input,
                gate,
                rate,
                dt_bias,
                skip,
                out,
            } => {
                let [rate, step_bias, skip] = [rate, dt_bias, skip].map(|id| self.vector(id));
                let args = UpdateArgs {
                    rate,
                    step_bias,
                    skip,
                    ..self.update(tape, info, (layer, input), gate, out, queue)
                };
                self.launch_update(tape, info, &args, queue)
            }
            Recurrent::GatedNorm {
                y,
                gate,
                norm,
                epsilon,
                order,
                group,
                out,
            } => {
                let columns = tape.buffer(y).columns;
                let args = GatedNormArgs {
                    y: self.buffer(y),
                    gate: self.buffer(gate),
                    norm: self.vector(norm),
                    out: self.buffer(out),
                    count: self.count_of(tape),
                    stamp: queue.stamp(),
                    columns: narrow(columns),
                    group: narrow(group),
                    stride: narrow(stride(tape, out)),
                    gate_first: (order == GateOrder::GateFirst).into(),
                    shared: (tape.weight(norm).columns == group).into(),
                    epsilon,
                };
                let geometry = of_groups(columns / group, group, tape);
                queue.launch(&kernels.gated_norm, geometry, &args)
            }
        }
    }

    /// Queues the shift of hidden states, whose ring follows the layers of a state.
    fn shift(
        &self,
        tape: &Tape,
        info: StateInfo,
        (input, out): (Buffer, Buffer),
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let Some(kernels) = &self.kernels.recurrent else {
            return Ok(());
        };
        let state = self.state(info, info.layers, self.places_of(tape.input == Input::Step));
        let args = ConvolveArgs {
            state: State {
                columns: 0,
                channels: narrow(info.hidden),
                // A row depends on the one before it.
                taps: 2,
                ..state
            },
            input: self.buffer(input),
            kernel: 0,
            bias: 0,
            out: self.buffer(out),
            stamp: queue.stamp(),
            rows: narrow(tape.rows),
            silu: 0,
            stride: narrow(stride(tape, out)),
            pad: 0,
        };
        queue.launch(&kernels.shift, of_channels(info.hidden, tape), &args)
    }

    /// Queues replaying the pending updates of all layers: those of the running prompt's slot, or of the state at an
    /// address up to a position.
    pub(super) fn commit(
        &self,
        info: StateInfo,
        state: Option<(u64, usize)>,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let updates = self.kernels.recurrent.as_ref().map(|all| &all.updates);
        let (Some(Some(kernels)), Some(heads)) = (updates, info.heads) else {
            return Ok(());
        };
        let (address, position) = state.unwrap_or_default();
        let args = CommitArgs {
            state: self.state(info, 0, self.places_of(false)),
            address,
            layer_bytes: info.layout().bytes as u64,
            stamp: queue.stamp(),
            position: narrow(position),
            pad: 0,
        };
        let geometry = Geometry {
            grid: [narrow(heads.parts()), narrow(info.layers), 1],
            ..Geometry::new(1, THREADS)
        };
        queue.launch(&kernels.commit, geometry, &args)
    }

    /// Queues copying a page of a checkpoint from the state at an address, which is at a position, or to it.
    pub(super) fn copy_state(
        &self,
        info: StateInfo,
        (address, stored): (u64, Option<usize>),
        page: CheckpointPage,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let Some(kernels) = &self.kernels.recurrent else {
            return Ok(());
        };
        let args = CopyStateArgs {
            state: self.state(info, 0, self.places_of(false)),
            address,
            layer_bytes: info.layout().bytes as u64,
            page: page.page,
            first_page: page.first_page,
            before: page.before as u64 / 4,
            words: page.bytes as u64 / 4,
            layers: narrow(info.layers),
            position: narrow(stored.unwrap_or_default()),
            hidden: narrow(info.hidden),
            pad: 0,
        };
        let kernel = match stored {
            Some(_) => &kernels.store,
            None => &kernels.load,
        };
        queue.launch(kernel, Geometry::new(COPY_BLOCKS, THREADS), &args)
    }

    /// Where a layer's state lies.
    fn state(&self, info: StateInfo, layer: usize, places: Places) -> State {
        let layout = info.layout();
        let heads = info.heads;
        let of = |value: fn(crate::tape::StateHeads) -> usize| narrow(heads.map_or(0, value));
        State {
            places,
            states: self.states,
            layer: (layer * layout.bytes) as u64,
            updates: layout.updates as u64,
            columns: layout.columns as u64,
            positions: layout.positions as u64,
            heads: of(|heads| heads.heads),
            value_dim: of(|heads| heads.value_dim),
            key_heads: of(|heads| heads.key_heads),
            key_dim: of(|heads| heads.key_dim),
            tiled: heads
                .is_some_and(|heads| heads.order == HeadOrder::Tiled)
                .into(),
            channels: narrow(info.channels),
            taps: narrow(info.taps),
            pad: 0,
        }
    }

    fn convolution(
        &self,
        tape: &Tape,
        info: StateInfo,
        (layer, convolution): (usize, Convolution),
        input: Buffer,
        out: Buffer,
        queue: &LaunchQueue<'_>,
    ) -> ConvolveArgs {
        ConvolveArgs {
            state: self.state(info, layer, self.places_of(tape.input == Input::Step)),
            input: self.buffer(input),
            kernel: self.vector(convolution.kernel),
            bias: convolution.bias.map_or(0, |bias| self.vector(bias)),
            out: self.buffer(out),
            stamp: queue.stamp(),
            rows: narrow(tape.rows),
            silu: 0,
            stride: narrow(stride(tape, out)),
            pad: 0,
        }
    }

    /// Arguments of an update, without its weights.
    fn update(
        &self,
        tape: &Tape,
        info: StateInfo,
        (layer, input): (usize, Buffer),
        steps: Buffer,
        out: Buffer,
        queue: &LaunchQueue<'_>,
    ) -> UpdateArgs {
        UpdateArgs {
            state: self.state(info, layer, self.places_of(tape.input == Input::Step)),
            input: self.buffer(input),
            steps: self.buffer(steps),
            out: self.buffer(out),
            stamp: queue.stamp(),
            rows: narrow(tape.rows),
            ..UpdateArgs::default()
        }
    }

    fn launch_update(
        &self,
        tape: &Tape,
        info: StateInfo,
        args: &UpdateArgs,
        queue: &mut LaunchQueue<'_>,
    ) -> Result<(), Error> {
        let updates = self.kernels.recurrent.as_ref().map(|all| &all.updates);
        let (Some(Some(kernels)), Some(heads)) = (updates, info.heads) else {
            return Ok(());
        };
        let (kernel, rows) = match tape.input {
            Input::Step => (&kernels.step, tape.rows),
            Input::Prompt | Input::Patches { .. } => (&kernels.prompt, 1),
        };
        let geometry = Geometry {
            grid: [narrow(heads.parts()), narrow(rows), 1],
            ..Geometry::new(1, THREADS)
        };
        queue.launch(kernel, geometry, args)
    }

    /// The address of the number of rows of a prompt that are not padding; 0 for a step or an image.
    pub(super) fn count_of(&self, tape: &Tape) -> u64 {
        match tape.input {
            Input::Step | Input::Patches { .. } => 0,
            Input::Prompt => self.addresses.prompt + Row::COUNT_AT,
        }
    }
}

/// A block for `THREADS` channels of each row.
fn of_channels(channels: usize, tape: &Tape) -> Geometry {
    Geometry {
        grid: [narrow(channels).div_ceil(THREADS), narrow(tape.rows), 1],
        ..Geometry::new(1, THREADS)
    }
}

/// A warp for each narrow group of each row, or a block for each wide one.
fn of_groups(groups: usize, group: usize, tape: &Tape) -> Geometry {
    let blocks = if group <= NARROW {
        groups.div_ceil(WARPS)
    } else {
        groups
    };
    Geometry {
        grid: [narrow(blocks), narrow(tape.rows), 1],
        ..Geometry::new(1, THREADS)
    }
}
