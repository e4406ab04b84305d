//! Tokens that a draft model has run before they were chosen: the conversation gets them only as far as they were right.

/// The tokens after those that a conversation is known to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried(Vec<u32>);

impl Tried {
    /// Notes the tokens that were run.
    pub fn set(&mut self, tokens: &[u32]) {
        tokens.clone_into(&mut self.0);
    }

    /// Removes them, and returns those that the conversation has meanwhile. `next` are its tokens at the same place; the last
    /// one of them is left out, because its row makes the next guess.
    pub fn take_right(&mut self, next: &[u32]) -> Vec<u32> {
        let mut tried = std::mem::take(&mut self.0);
        let most = next.len().saturating_sub(1);
        let pairs = tried.iter().zip(next).take(most);
        let right = pairs.take_while(|(tried, next)| tried == next).count();
        tried.truncate(right);
        tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_right_tokens_stay() {
        let right = |tokens: &[u32], next: &[u32]| {
            let mut tried = Tried::default();
            tried.set(tokens);
            let right = tried.take_right(next);
            assert_eq!(tried, Tried::default());
            right
        };
        let none: [u32; 0] = [];
        assert_eq!(right(&[], &[1, 2]), none);
        assert_eq!(right(&[1, 2, 3], &[]), none);
        assert_eq!(right(&[1, 2, 3], &[1, 2, 3, 4]), [1, 2, 3]);
        assert_eq!(right(&[1, 2, 3], &[1, 2, 9]), [1, 2]);
        assert_eq!(right(&[1, 2, 3], &[9]), none);
        assert_eq!(right(&[1, 2, 3], &[1, 2]), [1], "the last one runs again");
    }
}
