//! Turns of a few conversations, in few pages or many.

use super::*;

const A: Option<Owner> = Some(Owner(1));
const B: Option<Owner> = Some(Owner(2));
const C: Option<Owner> = Some(Owner(3));

/// Tokens of so many pages and some more, which begin with `first`.
fn tokens(first: u32, pages: usize, more: usize) -> Vec<u32> {
    let others = 1..u32::try_from(pages * PAGE + more).expect("few");
    [first].into_iter().chain(others).collect()
}

/// Begins a turn of user 0 that may be so long, and runs all of its prompt.
fn turn(kv: &mut Kv, owner: Option<Owner>, prompt: &[u32], positions: usize) -> Turn {
    let turn = kv
        .begin(owner, 0, Wanted::read(prompt), positions)
        .expect("there is room");
    kv.extend(&prompt[turn.cached..]);
    turn
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
    // The one that has rested longest makes way for a third.
    assert_eq!(short(&mut kv, None, &[9, 9]), (0, Change::Switched));
    assert_eq!(short(&mut kv, None, &[9, 9, 8]), (2, Change::NewTurn));
    assert_eq!(short(&mut kv, A, &[1, 2, 3, 5, 6]), (4, Change::Switched));
    // What is nobody's any more goes before what is somebody's.
    assert_eq!(short(&mut kv, B, &[7, 8, 9]), (0, Change::Restored));
    assert_eq!(
        short(&mut kv, A, &[1, 2, 3, 5, 6, 7]),
        (5, Change::Switched)
    );
}

#[test]
fn what_begins_alike_is_shared_and_copied_only_where_it_goes_on_apart() {
    let mut kv = Kv::new(3, (16, 1), Reuse::Fast);
    let prompt = tokens(1, 2, 10);
    turn(&mut kv, A, &prompt, 3 * PAGE);
    kv.pin(0);
    let first = kv.pages_of(0).to_vec();
    let mut other = prompt[..2 * PAGE + 5].to_vec();
    other.push(99);
    let begun = turn(&mut kv, B, &other, 4 * PAGE);
    kv.pin(begun.entry);
    let second = kv.pages_of(begun.entry).to_vec();
    assert_eq!((begun.entry, begun.cached), (1, 2 * PAGE + 5));
    assert_eq!(second[..2], first[..2]);
    let (from, to) = (first[2], second[2]);
    assert_eq!(begun.copy, Some(Copied { from, to }));
    assert_eq!(kv.pages(), (16, 16 - 3 - 2));
    // Where it is whole pages, nothing is copied, nor where the rest is nobody else's; and nothing serves another user.
    let mut whole = prompt[..2 * PAGE].to_vec();
    whole.push(98);
    assert_eq!(turn(&mut kv, C, &whole, 3 * PAGE).copy, None);
    kv.unpin(0);
    assert_eq!(turn(&mut kv, A, &prompt, 3 * PAGE).copy, None);
    let theirs = kv
        .begin(None, 7, Wanted::read(&prompt), 3 * PAGE)
        .expect("room");
    assert_eq!((theirs.cached, theirs.copy), (0, None));
}

/// Whether there is room for a prompt of which nobody has anything.
fn has_room(kv: &Kv, positions: usize, leaving: &[usize]) -> bool {
    kv.has_room((0, Wanted::default()), positions, leaving)
}

/// Four turns that begin alike have room where three that do not have not.
#[test]
fn what_is_shared_with_those_that_run_counts_once() {
    let mut kv = Kv::new(8, (8, 1), Reuse::Fast);
    let rules = tokens(1, 4, 0);
    for question in 0..4 {
        let prompt = [&rules[..], &[100 + question]].concat();
        let asks = (0, Wanted::read(&prompt));
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
        let entry = turn(&mut kv, None, &prompt, 5 * PAGE).entry;
        kv.pin(entry);
    }
    assert_eq!(kv.pages(), (8, 0));
    let prompt = [&rules[..], &[99]].concat();
    assert!(!kv.has_room((0, Wanted::read(&prompt)), 5 * PAGE, &[]));
    assert!(kv.has_room((0, Wanted::read(&prompt)), 5 * PAGE, &[0]));
    assert_eq!(kv.begin(None, 0, Wanted::read(&prompt), 5 * PAGE), None);
}

