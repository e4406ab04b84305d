//! OpenAI's API over HTTP, on the sockets of a daemon process.

mod chat;
