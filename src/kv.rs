//! What the key-value cache holds: the tokens of its positions.
//!
//! The values themselves live in the executor. Every change of the cache that is not one more token
//! of the same turn goes through here, in one place.

/// The tokens whose K and V are in the cache, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kv {
    tokens: Vec<u32>,
    /// Changes of what earlier positions hold.
    epoch: u64,
}

impl Kv {
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// How often the cache was cut.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// How many of `tokens`, from the first, it holds.
    #[must_use]
    pub fn common_prefix(&self, tokens: &[u32]) -> usize {
        self.tokens
            .iter()
            .zip(tokens)
            .take_while(|(held, token)| held == token)
            .count()
    }

    pub fn push(&mut self, token: u32) {
        self.tokens.push(token);
    }

    pub fn extend(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    /// Forgets all but the first `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        if len < self.tokens.len() {
            self.tokens.truncate(len);
            self.epoch += 1;
        }
    }
}
