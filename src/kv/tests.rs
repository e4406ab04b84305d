//! Tests with turns of several conversations, in few pages or many.

use std::collections::HashSet;
use std::ops::Range;

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
    assert_eq!(kv.rewind(Owner(1), 0), Some(Change::Cleared));
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
    assert_eq!(kv.rewind(Owner(1), 1), None, "it holds no more");
    assert_eq!(kv.rewind(Owner(2), 0), None, "it holds nothing of it");
    assert_eq!(kv.epoch(), 3);
    assert_eq!(kv.rewind(Owner(1), 0), Some(Change::Cleared));
    assert_eq!(short(&mut kv, B, &[5, 6]), (0, Change::Switched));
    assert_eq!(kv.resize(2, (2, 1)), Change::Resized);
    assert_eq!(short(&mut kv, B, &[5, 6]).1, Change::Restored);
    assert_eq!(short(&mut kv, B, &[5, 6, 7]).1, Change::NewTurn);
    kv.lose();
    assert_eq!(short(&mut kv, B, &[5, 6, 7]), (0, Change::NewTurn));
    kv.release(Owner(2));
    assert_eq!(short(&mut kv, None, &[5, 6, 7, 8]), (3, Change::NewTurn));
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

/// The content of pages in an executor: for each position, the tokens up to there, which determine its K and V.
struct Held {
    /// Pages without memory have no positions.
    pages: Vec<Vec<Vec<u32>>>,
    /// Pages of a chunk.
    chunk: usize,
    /// Chunks released so far.
    released: usize,
}

impl Held {
    fn new(pages: usize, chunk: usize) -> Self {
        Self {
            pages: vec![vec![Vec::new(); PAGE]; pages],
            chunk,
            released: 0,
        }
    }

    /// Writes positions to all groups of layers.
    fn write(&mut self, tables: &[Vec<Option<usize>>], tokens: &[u32], positions: Range<usize>) {
        for table in tables {
            for at in positions.clone() {
                let page = table[at / PAGE].expect("it has a page");
                self.pages[page][at % PAGE] = tokens[..=at].to_vec();
            }
        }
    }

    /// Writes a prompt in runs, each after the positions that it sees, and the states of its checkpoints.
    fn read(&mut self, kv: &mut Kv, slot: usize, prompt: &[u32], cached: usize) {
        let tables = kv.tables_of(slot);
        let mut at = cached;
        while at < prompt.len() {
            let left = prompt.len() - at;
            let most = if kv.layout.run == 0 {
                left
            } else {
                kv.layout.run
            };
            let end = at + kv.run_length(slot, left, most);
            self.write(&tables, prompt, at..end);
            assert!(self.has(&tables, &kv.layout, &prompt[..at]));
            kv.extend(&prompt[at..end]);
            at = end;
            if let Some(pieces) = kv.due_pieces(slot) {
                self.write_state(pieces, &prompt[..at]);
                kv.checkpointed(slot);
            }
        }
    }

    /// Writes the state after some tokens, which they determine.
    fn write_state(&mut self, pieces: &[usize], tokens: &[u32]) {
        for page in pieces {
            self.pages[*page][0] = tokens.to_vec();
        }
    }

    fn has_state(&self, start: Option<&StateStart>, tokens: &[u32]) -> bool {
        match start {
            None => true,
            Some(StateStart::Empty) => tokens.is_empty(),
            Some(StateStart::Pieces(pieces)) => {
                pieces.iter().all(|page| self.pages[*page][0] == tokens)
            }
        }
    }

    /// Ends the turn of a slot with these tokens.
    fn end(&mut self, kv: &mut Kv, slot: usize, tokens: &[u32]) {
        if let Some(pieces) = kv.end_pieces(slot) {
            self.write_state(pieces, tokens);
            kv.ended(slot);
        }
        kv.unpin(slot);
    }

    fn copy(&mut self, Copied { from, to }: Copied) {
        assert!(self.has_memory(from) && self.has_memory(to));
        self.pages[to] = self.pages[from].clone();
    }

    /// Whether each group has the positions that the next row sees.
    fn has(&self, tables: &[Vec<Option<usize>>], layout: &Layout, tokens: &[u32]) -> bool {
        tables.iter().enumerate().all(|(group, table)| {
            let is = |at: usize| self.pages[table[at / PAGE]?].get(at % PAGE);
            let first = layout.needed(group, tokens.len()).start * PAGE;
            let first = first.max((tokens.len() + 1).saturating_sub(layout.window(group)));
            (first..tokens.len()).all(|at| is(at).is_some_and(|held| *held == tokens[..=at]))
        })
    }

