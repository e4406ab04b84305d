//! Damaged and deceptive input: a clear error and no other effect.

mod files;
mod refused;
mod templates;
