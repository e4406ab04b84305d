//! Requests as they are decoded, answers of events and of the scripted engine, and stored responses.

mod answers;
mod decoding;
mod stored;
