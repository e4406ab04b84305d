//! Turns that end before their last step has written.

use super::super::*;
use super::held::Held;
use super::tokens;

/// A device that runs steps late. A step writes to the pages that were in its slot's tables when the step was launched.
struct Late {
    held: Held,
    /// Slot, page of each group, and all tokens of the conversation including the one that is written.
    ahead: Vec<(usize, Vec<usize>, Vec<u32>)>,
}

impl Late {
    /// Launches a step of some running slots, and reports it to the cache.
    fn launch(&mut self, kv: &mut Kv, running: &BTreeMap<usize, Vec<u32>>, reports: bool) {
        for (slot, said) in running {
            let mut tokens = said.clone();
            tokens.push(7);
            let at = said.len() / PAGE;
            let tables = kv.tables_of(*slot);
            let pages: Option<Vec<_>> = tables.iter().map(|table| *table.get(at)?).collect();
            self.ahead.extend(pages.map(|pages| (*slot, pages, tokens)));
        }
        let slots: Vec<_> = self.ahead.iter().map(|(slot, ..)| *slot).collect();
        if reports {
            kv.launched(&slots);
        }
    }

    /// Ends the step and takes its tokens, including those of conversations that have ended. Returns whether all were
    /// written to memory.
    fn land(&mut self, kv: &mut Kv, running: &mut BTreeMap<usize, Vec<u32>>) -> Result<(), String> {
        for (slot, pages, tokens) in self.ahead.drain(..) {
            let at = tokens.len() - 1;
            for page in pages {
                let written = self.held.pages[page].get_mut(at % PAGE);
                let written = written.ok_or("a step wrote to a released page")?;
                written.clone_from(&tokens);
            }
            if kv.len_of(slot) == at {
                kv.push_to(slot, tokens[at]);
            }
            running.entry(slot).and_modify(|said| *said = tokens);
        }
        kv.launched(&[]);
        Ok(())
    }
}

/// Random turns of one user, of less than `longest` pages, that end and are followed by others before their last step has
/// written. Returns an error if a page has wrong content. `reports` says whether launched steps are reported to the cache.
fn turns_with_late_steps(
    seed: u64,
    (layout, longest): (&Layout, usize),
    reports: bool,
) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let least = layout.pages(longest * PAGE);
    for _ in 0..200 {
        let pages = random.usize(least + 1..4 * least);
        let chunk = random.usize(1..4);
        let kv = Kv::new(3, (pages, chunk), Reuse::Fast);
        let mut kv = kv.with_layout(layout.clone());
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
                    let length = random.usize(1..longest) * PAGE - random.usize(0..3);
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
    let plain = (&Layout::plain(), 3);
    for seed in 0..8 {
        assert_eq!(turns_with_late_steps(seed, plain, true), Ok(()));
        let without = turns_with_late_steps(seed, plain, false);
        assert!(without.is_err(), "without quarantine nothing failed");
    }
}

/// The same with rings of two pages: a step also writes to a page that an earlier position had.
#[test]
fn pages_of_windows_are_in_quarantine_until_their_steps_end() {
    let windows = Layout::new(vec![None, Some(20)], 32);
    for seed in 0..4 {
        let ran = turns_with_late_steps(seed, (&windows, 7), true);
        assert_eq!(ran, Ok(()));
    }
}