/// What one has with another that runs is no memory for something else.
#[test]
fn a_turn_that_lacks_nothing_begins() {
    let mut kv = Kv::new(3, (12, 1), Reuse::Fast);
    let prompt = tokens(1, 3, 10);
    turn(&mut kv, A, &prompt, 4 * PAGE);
    kv.branch(Owner(1), Owner(2));
    kv.give_back(0, u64::MAX);
    assert_eq!(kv.allocated(), 4);
    let runs = turn(&mut kv, A, &prompt, 4 * PAGE).entry;
    kv.pin(runs);
    let mut lacked = 0;
    while let Some(chunk) = kv.lacks(B, 4 * PAGE) {
        kv.allocate(chunk);
        lacked += 1;
    }
    let other = tokens(9, 3, 10);
    let begun = kv.begin(B, 0, Wanted::read(&other), 4 * PAGE);
    assert!(begun.is_some(), "{lacked} came");
    assert_eq!(kv.len_of(runs), prompt.len());
}

/// A turn begins only where it can end, and what runs loses nothing.
#[test]
fn a_branch_holds_its_pages_whatever_becomes_of_the_other() {
    let mut kv = Kv::new(2, (8, 1), Reuse::Exact);
    let prompt = tokens(1, 1, 10);
    turn(&mut kv, A, &prompt, 2 * PAGE);
    kv.branch(Owner(1), Owner(2));
    let pages = |kv: &Kv, owner: u64| kv.resting(Owner(owner)).expect("it rests").pages.to_vec();
    assert_eq!(pages(&kv, 1), pages(&kv, 2), "nothing is copied");
    assert_eq!(kv.rewind(Owner(1), 0), Some(Change::Cleared));
    let held = pages(&kv, 2);
    // What is deleted serves nobody, but for what another conversation has.
    turn(&mut kv, None, &tokens(7, 1, 0), PAGE);
    kv.release(Owner(1));
    kv.erase(0);
    assert_eq!(turn(&mut kv, None, &tokens(7, 1, 0), PAGE).cached, 0);
    assert_eq!(pages(&kv, 2), held);
    let longer = tokens(1, 1, 11);
    assert_eq!(turn(&mut kv, B, &longer, 2 * PAGE).cached, prompt.len());
}

#[test]
fn pages_are_promised_for_all_that_a_turn_may_say() {
    let mut kv = Kv::new(3, (6, 1), Reuse::Fast);
    let promised = turn(&mut kv, A, &[1, 2], 3 * PAGE);
    kv.pin(promised.entry);
    assert!(has_room(&kv, 3 * PAGE, &[]) && !has_room(&kv, 3 * PAGE + 1, &[]));
    assert!(has_room(&kv, 6 * PAGE, &[promised.entry]));
    assert_eq!(kv.begin(B, 0, Wanted::read(&[3, 4]), 4 * PAGE), None);
    let second = turn(&mut kv, B, &[3, 4], 2 * PAGE);
    kv.pin(second.entry);
    let third = turn(&mut kv, None, &[5, 6], 7);
    kv.pin(third.entry);
    assert!(!has_room(&kv, 1, &[]), "no entry");
    // What was not needed is given back at the end, not before.
    kv.unpin(promised.entry);
    assert_eq!(kv.pages(), (6, 2));
    assert!(has_room(&kv, 3 * PAGE, &[]) && !has_room(&kv, 3 * PAGE + 1, &[]));
    assert_eq!(kv.len_of(second.entry), 2);
}