    fn has_memory(&self, page: usize) -> bool {
        !self.pages[page].is_empty()
    }

    /// Releases the chunks that the cache returns, keeping `keep` pages and sequences used after turn `rested`.
    fn release_memory(&mut self, kv: &mut Kv, keep: usize, rested: u64) {
        let needed = |kv: &Kv| kv.needed(rested).iter().filter(|one| **one).count();
        let before = (kv.allocated() - needed(kv), needed(kv));
        let chunks = kv.release_memory(keep, rested);
        let after = (kv.allocated() - needed(kv), needed(kv));
        assert!(after.0 >= keep.min(before.0) && after.1 == before.1);
        assert!(kv.spare(keep, rested).is_empty());
        for page in chunks.iter().flat_map(|chunk| kv.pool.pages_of(*chunk)) {
            assert!(!std::mem::take(&mut self.pages[page]).is_empty());
        }
        self.released += chunks.len();
    }

    /// Allocates memory for a turn until an allocation is refused.
    fn allocate(&mut self, kv: &mut Kv, owner: Option<Owner>, positions: usize, refused: bool) {
        while let Some(chunk) = kv.lacks(owner, positions) {
            if refused {
                kv.refuse();
                continue;
            }
            kv.allocate(chunk);
            let first = chunk * self.chunk;
            let after = (first + self.chunk).min(self.pages.len());
            for page in &mut self.pages[first..after] {
                assert!(page.is_empty(), "it had memory");
                *page = vec![Vec::new(); PAGE];
            }
        }
    }
}

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
                1 if !runs(&kv, session) => drop(kv.rewind(session, random.usize(0..200))),
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
                    held.read(&mut kv, turn.slot, &prompt, turn.cached);
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

/// A device that runs steps late. A step writes to the page that was in its slot's table when the step was launched.
struct Late {
    held: Held,
    /// Slot, page, and all tokens of the conversation including the one that is written.
    ahead: Vec<(usize, usize, Vec<u32>)>,
}

impl Late {
    /// Launches a step of some running slots, and reports it to the cache.
    fn launch(&mut self, kv: &mut Kv, running: &BTreeMap<usize, Vec<u32>>, reports: bool) {
        for (slot, said) in running {
            let mut tokens = said.clone();
            tokens.push(7);
            let page = pages_of(kv, *slot).get(said.len() / PAGE).copied();
            self.ahead.extend(page.map(|page| (*slot, page, tokens)));
        }
        let slots: Vec<_> = self.ahead.iter().map(|(slot, ..)| *slot).collect();
        if reports {
            kv.launched(&slots);
        }
    }

    /// Ends the step and takes its tokens, including those of conversations that have ended. Returns whether all were
    /// written to memory.
    fn land(&mut self, kv: &mut Kv, running: &mut BTreeMap<usize, Vec<u32>>) -> Result<(), String> {
        for (slot, page, tokens) in self.ahead.drain(..) {
            let at = tokens.len() - 1;
            let written = self.held.pages[page].get_mut(at % PAGE);
            let written = written.ok_or("a step wrote to a released page")?;
            written.clone_from(&tokens);
            if kv.len_of(slot) == at {
                kv.push_to(slot, tokens[at]);
            }
            running.entry(slot).and_modify(|said| *said = tokens);
        }
        kv.launched(&[]);
        Ok(())
    }
}

