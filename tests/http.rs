//! The HTTP front end over the scripted engine, next to the bus.

mod clients;
mod metrics;
