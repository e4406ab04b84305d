//! A mask of the tokens that may follow: a bit for each token of the vocabulary.

/// Bits of tokens, in words of 32, the lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mask {
    words: Vec<u32>,
}

impl Mask {
    /// Returns the number of words for a vocabulary.
    #[must_use]
    pub const fn words_of(vocabulary: usize) -> usize {
        vocabulary.div_ceil(32)
    }

    /// Builds a mask of these words. Tokens beyond them are not allowed.
    #[must_use]
    pub const fn new(words: Vec<u32>) -> Self {
        Self { words }
    }

    /// Builds a mask that allows one token of a vocabulary.
    #[must_use]
    pub fn only(token: u32, vocabulary: usize) -> Self {
        let mut words = vec![0; Self::words_of(vocabulary)];
        if let Some(word) = words.get_mut(token as usize / 32) {
            *word = 1 << (token % 32);
        }
        Self { words }
    }

    /// Builds a mask that allows all tokens of a vocabulary but these.
    #[must_use]
    pub fn without(tokens: &[u32], vocabulary: usize) -> Self {
        let mut words = vec![u32::MAX; Self::words_of(vocabulary)];
        for token in tokens {
            if let Some(word) = words.get_mut(*token as usize / 32) {
                *word &= !(1 << (token % 32));
            }
        }
        Self { words }
    }

    /// Allows another token of the vocabulary.
    pub fn allow(&mut self, token: u32) {
        if let Some(word) = self.words.get_mut(token as usize / 32) {
            *word |= 1 << (token % 32);
        }
    }

    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    #[must_use]
    pub fn allows(&self, token: u32) -> bool {
        let word = self.words.get(token as usize / 32);
        word.is_some_and(|word| word >> (token % 32) & 1 == 1)
    }
}