#[test]
fn every_change_bumps_the_epoch_once_and_says_what_it_was() {
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

/// What was said is not what was read, even where the tokens are: only a conversation's own past is both.
#[test]
fn exact_sequences_share_what_their_own_family_made() {
    for (reuse, of_text, of_both) in [(Reuse::Exact, 2, 4), (Reuse::Fast, 4, 4)] {
        let mut kv = Kv::new(2, (8, 1), reuse);
        short(&mut kv, A, &[1, 2]);
        kv.push(3);
        kv.push(4);
        let prompt = [1, 2, 3, 4, 5];
        let read = kv.begin(B, 0, Wanted::read(&prompt), PAGE).expect("room");
        assert_eq!(read.cached, of_text, "{reuse:?}");
        let said = Wanted {
            tokens: &prompt,
            said: std::slice::from_ref(&(2..4)),
        };
        let both = kv.begin(C, 0, said, PAGE).expect("room");
        assert_eq!(both.cached, of_both, "{reuse:?}");
    }
}

/// What lies in the pages, as an executor would have it: for each position the tokens up to there, which its K and V are of.
struct Held {
    /// A page without memory has no positions.
    pages: Vec<Vec<Vec<u32>>>,
    /// Pages of a chunk.
    chunk: usize,
    /// Chunks that were given back so far.
    given_back: usize,
}

impl Held {
    fn new(pages: usize, chunk: usize) -> Self {
        Self {
            pages: vec![vec![Vec::new(); PAGE]; pages],
            chunk,
            given_back: 0,
        }
    }

    fn write(&mut self, pages: &[usize], tokens: &[u32], from: usize) {
        for at in from..tokens.len() {
            self.pages[pages[at / PAGE]][at % PAGE] = tokens[..=at].to_vec();
        }
    }

    fn copy(&mut self, Copied { from, to }: Copied) {
        assert!(self.has_memory(from) && self.has_memory(to));
        self.pages[to] = self.pages[from].clone();
    }

    fn has(&self, pages: &[usize], tokens: &[u32]) -> bool {
        let is = |at: usize| self.pages[pages[at / PAGE]].get(at % PAGE);
        (0..tokens.len()).all(|at| is(at).is_some_and(|held| *held == tokens[..=at]))
    }

    fn has_memory(&self, page: usize) -> bool {
        !self.pages[page].is_empty()
    }

    /// Gives back what the cache says, but for so many pages besides those that are needed, or were used after so many turns.
    fn give_back(&mut self, kv: &mut Kv, keep: usize, rested: u64) {
        let needed = |kv: &Kv| kv.needed(rested).iter().filter(|one| **one).count();
        let before = (kv.allocated() - needed(kv), needed(kv));
        let chunks = kv.give_back(keep, rested);
        let after = (kv.allocated() - needed(kv), needed(kv));
        assert!(after.0 >= keep.min(before.0) && after.1 == before.1);
        assert!(kv.spare(keep, rested).is_empty());
        for page in chunks.iter().flat_map(|chunk| kv.pool.pages_of(*chunk)) {
            assert!(!std::mem::take(&mut self.pages[page]).is_empty());
        }
        self.given_back += chunks.len();
    }

    /// Allocates what a turn lacks, until it is refused.
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

/// Random turns of three users that begin alike all the time, several at once, in few pages, whose memory comes and goes. What is
/// kept of a prompt is there when it begins, whatever others have written since; of what runs nothing is overwritten, and nothing
/// given back; no page is lost, and none is in two users' hands.
#[test]
fn what_is_kept_is_there_and_nobody_elses() {
    let mut random = fastrand::Rng::with_seed(16);
    let (mut kept, mut copies, mut refused, mut given_back) = (0, 0, 0, 0);
    for _ in 0..150 {
        let pages = random.usize(3..20);
        let chunk = random.usize(1..5);
        let mut kv = Kv::new(random.usize(1..5), (pages, chunk), Reuse::Fast);
        let mut held = Held::new(pages, chunk);
        let keep = random.usize(1..=pages);
        // Each entry that runs, with all that it has said.
        let mut running: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for _ in 0..60 {
            let user = random.u32(0..3);
            let session = Owner(u64::from(user) * 2 + random.u64(0..2));
            let runs = |kv: &Kv, owner| {
                let of = |entry: &usize| kv.at(*entry).is_some_and(|one| one.owner == Some(owner));
                running.keys().any(of)
            };
            match random.u32(0..9) {
                0 => kv.release(session),
                1 if !runs(&kv, session) => drop(kv.rewind(session, random.usize(0..200))),
                2..=3 => {
                    if let Some((entry, _)) = running.pop_first() {
                        kv.unpin(entry);
                    }
                }
                4 => {
                    let rested = random.u64(0..=kv.turns());
                    held.give_back(&mut kv, keep, rested);
                }
                _ => {
                    // Long beginnings in common, which part somewhere.
                    let mut prompt = tokens(0, 0, random.usize(2..150));
                    let parts = random.usize(0..prompt.len());
                    prompt[parts..].fill(random.u32(0..3));
                    let positions = prompt.len() + random.usize(0..100);
                    let owner = random.bool().then_some(session);
                    if owner.is_some_and(|owner| runs(&kv, owner)) {
                        continue;
                    }
                    let asks = (user, Wanted::read(&prompt));
                    let room = kv.has_room(asks, positions, &[]);
                    held.allocate(&mut kv, owner, positions, random.u8(0..8) == 0);
                    let Some(turn) = kv.begin(owner, user, Wanted::read(&prompt), positions) else {
                        assert!(!kv.has_room(asks, positions, &[]));
                        refused += 1;
                        continue;
                    };
                    assert!(room && !running.contains_key(&turn.entry));
                    if let Some(copy) = turn.copy {
                        held.copy(copy);
                        copies += 1;
                    }
                    let table = kv.pages_of(turn.entry).to_vec();
                    assert_eq!(table.len(), positions.div_ceil(PAGE));
                    assert!(held.has(&table, &prompt[..turn.cached]), "{turn:?}");
                    held.write(&table, &prompt, turn.cached);
                    kv.extend(&prompt[turn.cached..]);
                    kv.pin(turn.entry);
                    running.insert(turn.entry, prompt);
                    kept += turn.cached;
                }
            }
            for (entry, said) in &mut running {
                let table = kv.pages_of(*entry).to_vec();
                if random.bool() && said.len() < table.len() * PAGE {
                    let token = random.u32(0..3);
                    said.push(token);
                    held.write(&table, said, said.len() - 1);
                    kv.push_to(*entry, token);
                }
                assert!(
                    held.has(&table, said),
                    "of {entry} something was overwritten"
                );
            }
            let mut holders = vec![Vec::new(); pages];
            for sequence in kv.sequences.values() {
                sequence
                    .pages
                    .iter()
                    .for_each(|page| holders[*page].push(sequence.user));
            }
            let free = holders.iter().filter(|users| users.is_empty()).count();
            assert_eq!(kv.pages(), (pages, free));
            let memory = (0..pages).filter(|page| held.has_memory(*page));
            assert_eq!(kv.allocated(), memory.count());
            for users in &holders {
                assert!(users.iter().all(|user| *user == users[0]), "{kv:?}");
            }
            let mut pages = kv.sequences.values().flat_map(|one| &one.pages);
            assert!(pages.all(|page| held.has_memory(*page)), "{kv:?}");
        }
        given_back += held.given_back;
        // Whatever was given back, what was kept serves one turn, though there is no memory for more.
        running.keys().for_each(|entry| kv.unpin(*entry));
        kv.refuse();
        let turn = kv.begin(None, 9, Wanted::read(&[1]), keep * PAGE);
        assert!(turn.is_some(), "{keep} of {kv:?}");
    }
    assert!(
        kept > 20_000 && copies > 200 && refused > 200 && given_back > 200,
        "{kept} {copies} {refused} {given_back}"
    );
}

/// A device that runs steps late: each writes to the page that its entry's table had for it when it was launched.
struct Late {
    held: Held,
    /// Entry, page, and all tokens of the conversation with the one that is written.
    ahead: Vec<(usize, usize, Vec<u32>)>,
}

impl Late {
    /// Launches a step of some of those that run, and tells of it what is to be told.
    fn launch(&mut self, kv: &mut Kv, running: &BTreeMap<usize, Vec<u32>>, tells: bool) {
        for (entry, said) in running {
            let mut tokens = said.clone();
            tokens.push(7);
            let page = kv.pages_of(*entry).get(said.len() / PAGE);
            self.ahead.extend(page.map(|page| (*entry, *page, tokens)));
        }
        let entries: Vec<_> = self.ahead.iter().map(|(entry, ..)| *entry).collect();
        if tells {
            kv.launched(&entries);
        }
    }

    /// The step ends, and its tokens are taken: also those of conversations that have ended. Says whether all of it was written
    /// to memory.
    fn land(&mut self, kv: &mut Kv, running: &mut BTreeMap<usize, Vec<u32>>) -> Result<(), String> {
        for (entry, page, tokens) in self.ahead.drain(..) {
            let at = tokens.len() - 1;
            let written = self.held.pages[page].get_mut(at % PAGE);
            let written = written.ok_or("a step wrote to what had been given back")?;
            written.clone_from(&tokens);
            if kv.len_of(entry) == at {
                kv.push_to(entry, tokens[at]);
            }
            running.entry(entry).and_modify(|said| *said = tokens);
        }
        kv.launched(&[]);
        Ok(())
    }
}

/// Random turns of one user that end, and are followed by others, while a step of theirs is still to write. Says what a page
/// holds that it should not, or does not hold that it should. `tells` is whether the cache hears of steps that are launched.
fn turns_beside_steps_that_are_late(seed: u64, tells: bool) -> Result<(), String> {
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
                0 | 1 if device.ahead.is_empty() => device.launch(&mut kv, &running, tells),
                2 => device.land(&mut kv, &mut running)?,
                3 => {
                    let at = random.usize(0..running.len().max(1));
                    if let Some(entry) = running.keys().nth(at).copied() {
                        running.remove(&entry);
                        kv.unpin(entry);
                    }
                }
                4 => {
                    let all = kv.turns();
                    device.held.give_back(&mut kv, 0, all);
                }
                _ => {
                    // Most end near a page's.
                    let length = random.usize(1..3) * PAGE - random.usize(0..3);
                    let mut prompt = tokens(random.u32(0..3), 0, length);
                    prompt[length / 2..].fill(turn);
                    let positions = length + random.usize(3..PAGE);
                    device.held.allocate(&mut kv, None, positions, false);
                    let Some(begun) = kv.begin(None, 0, Wanted::read(&prompt), positions) else {
                        continue;
                    };
                    let Turn { entry, cached, .. } = begun;
                    if let Some(copy) = begun.copy {
                        device.held.copy(copy);
                    }
                    let table = kv.pages_of(entry).to_vec();
                    if !device.held.has(&table, &prompt[..cached]) {
                        return Err(format!("of {cached} kept positions some are another's"));
                    }
                    device.held.write(&table, &prompt, cached);
                    kv.extend(&prompt[cached..]);
                    kv.pin(entry);
                    running.insert(entry, prompt);
                }
            }
            for (entry, said) in &running {
                if !device.held.has(kv.pages_of(*entry), said) {
                    return Err(format!("what runs in {entry} was overwritten"));
                }
            }
            if kv
                .sequences
                .values()
                .any(|one| one.pages.len() < one.needed())
            {
                return Err("a token is in a page that is not its conversation's".into());
            }
        }
    }
    Ok(())
}

