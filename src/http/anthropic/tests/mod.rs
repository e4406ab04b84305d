//! Requests as they are decoded, and answers of events and of the scripted engine.

mod answers;
mod decoding;
