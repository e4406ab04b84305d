//! The tokens that a repetition penalty applies to.

/// How many of the latest tokens, prompt included, are remembered.
pub const WINDOW: usize = 64;

/// The latest `WINDOW` tokens, in a ring: a fixed size, so that it can live beside a recorded step.
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
    /// The history after a prompt.
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

    /// The latest token is another.
    pub fn replace_last(&mut self, token: u32) {
        if let Some(last) = self.pushed.checked_sub(1) {
            self.tokens[last % WINDOW] = token;
        }
    }

    /// The ring as it lies, and how many tokens were pushed.
    #[must_use]
    pub fn ring(&self) -> (&[u32; WINDOW], usize) {
        (&self.tokens, self.pushed)
    }

    /// Each remembered token once.
    pub fn distinct(&self) -> impl Iterator<Item = u32> {
        let tokens = &self.tokens[..self.pushed.min(WINDOW)];
        let first =
            move |(at, token): (usize, &u32)| (!tokens[..at].contains(token)).then_some(*token);
        tokens.iter().enumerate().filter_map(first)
    }
}
