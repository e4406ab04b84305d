//! Input that is damaged or lies: a clear error, and nothing else happens.

mod files;
mod refused;
mod templates;
