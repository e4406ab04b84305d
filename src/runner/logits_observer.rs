//! Shows the logits that each token is chosen from to a test, which compares all of them.
//!
//! It costs time: a GPU launches no step ahead while there is an observer, because that step would overwrite the logits.

use std::fmt::{Debug, Formatter};
use std::sync::Arc;

use crate::executor::ExecuteError;
use crate::executor::Executor;
use crate::tape::Tape;

type Observe = dyn Fn(&[f32]) + Send + Sync;

/// Is called with the logits of each chosen token, before the token is published. Clones are equal.
#[derive(Clone)]
pub struct LogitsObserver(Arc<Observe>);

impl LogitsObserver {
    pub fn new(observe: impl Fn(&[f32]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }
}

impl Debug for LogitsObserver {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogitsObserver")
    }
}

impl PartialEq for LogitsObserver {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LogitsObserver {}

/// Shows the logits that a tape computed in `rows` to the observer, if there is one.
pub(super) fn show(
    observer: Option<&LogitsObserver>,
    executor: &mut dyn Executor,
    tape: &Tape,
    rows: impl IntoIterator<Item = usize>,
) -> Result<(), ExecuteError> {
    let Some(LogitsObserver(observe)) = observer else {
        return Ok(());
    };
    let (logits, width) = (executor.all_logits(tape)?, tape.vocabulary());
    for row in rows {
        observe(&logits[row * width..][..width]);
    }
    Ok(())
}
