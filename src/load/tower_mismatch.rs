//! Why a vision tower and a model do not go together.

/// Why a tower does not fit a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TowerMismatch {
    #[error("the tower ({tower}) is for other models than {model}")]
    Family {
        tower: &'static str,
        model: &'static str,
    },
    #[error("the tower makes embeddings of {tower} values, and the model has {model}")]
    Width { tower: usize, model: usize },
    #[error(
        "the tower makes further embeddings for {tower} layers, and the model adds them in {model}"
    )]
    Layers { tower: usize, model: usize },
    #[error("the folder has no vision tower")]
    Missing,
    #[error("the tower reads patches in another way than the model's processor makes them: {what}")]
    Processor { what: &'static str },
    #[error("the settings of its processor: {0}")]
    Settings(String),
}
