//! Tests with turns of several conversations, in few pages or many.

mod held;
mod late;
mod random;
mod rewinds;
mod states;
mod windows;

use std::collections::HashSet;

use super::*;

const A: Option<Owner> = Some(Owner(1));
const B: Option<Owner> = Some(Owner(2));
const C: Option<Owner> = Some(Owner(3));

/// Tokens of a number of pages and some more, starting with `first`.
fn tokens(first: u32, pages: usize, more: usize) -> Vec<u32> {
    let others = 1..u32::try_from(pages * PAGE + more).expect("few");
    [first].into_iter().chain(others).collect()
}

/// Begins a turn of user 0 that may reach `positions`, and runs its whole prompt.
fn turn(kv: &mut Kv, owner: Option<Owner>, prompt: &[u32], positions: usize) -> Turn {
    let turn = kv
        .begin(owner, 0, Wanted::without_answers(prompt), positions)
        .expect("there is room");
    kv.extend(&prompt[turn.cached..]);
    turn
}

/// The pages of a slot whose layers see all positions.
fn pages_of(kv: &Kv, slot: usize) -> Vec<usize> {
    let tables = kv.tables_of(slot);
    let [table] = &tables[..] else {
        return Vec::new();
    };
    table.iter().map_while(|page| *page).collect()
}

fn short(kv: &mut Kv, owner: Option<Owner>, prompt: &[u32]) -> (usize, Change) {
    let Turn { cached, change, .. } = turn(kv, owner, prompt, PAGE);
    (cached, change)
}

#[test]
fn conversations_keep_their_pages_while_there_are_enough() {
    let mut kv = Kv::new(2, (2, 1), Reuse::Fast);
    assert_eq!(short(&mut kv, A, &[1, 2, 3]), (0, Change::NewTurn));
    assert_eq!(short(&mut kv, B, &[7, 8]), (0, Change::Switched));
    assert_eq!(short(&mut kv, A, &[1, 2, 3, 5]), (3, Change::Switched));
    assert_eq!(short(&mut kv, A, &[1, 2, 3, 5, 6]), (4, Change::NewTurn));
    // A third conversation replaces the least recently used one.
    assert_eq!(short(&mut kv, None, &[9, 9]), (0, Change::Switched));
    assert_eq!(short(&mut kv, None, &[9, 9, 8]), (2, Change::NewTurn));
    assert_eq!(short(&mut kv, A, &[1, 2, 3, 5, 6]), (4, Change::Switched));
    // Sequences without an owner are evicted first.
    assert_eq!(short(&mut kv, B, &[7, 8, 9]), (0, Change::Restored));
    assert_eq!(
        short(&mut kv, A, &[1, 2, 3, 5, 6, 7]),
        (5, Change::Switched)
    );
}

#[test]
fn prefixes_are_shared_and_copied_on_write() {
    let mut kv = Kv::new(3, (16, 1), Reuse::Fast);
    let prompt = tokens(1, 2, 10);
    turn(&mut kv, A, &prompt, 3 * PAGE);
    kv.pin(0);
    let first = pages_of(&kv, 0);
    let mut other = prompt[..2 * PAGE + 5].to_vec();
    other.push(99);
    let begun = turn(&mut kv, B, &other, 4 * PAGE);
    kv.pin(begun.slot);
    let second = pages_of(&kv, begun.slot);
    assert_eq!((begun.slot, begun.cached), (1, 2 * PAGE + 5));
    assert_eq!(second[..2], first[..2]);
    let (from, to) = (first[2], second[2]);
    assert_eq!(begun.copies, [Copied { from, to }]);
    assert_eq!(kv.pages(), (16, 16 - 3 - 2));
    // Whole pages are shared without a copy, and an unshared last page is kept. Other users share nothing.
    let mut whole = prompt[..2 * PAGE].to_vec();
    whole.push(98);
    assert_eq!(turn(&mut kv, C, &whole, 3 * PAGE).copies, []);
    kv.unpin(0);
    assert_eq!(turn(&mut kv, A, &prompt, 3 * PAGE).copies, []);
    let theirs = kv
        .begin(None, 7, Wanted::without_answers(&prompt), 3 * PAGE)
        .expect("room");
    assert_eq!((theirs.cached, theirs.copies), (0, vec![]));
}

/// Whether a prompt without a cached prefix has room.
fn has_room(kv: &Kv, positions: usize, leaving: &[usize]) -> bool {
    kv.has_room((0, Wanted::default()), positions, leaving)
}

