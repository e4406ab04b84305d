//! OpenAI's API over HTTP: the front end over the scripted engine, and the sockets of a daemon process.

mod attacks;
mod chat;
mod clients;
mod metrics;
mod raw;
mod sockets;