/// Nobody reads or writes another's page, as those that a step is of are in quarantine; and without that somebody does.
#[test]
fn pages_are_in_quarantine_until_the_steps_that_write_to_them_are_over() {
    for seed in 0..8 {
        assert_eq!(turns_beside_steps_that_are_late(seed, true), Ok(()));
        let without = turns_beside_steps_that_are_late(seed, false);
        assert!(without.is_err(), "nothing depends on the quarantine");
    }
}

/// Whoever is not pinned has an entry without pages once others have needed these.
#[test]
fn an_entry_that_lost_its_pages_is_known() {
    let mut kv = Kv::new(2, (3, 1), Reuse::Fast);
    let first = turn(&mut kv, A, &[1, 2], 2 * PAGE);
    assert!(kv.is_seated(first.entry) && !kv.is_seated(1 - first.entry));
    let second = turn(&mut kv, B, &[3, 4], 3 * PAGE);
    assert!(kv.is_seated(second.entry) && !kv.is_seated(first.entry));
}

/// A turn that nobody pinned goes on after a step that had been launched ahead; only one that has ended leaves pages.
#[test]
fn a_step_that_was_launched_ahead_takes_no_pages_from_a_turn_that_goes_on() {
    let mut kv = Kv::new(2, (4, 1), Reuse::Fast);
    let first = turn(&mut kv, A, &[1, 2], 2 * PAGE);
    kv.launched(&[first.entry]);
    kv.launched(&[]);
    assert!(kv.is_seated(first.entry));
    let second = turn(&mut kv, B, &[3, 4], 2 * PAGE);
    kv.pin(second.entry);
    kv.launched(&[second.entry]);
    kv.unpin(second.entry);
    assert_eq!(kv.pages_of(second.entry).len(), 2);
    kv.launched(&[]);
    assert_eq!(kv.pages_of(second.entry).len(), 1);
}