/// Four turns with a common prefix have room where three without one do not.
#[test]
fn pages_shared_with_running_turns_count_once() {
    let mut kv = Kv::new(8, (8, 1), Reuse::Fast);
    let rules = tokens(1, 4, 0);
    for question in 0..4 {
        let prompt = [&rules[..], &[100 + question]].concat();
        let asks = (0, Wanted::without_answers(&prompt));
        assert!(kv.has_room(asks, 5 * PAGE, &[]), "{question}");
        assert_eq!(has_room(&kv, 5 * PAGE, &[]), question == 0);
        // Another user shares nothing.
        assert_eq!(kv.has_room((7, asks.1), 5 * PAGE, &[]), question == 0);
        let theirs = if question == 0 {
            0
        } else {
            4 + question as usize
        };
        let takes = if question == 0 { 5 } else { 1 };
        assert_eq!(kv.pages_of_user(asks, 5 * PAGE), (theirs, takes));
        let slot = turn(&mut kv, None, &prompt, 5 * PAGE).slot;
        kv.pin(slot);
    }
    assert_eq!(kv.pages(), (8, 0));
    let prompt = [&rules[..], &[99]].concat();
    assert!(!kv.has_room((0, Wanted::without_answers(&prompt)), 5 * PAGE, &[]));
    assert!(kv.has_room((0, Wanted::without_answers(&prompt)), 5 * PAGE, &[0]));
    assert_eq!(
        kv.begin(None, 0, Wanted::without_answers(&prompt), 5 * PAGE),
        None
    );
}

/// Pages shared with a running turn do not free memory for another one.
#[test]
fn a_turn_with_enough_pages_begins() {
    let mut kv = Kv::new(3, (12, 1), Reuse::Fast);
    let prompt = tokens(1, 3, 10);
    turn(&mut kv, A, &prompt, 4 * PAGE);
    kv.branch(Owner(1), Owner(2));
    kv.release_memory(0, u64::MAX);
    assert_eq!(kv.allocated(), 4);
    let runs = turn(&mut kv, A, &prompt, 4 * PAGE).slot;
    kv.pin(runs);
    let mut lacked = 0;
    while let Some(chunk) = kv.lacks(B, 4 * PAGE) {
        kv.allocate(chunk);
        lacked += 1;
    }
    let other = tokens(9, 3, 10);
    let begun = kv.begin(B, 0, Wanted::without_answers(&other), 4 * PAGE);
    assert!(begun.is_some(), "{lacked} came");
    assert_eq!(kv.len_of(runs), prompt.len());
}

/// A turn begins only if it can also end, and running turns lose nothing.
#[test]
fn a_branch_keeps_its_pages_when_the_other_ends() {
    let mut kv = Kv::new(2, (8, 1), Reuse::Exact);
    let prompt = tokens(1, 1, 10);
    turn(&mut kv, A, &prompt, 2 * PAGE);
    kv.branch(Owner(1), Owner(2));
    let pages = |kv: &Kv, owner: u64| kv.resting(Owner(owner)).expect("it rests").pages;
    assert_eq!(pages(&kv, 1), pages(&kv, 2), "nothing is copied");
    assert_eq!(kv.rewind(Owner(1), 0), Ok(Some(Change::Cleared)));
    let held = pages(&kv, 2);
    // Deleted tokens cannot be reused, but another conversation keeps its shared pages.
    turn(&mut kv, None, &tokens(7, 1, 0), PAGE);
    kv.release(Owner(1));
    kv.erase(0);
    assert_eq!(turn(&mut kv, None, &tokens(7, 1, 0), PAGE).cached, 0);
    assert_eq!(pages(&kv, 2), held);
    let longer = tokens(1, 1, 11);
    assert_eq!(turn(&mut kv, B, &longer, 2 * PAGE).cached, prompt.len());
}

