//! Who loses its pages when others need them. A plain function of what is the case.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A sequence that no turn needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resting {
    pub(super) id: u64,
    pub(super) user: u32,
    /// Whether a conversation may go on with it.
    pub(super) owned: bool,
    /// The turn that used it last.
    pub(super) used: u64,
}

/// The first to go, where each user holds so many of all pages, or of whatever there are too few of: whoever has more than an
/// equal share of them comes before all others; of those that are alike in this, what is nobody's any more; then what was used least lately.
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

    /// Whatever is the case: as long as anybody has more than an equal share and something to lose, nobody else loses, and of
    /// two that are alike the one that was used least lately goes.
    #[test]
    fn whoever_holds_more_than_a_share_loses_first_and_then_who_rests_longest() {
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
