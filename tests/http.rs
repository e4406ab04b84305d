//! OpenAI's and Anthropic's APIs over HTTP: the front end over the scripted engine, and the sockets of a daemon process.

mod attacks;
mod chat;
mod clients;
mod completions;
mod leaks;
mod messages;
mod metrics;
mod raw;
mod responses;
mod served;
mod sockets;
