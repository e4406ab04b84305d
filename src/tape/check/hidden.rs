//! The shapes of operations on hidden states.

use super::super::hidden::{Hidden, PLACES};
use super::super::operands::Buffer;
use super::super::{STEP_ROWS, Tape};
use crate::quant::DType;

const _: () = assert!(PLACES == 2 * STEP_ROWS);

impl Tape {
    pub(super) fn check_hidden(&self, op: &Hidden) -> Result<(), String> {
        let hidden = self.buffer(op.ring()).columns;
        self.typed(op.ring(), DType::F32)?;
        self.rows_of(op.ring(), self.kv.slots * PLACES)?;
        let wide = |buffer: Buffer, columns: usize| {
            self.residual(buffer)?;
            self.columns_of(buffer, columns)
        };
        match *op {
            Hidden::Keep { input, .. } => wide(input, hidden),
            Hidden::Join { x, before, out, .. } => {
                wide(x, hidden)?;
                wide(before, hidden)?;
                wide(out, 2 * hidden)
            }
        }
    }
}