/// What is used last comes first, pages that two share come once, and who has no room is read again.
#[test]
fn what_pages_hold_comes_along_as_far_as_there_is_room() {
    let mut kv = Kv::new(3, (16, 1), Reuse::Fast);
    let [first, apart] = [tokens(1, 2, 10), tokens(7, 2, 30)];
    let second = [&first[..2 * PAGE + 5], &[99]].concat();
    let mut pages = Vec::new();
    for (owner, prompt) in [(A, &first), (B, &second), (C, &apart)] {
        let begun = turn(&mut kv, owner, prompt, 4 * PAGE);
        pages.push(kv.pages_of(begun.entry).to_vec());
    }
    let (change, copies) = kv.move_to(2, (6, 2));
    let from: HashSet<_> = copies.iter().map(|copy| copy.from).collect();
    let to: HashSet<_> = copies.iter().map(|copy| copy.to).collect();
    assert_eq!((change, from.len(), to.len()), (Change::Resized, 6, 6));
    let moved = |owner: Option<Owner>, before: &[usize]| {
        let now = owner.and_then(|owner| kv.resting(owner));
        let pairs = before.iter().zip(now.map_or(&[][..], |now| now.pages));
        let pairs = pairs.map(|(from, to)| Copied {
            from: *from,
            to: *to,
        });
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

/// However many short conversations begin, and with however much memory, they do not pile up.
#[test]
fn sequences_are_bounded() {
    let mut kv = Kv::new(1, (2 * SEQUENCES, 1), Reuse::Fast);
    let twice = u32::try_from(2 * SEQUENCES).expect("few");
    for number in 0..twice {
        short(&mut kv, None, &[number, 1]);
    }
    assert_eq!(kv.sequences.len(), SEQUENCES);
}

/// Where there are too many sequences, a long one that was used just now stays: its user has many pages, which others do not lack,
/// and one sequence like each of them.
#[test]
fn among_many_short_sequences_a_long_one_stays() {
    let mut kv = Kv::new(1, (2 * SEQUENCES, 64), Reuse::Fast);
    let mut cached = |user, prompt: &[u32]| {
        let turn = kv.begin(None, user, Wanted::read(prompt), prompt.len() + 1);
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
