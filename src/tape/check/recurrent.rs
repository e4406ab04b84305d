//! The shapes of recurrent operations, and the place of `Commit` and `Swap` in a prompt.

use super::super::op::Op;
use super::super::operands::Buffer;
use super::super::recurrent::{Convolution, Recurrent};
use super::super::state_info::{COLUMNS, StateHeads, StateInfo, UPDATES, UpdateRule};
use super::super::{Input, STEP_ROWS, Tape};
use crate::quant::DType;

const _: () = assert!(UPDATES == 2 * STEP_ROWS && COLUMNS == 3 * STEP_ROWS);

impl Tape {
    /// Checks that an operation's layer is one of the tape's states.
    pub(super) fn check_state(&self, op: &Recurrent) -> Result<(), String> {
        if matches!(op, Recurrent::GatedNorm { .. }) {
            return Ok(());
        }
        let state = self.state_info()?;
        match op.layer() {
            Some(layer) if layer >= state.layers => Err(format!(
                "layer {layer} is not in a state of {}",
                state.layers
            )),
            _ => Ok(()),
        }
    }

    /// Checks that a prompt commits before its first recurrent layer, and ends with the swap.
    pub(super) fn check_commits(&self) -> Result<(), String> {
        let place = |of: fn(&Recurrent) -> bool| {
            self.ops
                .iter()
                .position(|op| matches!(op, Op::Recurrent(op) if of(op)))
        };
        let Some(first) = place(Recurrent::writes_state) else {
            return Ok(());
        };
        let commit = place(|op| *op == Recurrent::Commit);
        let swap = place(|op| *op == Recurrent::Swap);
        match self.input {
            Input::Step if swap.is_some() => Err("a step writes no spare state".into()),
            Input::Prompt if commit.is_none_or(|commit| commit > first) => {
                Err("a prompt has to commit before its first recurrent layer".into())
            }
            Input::Prompt if swap != Some(self.ops.len() - 1) => {
                Err("a prompt with recurrent layers has to end with the swap".into())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn check_recurrent(&self, op: &Recurrent) -> Result<(), String> {
        match *op {
            Recurrent::Commit | Recurrent::Swap => Ok(()),
            Recurrent::Shift { input, out } => {
                let hidden = self.state_info()?.hidden;
                self.wide(input, hidden)?;
                self.wide(out, hidden)
            }
            Recurrent::Convolve {
                input,
                ref convolution,
                out,
                ..
            } => {
                let channels = self.check_convolution(convolution)?;
                self.wide(input, channels)?;
                self.wide(out, channels)
            }
            Recurrent::ShortConv {
                input,
                ref convolution,
                out,
                ..
            } => {
                let channels = self.check_convolution(convolution)?;
                self.wide(input, 3 * channels)?;
                self.rows_of(out, self.rows)?;
                self.typed(out, self.activation)?;
                self.columns_of(out, channels)
            }
            Recurrent::DeltaNet {
                input,
                gates,
                rate,
                dt_bias,
                out,
                ..
            } => {
                let heads = self.check_heads_of(UpdateRule::Delta, input, out)?.heads;
                gates.iter().try_for_each(|gate| self.wide(*gate, heads))?;
                [rate, dt_bias]
                    .iter()
                    .try_for_each(|weight| self.matrix(*weight, 1, heads))
            }
            Recurrent::Mamba2 {
                input,
                gate,
                rate,
                dt_bias,
                skip,
                out,
                ..
            } => {
                let heads = self.check_heads_of(UpdateRule::Additive, input, out)?.heads;
                self.wide(gate, heads)?;
                [rate, dt_bias, skip]
                    .iter()
                    .try_for_each(|weight| self.matrix(*weight, 1, heads))
            }
            Recurrent::GatedNorm {
                y,
                gate,
                norm,
                group,
                out,
                ..
            } => {
                let columns = self.buffer(y).columns;
                self.wide(y, columns)?;
                self.wide(gate, columns)?;
                self.rows_of(out, self.rows)?;
                self.typed(out, self.activation)?;
                self.columns_of(out, columns)?;
                if group == 0 || !columns.is_multiple_of(group) {
                    return Err(format!("{columns} columns are not whole groups of {group}"));
                }
                let shared = self.weight(norm).columns == group;
                self.matrix(norm, 1, if shared { group } else { columns })
            }
        }
    }

    fn state_info(&self) -> Result<StateInfo, String> {
        self.state
            .ok_or_else(|| "the tape has no recurrent state".into())
    }

    /// The channels of a convolution with the taps of the state.
    fn check_convolution(&self, convolution: &Convolution) -> Result<usize, String> {
        let StateInfo { channels, taps, .. } = self.state_info()?;
        if taps == 0 {
            return Err("a convolution needs a tap for its own row".into());
        }
        self.matrix(convolution.kernel, 1, channels * taps)?;
        let bias = convolution.bias;
        bias.map_or(Ok(()), |bias| self.matrix(bias, 1, channels))?;
        Ok(channels)
    }

    /// The heads of the state, if their rule and the widths of an operation fit.
    fn check_heads_of(
        &self,
        rule: UpdateRule,
        input: Buffer,
        out: Buffer,
    ) -> Result<StateHeads, String> {
        let state = self.state_info()?;
        let heads = state.heads.filter(|heads| heads.rule == rule);
        let heads = heads.ok_or_else(|| format!("the state has no heads of the rule {rule:?}"))?;
        if heads.key_heads == 0 || !heads.heads.is_multiple_of(heads.key_heads) {
            return Err(format!(
                "{} heads cannot share {} key heads",
                heads.heads, heads.key_heads
            ));
        }
        let channels = 2 * heads.keys() + heads.values();
        if state.channels != channels {
            return Err(format!(
                "the convolution has {} channels, not {channels}",
                state.channels
            ));
        }
        self.wide(input, channels)?;
        self.wide(out, heads.values())?;
        Ok(heads)
    }

    /// Checks an f32 buffer with a row for each of the tape's.
    fn wide(&self, buffer: Buffer, columns: usize) -> Result<(), String> {
        self.typed(buffer, DType::F32)?;
        self.rows_of(buffer, self.rows)?;
        self.columns_of(buffer, columns)
    }
}