#[test]
fn pages_are_reserved_for_the_whole_turn() {
    let mut kv = Kv::new(3, (6, 1), Reuse::Fast);
    let promised = turn(&mut kv, A, &[1, 2], 3 * PAGE);
    kv.pin(promised.slot);
    assert!(has_room(&kv, 3 * PAGE, &[]) && !has_room(&kv, 3 * PAGE + 1, &[]));
    assert!(has_room(&kv, 6 * PAGE, &[promised.slot]));
    assert_eq!(
        kv.begin(B, 0, Wanted::without_answers(&[3, 4]), 4 * PAGE),
        None
    );
    let second = turn(&mut kv, B, &[3, 4], 2 * PAGE);
    kv.pin(second.slot);
    let third = turn(&mut kv, None, &[5, 6], 7);
    kv.pin(third.slot);
    assert!(!has_room(&kv, 1, &[]), "no slot");
    // Unused pages become free at the end of the turn, not earlier.
    kv.unpin(promised.slot);
    assert_eq!(kv.pages(), (6, 2));
    assert!(has_room(&kv, 3 * PAGE, &[]) && !has_room(&kv, 3 * PAGE + 1, &[]));
    assert_eq!(kv.len_of(second.slot), 2);
}

#[test]
fn each_change_increments_the_epoch_once() {
    let mut kv = Kv::new(1, (1, 1), Reuse::Fast);
    assert_eq!(short(&mut kv, A, &[1, 2, 3]), (0, Change::NewTurn));
    assert_eq!(short(&mut kv, A, &[1, 2, 3]), (2, Change::Rewound));
    assert_eq!(short(&mut kv, A, &[4]), (0, Change::Cleared));
    assert_eq!(kv.rewind(Owner(1), 1), Ok(None), "it holds no more");
    assert_eq!(kv.rewind(Owner(2), 0), Ok(None), "it holds nothing");
    assert_eq!(kv.epoch(), 3);
    assert_eq!(kv.rewind(Owner(1), 0), Ok(Some(Change::Cleared)));
    assert_eq!(short(&mut kv, B, &[5, 6]), (0, Change::Switched));
    assert_eq!(kv.resize(2, (2, 1)), Change::Resized);
    assert_eq!(short(&mut kv, B, &[5, 6]).1, Change::Restored);
    assert_eq!(short(&mut kv, B, &[5, 6, 7]).1, Change::NewTurn);
    kv.lose();
    assert_eq!(short(&mut kv, B, &[5, 6, 7]), (0, Change::NewTurn));
    kv.release(Owner(2));
    assert_eq!(short(&mut kv, None, &[5, 6, 7, 8]), (3, Change::NewTurn));
}

/// Numbers that stand for another image serve no prompt any more.
#[test]
fn rows_of_other_images_are_forgotten() {
    let mut kv = Kv::new(2, (8, 1), Reuse::Fast);
    let rows = FIRST_IMAGE_ROW..FIRST_IMAGE_ROW + 3;
    let prompt: Vec<_> = [1, 2].into_iter().chain(rows.clone()).chain([3]).collect();
    short(&mut kv, A, &prompt);
    short(&mut kv, None, &[7]);
    kv.forget_rows(&(rows.end..u32::MAX));
    assert_eq!(kv.resting(Owner(1)).expect("it rests").tokens.len(), 6);
    // What comes before the first of them stays.
    kv.forget_rows(&(rows.start + 1..rows.end));
    assert_eq!(kv.resting(Owner(1)).expect("it rests").tokens.len(), 3);
}

/// With exact reuse, generated tokens do not serve a prompt with the same tokens, except in their own conversation.
#[test]
fn exact_reuse_needs_the_same_family() {
    for (reuse, of_text, of_both) in [(Reuse::Exact, 2, 4), (Reuse::Fast, 4, 4)] {
        let mut kv = Kv::new(2, (8, 1), reuse);
        short(&mut kv, A, &[1, 2]);
        kv.push(3);
        kv.push(4);
        let prompt = [1, 2, 3, 4, 5];
        let read = kv
            .begin(B, 0, Wanted::without_answers(&prompt), PAGE)
            .expect("room");
        assert_eq!(read.cached, of_text, "{reuse:?}");
        let said = Wanted {
            tokens: &prompt,
            said: std::slice::from_ref(&(2..4)),
        };
        let both = kv.begin(C, 0, said, PAGE).expect("room");
        assert_eq!(both.cached, of_both, "{reuse:?}");
    }
}

/// A slot that is not pinned can lose its pages to other turns.
#[test]
fn a_slot_without_its_pages_is_detected() {
    let mut kv = Kv::new(2, (3, 1), Reuse::Fast);
    let first = turn(&mut kv, A, &[1, 2], 2 * PAGE);
    assert!(kv.is_seated(first.slot) && !kv.is_seated(1 - first.slot));
    let second = turn(&mut kv, B, &[3, 4], 3 * PAGE);
    assert!(kv.is_seated(second.slot) && !kv.is_seated(first.slot));
}

