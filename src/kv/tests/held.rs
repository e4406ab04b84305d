//! What an executor's pages hold, as tokens.

use std::ops::Range;

use super::super::layout::Layout;
use super::super::*;

/// The content of pages in an executor: for each position, the tokens up to there, which determine its K and V.
pub(super) struct Held {
    /// Pages without memory have no positions.
    pub(super) pages: Vec<Vec<Vec<u32>>>,
    /// Pages of a chunk.
    pub(super) chunk: usize,
    /// Chunks released so far.
    pub(super) released: usize,
}

impl Held {
    pub(super) fn new(pages: usize, chunk: usize) -> Self {
        Self {
            pages: vec![vec![Vec::new(); PAGE]; pages],
            chunk,
            released: 0,
        }
    }

    /// Writes positions to all groups of layers.
    pub(super) fn write(
        &mut self,
        tables: &[Vec<Option<usize>>],
        tokens: &[u32],
        positions: Range<usize>,
    ) {
        for table in tables {
            for at in positions.clone() {
                let page = table[at / PAGE].expect("it has a page");
                self.pages[page][at % PAGE] = tokens[..=at].to_vec();
            }
        }
    }

    /// Writes a prompt in runs, each after the positions that it sees, and the states of its checkpoints.
    pub(super) fn read(&mut self, kv: &mut Kv, slot: usize, prompt: &[u32], cached: usize) {
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

    /// Restores some tokens to a slot that has the first `cached` of them.
    pub(super) fn restore(&mut self, kv: &mut Kv, slot: usize, tokens: &[u32], cached: usize) {
        let layout = kv.layout.clone();
        for place in layout.missing(cached, tokens.len()) {
            let page = kv.page_at(slot, place).expect("it has a page");
            if place.group == layout.groups() {
                self.write_state(&[page], tokens);
                continue;
            }
            let first = place.index * PAGE;
            for at in first..tokens.len().min(first + PAGE) {
                self.pages[page][at % PAGE] = tokens[..=at].to_vec();
            }
        }
        let read: Vec<_> = tokens
            .iter()
            .map(|token| (*token, Family::Prompt))
            .collect();
        kv.restore(slot, &read);
        let state = StateStart::Pieces(kv.pieces_of_turn(slot).to_vec());
        assert!(layout.state == 0 || self.has_state(Some(&state), tokens));
    }

    /// Writes the state after some tokens, which they determine.
    pub(super) fn write_state(&mut self, pieces: &[usize], tokens: &[u32]) {
        for page in pieces {
            self.pages[*page][0] = tokens.to_vec();
        }
    }

    pub(super) fn has_state(&self, start: Option<&StateStart>, tokens: &[u32]) -> bool {
        match start {
            None => true,
            Some(StateStart::Empty) => tokens.is_empty(),
            Some(StateStart::Pieces(pieces)) => {
                pieces.iter().all(|page| self.pages[*page][0] == tokens)
            }
        }
    }

    /// Ends the turn of a slot with these tokens.
    pub(super) fn end(&mut self, kv: &mut Kv, slot: usize, tokens: &[u32]) {
        if let Some(pieces) = kv.end_pieces(slot) {
            self.write_state(pieces, tokens);
            kv.ended(slot);
        }
        kv.unpin(slot);
    }

    pub(super) fn copy(&mut self, Copied { from, to }: Copied) {
        assert!(self.has_memory(from) && self.has_memory(to));
        self.pages[to] = self.pages[from].clone();
    }

    /// Whether each group has the positions that the next row sees.
    pub(super) fn has(
        &self,
        tables: &[Vec<Option<usize>>],
        layout: &Layout,
        tokens: &[u32],
    ) -> bool {
        tables.iter().enumerate().all(|(group, table)| {
            let is = |at: usize| self.pages[table[at / PAGE]?].get(at % PAGE);
            let first = layout.needed(group, tokens.len()).start * PAGE;
            let first = first.max((tokens.len() + 1).saturating_sub(layout.window(group)));
            (first..tokens.len()).all(|at| is(at).is_some_and(|held| *held == tokens[..=at]))
        })
    }

    pub(super) fn has_memory(&self, page: usize) -> bool {
        !self.pages[page].is_empty()
    }

    /// Releases the chunks that the cache returns, keeping `keep` pages and sequences used after turn `rested`.
    pub(super) fn release_memory(&mut self, kv: &mut Kv, keep: usize, rested: u64) {
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
    pub(super) fn allocate(
        &mut self,
        kv: &mut Kv,
        owner: Option<Owner>,
        positions: usize,
        refused: bool,
    ) {
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