/// Random turns of one user that end and are followed by others before their last step has written. Returns an error if
/// a page has wrong content. `reports` says whether launched steps are reported to the cache.
fn turns_with_late_steps(seed: u64, reports: bool) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..200 {
        let pages = random.usize(4..12);
        let chunk = random.usize(1..4);
        let mut kv = Kv::new(3, (pages, chunk), Reuse::Fast);
        let held = Held::new(pages, chunk);
        let mut device = Late {
            held,
            ahead: Vec::new(),
        };
        let mut running: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for turn in 0..60 {
            match random.u32(0..7) {
                0 | 1 if device.ahead.is_empty() => device.launch(&mut kv, &running, reports),
                2 => device.land(&mut kv, &mut running)?,
                3 => {
                    let at = random.usize(0..running.len().max(1));
                    if let Some(slot) = running.keys().nth(at).copied() {
                        running.remove(&slot);
                        kv.unpin(slot);
                    }
                }
                4 => {
                    let all = kv.turns();
                    device.held.release_memory(&mut kv, 0, all);
                }
                _ => {
                    // Most turns end near the end of a page.
                    let length = random.usize(1..3) * PAGE - random.usize(0..3);
                    let mut prompt = tokens(random.u32(0..3), 0, length);
                    prompt[length / 2..].fill(turn);
                    let positions = length + random.usize(3..PAGE);
                    device.held.allocate(&mut kv, None, positions, false);
                    let Some(begun) =
                        kv.begin(None, 0, Wanted::without_answers(&prompt), positions)
                    else {
                        continue;
                    };
                    let Turn { slot, cached, .. } = begun;
                    for copy in &begun.copies {
                        device.held.copy(*copy);
                    }
                    let tables = kv.tables_of(slot);
                    if !device.held.has(&tables, &kv.layout, &prompt[..cached]) {
                        return Err(format!(
                            "some of {cached} cached positions belong to another conversation"
                        ));
                    }
                    device.held.write(&tables, &prompt, cached..prompt.len());
                    kv.extend(&prompt[cached..]);
                    kv.pin(slot);
                    running.insert(slot, prompt);
                }
            }
            for (slot, said) in &running {
                if !device.held.has(&kv.tables_of(*slot), &kv.layout, said) {
                    return Err(format!("the running turn in slot {slot} was overwritten"));
                }
            }
            if kv
                .sequences
                .values()
                .any(|one| one.tables.len() < one.needed())
            {
                return Err("a token is in a page of another conversation".into());
            }
        }
    }
    Ok(())
}

/// Quarantine keeps late steps from writing to other sequences' pages. Without it some do.
#[test]
fn pages_are_in_quarantine_until_their_steps_end() {
    for seed in 0..8 {
        assert_eq!(turns_with_late_steps(seed, true), Ok(()));
        let without = turns_with_late_steps(seed, false);
        assert!(without.is_err(), "without quarantine nothing failed");
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

/// A long conversation holds the positions that its windows see, and continues at its end and at the end of its prompt.
#[test]
fn pages_that_left_a_window_are_free() {
    const WINDOW: usize = 4;
    let layout = Layout::new(vec![None, Some(WINDOW * PAGE), Some(WINDOW * PAGE)], PAGE);
    let mut kv = Kv::new(2, (600, 1), Reuse::Exact).with_layout(layout);
    let prompt = tokens(1, 100, 0);
    let begun = turn(&mut kv, A, &prompt, 200 * PAGE);
    kv.pin(begun.slot);
    let held = |kv: &Kv| kv.pages().0 - kv.pages().1;
    // Besides the pages that are used in turn, those of the end of the prompt stay.
    assert!(
        held(&kv) <= 200 + 2 * (WINDOW + 2 + WINDOW + 2),
        "{}",
        held(&kv)
    );
    for token in 0..50 * PAGE {
        kv.push_to(begun.slot, u32::try_from(token).expect("few"));
    }
    kv.unpin(begun.slot);
    assert_eq!(held(&kv), 150 + 2 * (WINDOW + WINDOW + 1));
    let continued = |kv: &Kv, tokens: &[u32], said: Range<usize>| {
        let said = std::slice::from_ref(&said);
        kv.held_of((0, Wanted { tokens, said }))
    };
    let all: Vec<u32> = (0..50 * PAGE)
        .map(|token| u32::try_from(token).expect("few"))
        .collect();
    let all = [&prompt[..], &all, &[7]].concat();
    let end = 150 * PAGE;
    assert_eq!(continued(&kv, &all, 100 * PAGE..end), end);
    // Another answer begins at the end of the prompt, or a little before it.
    for cut in [0, 5, PAGE] {
        let other = [&all[..100 * PAGE - cut], &[9; 3]].concat();
        assert_eq!(continued(&kv, &other, 0..0), 100 * PAGE - cut);
    }
    let early = [&prompt[..50 * PAGE], &[9; 3]].concat();
    assert_eq!(continued(&kv, &early, 0..0), 0, "its pages left the window");
}