/// A turn that is not pinned continues after a step in flight; only an ended turn loses spare pages.
#[test]
fn a_step_in_flight_takes_no_pages_from_a_continuing_turn() {
    let mut kv = Kv::new(2, (4, 1), Reuse::Fast);
    let first = turn(&mut kv, A, &[1, 2], 2 * PAGE);
    kv.launched(&[first.slot]);
    kv.launched(&[]);
    assert!(kv.is_seated(first.slot));
    let second = turn(&mut kv, B, &[3, 4], 2 * PAGE);
    kv.pin(second.slot);
    kv.launched(&[second.slot]);
    kv.unpin(second.slot);
    assert_eq!(pages_of(&kv, second.slot).len(), 2);
    kv.launched(&[]);
    assert_eq!(pages_of(&kv, second.slot).len(), 1);
}

/// The most recently used sequences move first, shared pages move once, and sequences without room are dropped.
#[test]
fn sequences_move_to_a_resized_cache_as_far_as_there_is_room() {
    let mut kv = Kv::new(3, (16, 1), Reuse::Fast);
    let [first, apart] = [tokens(1, 2, 10), tokens(7, 2, 30)];
    let second = [&first[..2 * PAGE + 5], &[99]].concat();
    let mut pages = Vec::new();
    for (owner, prompt) in [(A, &first), (B, &second), (C, &apart)] {
        let begun = turn(&mut kv, owner, prompt, 4 * PAGE);
        pages.push(pages_of(&kv, begun.slot));
    }
    let (change, copies) = kv.move_to(2, (6, 2));
    let from: HashSet<_> = copies.iter().map(|copy| copy.from).collect();
    let to: HashSet<_> = copies.iter().map(|copy| copy.to).collect();
    assert_eq!((change, from.len(), to.len()), (Change::Resized, 6, 6));
    let moved = |owner: Option<Owner>, before: &[usize]| {
        let now = owner.and_then(|owner| kv.resting(owner));
        let now = now.map_or_else(Vec::new, |now| now.pages);
        let now = now.into_iter().map(|(_, page)| page);
        let pairs = before.iter().zip(now);
        let pairs = pairs.map(|(from, to)| Copied { from: *from, to });
        pairs.filter(|pair| copies.contains(pair)).count()
    };
    assert_eq!(moved(C, &pages[2]), 3);
    assert_eq!(moved(B, &pages[1]), 3);
    assert_eq!(moved(A, &pages[0]), 0);
    let again = |kv: &mut Kv, owner, prompt: &[u32]| {
        let prompt = [prompt, &[3]].concat();
        let Turn { cached, change, .. } = turn(kv, owner, &prompt, 3 * PAGE);
        (cached, change == Change::Restored)
    };
    assert_eq!(again(&mut kv, C, &apart), (apart.len(), false));
    assert_eq!(again(&mut kv, B, &second), (second.len(), false));
    assert_eq!(again(&mut kv, A, &first), (2 * PAGE + 5, true));
}

/// Short conversations do not accumulate without limit, whatever memory they have.
#[test]
fn the_number_of_sequences_is_limited() {
    let mut kv = Kv::new(1, (2 * SEQUENCES, 1), Reuse::Fast);
    let twice = u32::try_from(2 * SEQUENCES).expect("few");
    for number in 0..twice {
        short(&mut kv, None, &[number, 1]);
    }
    assert_eq!(kv.sequences.len(), SEQUENCES);
}

/// With too many sequences, a long recent one stays: its user has many pages, but not more sequences than others.
#[test]
fn a_long_recent_sequence_survives_many_short_ones() {
    let mut kv = Kv::new(1, (2 * SEQUENCES, 64), Reuse::Fast);
    let mut cached = |user, prompt: &[u32]| {
        let turn = kv.begin(
            None,
            user,
            Wanted::without_answers(prompt),
            prompt.len() + 1,
        );
        let cached = turn.expect("there is room").cached;
        kv.extend(&prompt[cached..]);
        cached
    };
    let most = u32::try_from(SEQUENCES).expect("few");
    for user in 1..=most {
        assert_eq!(cached(user, &[user, 1]), 0);
    }
    let long = tokens(1, 16, 0);
    assert_eq!(cached(0, &long), 0);
    assert_eq!(cached(most + 1, &[0, 1]), 0);
    assert_eq!(cached(0, &[&long[..], &[5]].concat()), long.len());
}
