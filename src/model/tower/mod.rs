//! Vision towers: their shapes and families as data, their weights, the geometry of an image, and the tapes from patches
//! to embeddings of a language model.
//!
//! Not here: images and their patches, files (`checkpoint`), and computation.

pub(in crate::model) mod family;
pub mod forward;
pub(in crate::model) mod names;
pub mod positions;
pub mod shape;
pub mod weights;

pub use forward::TowerForward;
pub use positions::PositionTable;
pub use shape::{Grid, GridError, TowerShape};
pub use weights::TowerWeights;
