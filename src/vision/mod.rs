//! Images: from the bytes of a caller to the patches that a vision tower reads, and to the places of their embeddings in
//! a prompt.
//!
//! The way of an image: `Source::open` reads its header, `Processor::plan` counts its tokens, `Opened::decode` makes
//! pixels, and `Processor::pixels` makes patches. Nothing is allocated for pixels before the limits are checked. `hash`
//! names the result for a cache, and `expand` says what replaces an image's placeholder in a prompt.
//! Not here: the tower (`model::forward` writes its tape), the tokenizer, the cache, and the threads that call this.

mod decode;
mod error;
mod expand;
mod hash;
mod limits;
mod processor;
mod received;
mod resize;
mod rgb;
mod source;
mod stop;

pub use decode::{Opened, is_decoding};
pub use error::ImageError;
pub use expand::{Piece, around, expand, placeholder, row_token};
pub use hash::{ContentHash, hash};
pub use limits::Limits;
pub use processor::{
    Grid, Lfm2Vl, Normalization, Pixels, Place, Plan, Processor, Published, Rule, Settings,
    SettingsError, Tile,
};
pub use received::{Fields, Received};
pub use resize::{Filter, resize};
pub use rgb::RgbImage;
pub use source::{Color, ColorRange, Format, Source};
pub use stop::Stop;
