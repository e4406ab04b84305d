//! Who sees the logits that each token is chosen from: a test, which compares all of them. Answers need no such thing, and
//! whoever asks for it pays with time: on a GPU no step is launched ahead, since it would overwrite what the one before it left.

use std::fmt::{Debug, Formatter};
use std::sync::Arc;

use crate::executor::{ExecuteError, Executor};
use crate::tape::Tape;

type See = dyn Fn(&[f32]) + Send + Sync;

/// Is called with the logits of each token that has been chosen, before anybody is told of it. Clones are the same one.
#[derive(Clone)]
pub struct Witness(Arc<See>);

impl Witness {
    pub fn new(see: impl Fn(&[f32]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(see))
    }
}

impl Debug for Witness {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("Witness")
    }
}

impl PartialEq for Witness {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Witness {}

/// Shows the logits that a tape has left in such rows, if somebody wants to see them.
pub(super) fn show(
    witness: Option<&Witness>,
    executor: &mut dyn Executor,
    tape: &Tape,
    rows: impl IntoIterator<Item = usize>,
) -> Result<(), ExecuteError> {
    let Some(Witness(see)) = witness else {
        return Ok(());
    };
    let (logits, width) = (executor.all_logits(tape)?, tape.vocabulary());
    for row in rows {
        see(&logits[row * width..][..width]);
    }
    Ok(())
}
