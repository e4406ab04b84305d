//! The order of eviction, as a pure function.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A sequence that no running turn needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resting {
    pub(super) id: u64,
    pub(super) user: u32,
    /// Whether it has an owner, whose conversation may continue.
    pub(super) owned: bool,
    /// The turn that used it last.
    pub(super) used: u64,
}

/// Returns the first sequence to evict. `held` is the number of pages or sequences of each user, and `all` their limit.
///
/// Users with more than an equal share lose theirs before other users; then sequences without an owner go first, then
/// the least recently used.
pub(super) fn first(
    resting: impl Iterator<Item = Resting>,
    held: &BTreeMap<u32, usize>,
    all: usize,
) -> Option<Resting> {
    let above = |user: &u32| {
        held.get(user)
            .is_some_and(|theirs| *theirs > all / held.len())
    };
    resting.min_by_key(|one| (Reverse(above(&one.user)), one.owned, one.used))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While a user above the equal share has a sequence to lose, no other user loses one. Among equals the least
    /// recently used goes.
    #[test]
    fn users_above_their_share_lose_first_then_the_least_recently_used() {
        let mut random = fastrand::Rng::with_seed(16);
        let mut by_share = 0;
        for _ in 0..20_000 {
            let users = random.u32(1..5);
            let pages = random.usize(1..40);
            let held: BTreeMap<u32, usize> = (0..users)
                .map(|user| (user, random.usize(0..=pages)))
                .collect();
            let resting: Vec<_> = (0..random.u64(0..9))
                .map(|id| Resting {
                    id,
                    user: random.u32(0..users),
                    owned: random.bool(),
                    used: random.u64(0..6),
                })
                .collect();
            let Some(goes) = first(resting.iter().copied(), &held, pages) else {
                assert!(resting.is_empty());
                continue;
            };
            for stays in resting.iter().filter(|one| one.id != goes.id) {
                let above = [goes, *stays].map(|one| held[&one.user] * held.len() > pages);
                assert!(above[0] || !above[1], "{goes:?} went before {stays:?}");
                if above[0] == above[1] {
                    let key = |one: &Resting| (one.owned, one.used);
                    assert!(key(&goes) <= key(stays), "{goes:?} went before {stays:?}");
                }
                by_share += usize::from(above[0] && !above[1] && goes.used > stays.used);
            }
        }
        assert!(by_share > 1000, "{by_share}");
    }
}
