//! Helpers that tests of several surfaces share.

pub(crate) mod attack;
pub(crate) mod daemon;
#[cfg(feature = "cuda")]
pub(crate) mod fake_driver;
pub(crate) mod few_states;
pub(crate) mod gguf_writer;
pub(crate) mod joining;
pub(crate) mod journal;
pub(crate) mod leaks;
pub(crate) mod limits;
pub(crate) mod needs;
pub(crate) mod page_cache;
pub(crate) mod preempted;
pub(crate) mod private_bus;
pub(crate) mod process;
pub(crate) mod refusals;
pub(crate) mod restartable;
pub(crate) mod restored;
pub(crate) mod signals;
pub(crate) mod stream;
pub(crate) mod tiny_gguf;
pub(crate) mod tiny_recurrent;
pub(crate) mod unchecked_bus;
pub(crate) mod wire;
pub(crate) mod without_descriptors;
