//! How a conversation becomes the tokens of a prompt, on threads of its own. Another thread waits for the process that
//! compiles an answer's grammar.
//!
//! It holds no weights, runs no model and knows no queue. Chat templates and tokenizers themselves are in `model`.

pub(super) mod codec;
pub(super) mod encoder;
pub(super) mod merged_content;
pub(super) mod overflow;
pub(super) mod workers;
