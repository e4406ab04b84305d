//! Whether a model is loaded with its head that guesses tokens.

/// Whether to load the head that guesses tokens. Its weights and its layer of the cache need memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Head {
    #[default]
    Off,
    /// If the model's files have one that can be used.
    IfPresent,
    /// A model without one is refused.
    Required,
}

impl Head {
    /// Whether a model is loaded with its head, if its files have one.
    #[must_use]
    pub const fn loads(self) -> bool {
        matches!(self, Self::IfPresent | Self::Required)
    }
}
