//! The tokens that a repetition penalty applies to.

/// The number of latest tokens, prompt included, that the penalty applies to.
pub const WINDOW: usize = 64;

/// The latest `WINDOW` tokens in a ring of fixed size, as a recorded step needs it.
#[derive(Clone, Debug)]
pub struct History {
    tokens: [u32; WINDOW],
    /// Tokens pushed since the start; the ring holds the latest of them.
    pushed: usize,
}

impl Default for History {
    fn default() -> Self {
        Self {
            tokens: [0; WINDOW],
            pushed: 0,
        }
    }
}

impl History {
    /// Builds the history after a prompt.
    #[must_use]
    pub fn of(prompt: &[u32]) -> Self {
        let mut history = Self::default();
        let start = prompt.len().saturating_sub(WINDOW);
        prompt[start..]
            .iter()
            .for_each(|token| history.push(*token));
        history
    }

    pub fn push(&mut self, token: u32) {
        self.tokens[self.pushed % WINDOW] = token;
        self.pushed += 1;
    }

    /// Replaces the latest token.
    pub fn replace_last(&mut self, token: u32) {
        if let Some(last) = self.pushed.checked_sub(1) {
            self.tokens[last % WINDOW] = token;
        }
    }

    /// Returns the ring as it is stored, and the number of tokens pushed.
    #[must_use]
    pub fn ring(&self) -> (&[u32; WINDOW], usize) {
        (&self.tokens, self.pushed)
    }

    /// Returns each remembered token once.
    pub fn distinct(&self) -> impl Iterator<Item = u32> {
        let tokens = &self.tokens[..self.pushed.min(WINDOW)];
        let first =
            move |(at, token): (usize, &u32)| (!tokens[..at].contains(token)).then_some(*token);
        tokens.iter().enumerate().filter_map(first)
    }
}
