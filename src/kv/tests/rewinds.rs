//! Rewinds of conversations whose pages have left windows, or that end within an image.

use super::super::*;
use super::held::Held;
use super::{A, tokens};

const WINDOW: usize = 20;
const PAGES: usize = 40;

/// A cache with a ring of two pages, as that of a small model with windows.
fn windows() -> (Kv, Held) {
    let layout = Layout::new(vec![None, Some(WINDOW)], 32);
    assert_eq!(layout.ring(1), Some(2));
    let kv = Kv::new(2, (PAGES, 1), Reuse::Exact).with_layout(layout);
    (kv, Held::new(PAGES, 1))
}

/// A prompt whose first 4 tokens are those of all others.
fn prompt(first: u32, length: usize) -> Vec<u32> {
    let mut prompt = tokens(0, 0, length);
    prompt[4..].fill(first);
    prompt
}

/// Begins a turn of A and runs its prompt. Returns its slot and how many tokens were cached.
fn read(kv: &mut Kv, held: &mut Held, prompt: &[u32]) -> (usize, usize) {
    let wanted = Wanted::without_answers(prompt);
    let turn = kv.begin(A, 0, wanted, prompt.len() + 9);
    let turn = turn.expect("there is room");
    for copy in &turn.copies {
        held.copy(*copy);
    }
    let tables = kv.tables_of(turn.slot);
    let cached = &prompt[..turn.cached];
    assert!(held.has(&tables, &kv.layout, cached), "{turn:?}");
    held.read(kv, turn.slot, prompt, turn.cached);
    (turn.slot, turn.cached)
}

/// After a rewind to a few tokens, the pages of a window that a later position was written to serve none of them, whether the
/// turn has ended or was only begun.
#[test]
fn a_rewind_keeps_no_page_that_was_overwritten() {
    for ends in [true, false] {
        for keep in [0, 4, 70, 200] {
            let (mut kv, mut held) = windows();
            let (slot, _) = read(&mut kv, &mut held, &prompt(1, 300));
            let ring = &kv.tables_of(slot)[1];
            assert_eq!(ring[0], ring[2], "a later position has its page");
            if ends {
                kv.pin(slot);
                kv.unpin(slot);
            }
            assert!(
                kv.rewind(Owner(1), keep)
                    .is_ok_and(|change| change.is_some())
            );
            let (_, cached) = read(&mut kv, &mut held, &prompt(2, 20));
            assert_eq!(cached, 0, "{keep} tokens were kept");
        }
    }
}

/// A conversation is not rewound while a step may still write to its pages. Then it is.
#[test]
fn a_rewind_waits_for_the_step_in_flight() {
    let (mut kv, mut held) = windows();
    let mut said = prompt(1, 300);
    let (slot, _) = read(&mut kv, &mut held, &said);
    kv.pin(slot);
    assert_eq!(kv.rewind(Owner(1), 0), Err(Runs), "its turn runs");
    kv.launched(&[slot]);
    let tables = kv.tables_of(slot);
    kv.unpin(slot);
    assert_eq!(kv.rewind(Owner(1), 0), Err(Runs), "its step is in flight");
    assert_eq!(kv.len_of(slot), said.len());
    said.push(7);
    held.write(&tables, &said, said.len() - 1..said.len());
    kv.push_to(slot, 7);
    kv.launched(&[]);
    assert_eq!(kv.rewind(Owner(1), 0), Ok(Some(Change::Cleared)));
    assert_eq!(read(&mut kv, &mut held, &prompt(2, 20)).1, 0);
}

/// Pages that are being saved when a conversation is rewound are not those of its version.
#[test]
fn a_rewind_changes_the_version_of_saved_pages() {
    let (mut kv, mut held) = windows();
    let (slot, _) = read(&mut kv, &mut held, &prompt(1, 300));
    kv.pin(slot);
    kv.unpin(slot);
    let used = |kv: &Kv| kv.resting(Owner(1)).map(|rests| rests.used);
    let mut versions = vec![used(&kv)];
    assert_eq!(kv.rewind(Owner(1), 0), Ok(Some(Change::Cleared)));
    versions.push(used(&kv));
    let (slot, _) = read(&mut kv, &mut held, &prompt(2, 300));
    kv.pin(slot);
    versions.push(used(&kv));
    kv.unpin(slot);
    versions.push(used(&kv));
    assert_eq!(versions[2], None, "a turn runs");
    let others = versions.iter().collect::<HashSet<_>>();
    assert_eq!(others.len(), versions.len(), "{versions:?}");
}

/// A sequence that has lost a page in the middle of an image ends before the image, because all rows of the image are computed
/// at once.
#[test]
fn a_lost_page_cuts_no_image() {
    let layout = Layout::plain().with_whole_images(true);
    let mut kv = Kv::new(1, (3, 1), Reuse::Fast).with_layout(layout);
    let text = 1..=40;
    let image = FIRST_IMAGE_ROW..FIRST_IMAGE_ROW + 60;
    let prompt: Vec<u32> = text.chain(image).chain(1..=50).collect();
    super::turn(&mut kv, None, &prompt, prompt.len());
    let held = |kv: &Kv| kv.held_of((0, Wanted::without_answers(&prompt)));
    assert_eq!(held(&kv), prompt.len());
    let released = kv.release_memory(1, u64::MAX);
    assert_eq!(released.len(), 2, "a page is left");
    assert_eq!(held(&kv), 40);
}
