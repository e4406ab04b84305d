//! Code that every front end needs: permits, rights of users, defaults from the configuration, checked options and messages.
//!
//! It knows no wire format: a front end decodes its calls into [`GivenOptions`] and [`MessageFields`], and encodes each
//! [`Error`] in its own words. Queues, answers and objects of callers are the work of the engine and of the front ends.

mod config;
mod error;
mod groups;
mod image_error;
mod image_file;
mod images;
mod messages;
mod options;
mod parts;
mod permits;
mod refusal_log;
mod rights;
mod setting;
mod state;
mod text;

pub use config::Config;
pub use error::{Error, OptionError};
pub use image_error::ImageError;
pub use image_file::FileError;
pub use images::ImageLimits;
pub use messages::{
    GivenMessages, MESSAGES, MessageFields, PlacedImage, conversation, role, too_long,
};
pub use options::{
    Allowed, Completion, GivenOption, GivenOptions, MOST_OPTIONS, NewSession, OPTIONS, OptionKey,
    Scope, SessionDefaults, TEXTS, Value, completion, new_session, request,
};
pub use parts::{
    GivenImage, ImageBytes, MOST_IMAGES, PARTS, Part, PartError, PartFields, PartValue,
};
pub use permits::{Permit, Permits};
pub use rights::Forbidden;
pub use setting::Setting;
pub use state::Front;
pub use text::{TEXT_BYTES, shortened};
