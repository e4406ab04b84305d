//! Random turns of several users, in caches whose layers see all positions, or a window, or have recurrent states.

use super::super::*;
use super::held::Held;
use super::tokens;

/// No page is lost, none belongs to two users, and all pages of sequences have memory.
fn check_pages(kv: &Kv, held: &Held) {
    let pages = held.pages.len();
    let mut holders = vec![Vec::new(); pages];
    for sequence in kv.sequences.values() {
        let pages = sequence.pages().into_iter();
        pages.for_each(|page| holders[page].push(sequence.user));
    }
    let free = holders.iter().filter(|users| users.is_empty()).count();
    assert_eq!(kv.pages(), (pages, free));
    let memory = (0..pages).filter(|page| held.has_memory(*page));
    assert_eq!(kv.allocated(), memory.count());
    for users in &holders {
        assert!(users.iter().all(|user| *user == users[0]), "{kv:?}");
    }
    let all = kv.sequences.values();
    let mut pages = all.flat_map(Sequence::pages);
    assert!(pages.all(|page| held.has_memory(page)), "{kv:?}");
}

/// Restores a part of a prompt at random, and returns how many of its tokens are cached then.
fn maybe_restore(
    random: &mut fastrand::Rng,
    held: &mut Held,
    kv: &mut Kv,
    turn: &Turn,
    prompt: &[u32],
) -> usize {
    let mut restored = random.usize(turn.cached..prompt.len());
    if kv.layout.state > 0 {
        restored = restored / PAGE * PAGE;
    }
    if restored <= turn.cached || random.u8(0..3) > 0 {
        return turn.cached;
    }
    held.restore(kv, turn.slot, &prompt[..restored], turn.cached);
    restored
}

/// Random parallel turns of three users with common prefixes, in few pages whose memory is released and allocated.
///
/// The cached prefix of a prompt is correct when its turn begins. Pages of running turns are neither overwritten nor
/// released. No page is lost, and no page belongs to two users.
fn random_turns(layout: &Layout, longest: usize) -> [usize; 4] {
    let mut random = fastrand::Rng::with_seed(16);
    let (mut kept, mut copies, mut refused, mut released) = (0, 0, 0, 0);
    for _ in 0..150 {
        let most = layout.pages(longest);
        let pages = random.usize(most..7 * most);
        let chunk = random.usize(1..5);
        let kv = Kv::new(random.usize(1..5), (pages, chunk), Reuse::Fast);
        let mut kv = kv.with_layout(layout.clone());
        let mut held = Held::new(pages, chunk);
        let keep = random.usize(1..=pages);
        // All tokens of each running slot.
        let mut running: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for _ in 0..60 {
            let user = random.u32(0..3);
            let session = Owner(u64::from(user) * 2 + random.u64(0..2));
            let runs = |kv: &Kv, owner| {
                let of = |slot: &usize| kv.at(*slot).is_some_and(|one| one.owner == Some(owner));
                running.keys().any(of)
            };
            match random.u32(0..9) {
                0 => kv.release(session),
                1 if !runs(&kv, session) => {
                    let rewound = kv.rewind(session, random.usize(0..200));
                    assert!(rewound.is_ok(), "none of its turns runs");
                }
                2..=3 => {
                    if let Some((slot, said)) = running.pop_first() {
                        held.end(&mut kv, slot, &said);
                    }
                }
                4 => {
                    let rested = random.u64(0..=kv.turns());
                    held.release_memory(&mut kv, keep, rested);
                }
                _ => {
                    // Long common prefixes that diverge at some point.
                    let mut prompt = tokens(0, 0, random.usize(2..longest - 100));
                    let parts = random.usize(0..prompt.len());
                    prompt[parts..].fill(random.u32(0..3));
                    let positions = prompt.len() + random.usize(0..100);
                    let owner = random.bool().then_some(session);
                    if owner.is_some_and(|owner| runs(&kv, owner)) {
                        continue;
                    }
                    let asks = (user, Wanted::without_answers(&prompt));
                    let room = kv.has_room(asks, positions, &[]);
                    held.allocate(&mut kv, owner, positions, random.u8(0..8) == 0);
                    let Some(turn) = kv.begin(owner, user, asks.1, positions) else {
                        assert!(!kv.has_room(asks, positions, &[]));
                        refused += 1;
                        continue;
                    };
                    assert!(room && !running.contains_key(&turn.slot));
                    for copy in &turn.copies {
                        held.copy(*copy);
                        copies += 1;
                    }
                    let tables = kv.tables_of(turn.slot);
                    assert_eq!(tables[0].len(), positions.div_ceil(PAGE));
                    let cached = &prompt[..turn.cached];
                    assert!(held.has(&tables, layout, cached), "{turn:?}");
                    assert!(held.has_state(turn.state.as_ref(), cached), "{turn:?}");
                    // A state within a chunk of a prompt would have other bits than an uninterrupted prompt's.
                    let last = kv.at(turn.slot).and_then(|one| one.tokens.last());
                    let is_answer = last.is_none_or(|(_, family)| *family == Family::Step);
                    let between = is_answer || turn.cached.is_multiple_of(PAGE);
                    assert!(layout.state == 0 || between, "{turn:?}");
                    let cached = maybe_restore(&mut random, &mut held, &mut kv, &turn, &prompt);
                    held.read(&mut kv, turn.slot, &prompt, cached);
                    kv.pin(turn.slot);
                    running.insert(turn.slot, prompt);
                    kept += turn.cached;
                }
            }
            for (slot, said) in &mut running {
                let tables = kv.tables_of(*slot);
                if random.bool() && said.len() < tables[0].len() * PAGE {
                    let token = random.u32(0..3);
                    said.push(token);
                    held.write(&tables, said, said.len() - 1..said.len());
                    kv.push_to(*slot, token);
                }
                assert!(
                    held.has(&tables, layout, said),
                    "the pages of slot {slot} were overwritten"
                );
            }
            check_pages(&kv, &held);
        }
        released += held.released;
        // The remaining memory is enough for one turn, even if no more can be allocated.
        running.keys().for_each(|slot| kv.unpin(*slot));
        kv.refuse();
        let positions = (1..=keep).map(|blocks| blocks * PAGE);
        let positions = positions
            .rev()
            .find(|positions| layout.pages(*positions) <= keep);
        if let Some(positions) = positions {
            let turn = kv.begin(None, 9, Wanted::without_answers(&[1]), positions);
            assert!(turn.is_some(), "{keep} of {:?}", kv.pages());
        }
    }
    [kept, copies, refused, released]
}

#[test]
fn random_turns_find_their_pages_and_share_them_with_no_other_user() {
    let plain = Layout::plain();
    let all = random_turns(&plain, 250);
    let least = [20_000, 200, 200, 200];
    assert!(
        all.iter().zip(least).all(|(all, least)| *all > least),
        "{all:?}"
    );
    let windows = Layout::new(vec![None, Some(100), Some(100)], 30);
    let states = Layout::new(vec![None], 100).with_state(2);
    // Prompts are shared up to a multiple of 64 tokens, so that no page is copied.
    for (layout, copies) in [(windows, 200), (states, 0)] {
        let all = random_turns(&layout, 700);
        let least = [20_000, copies, 200, 200];
        assert!(
            all.iter().zip(least).all(|(all, least)| *all >= least),
            "{all:?}"
        );
    }
}
