//! Slots whose turns may lose their recurrent states.

use super::*;

/// A state takes two pages.
fn recurrent() -> Kv {
    Kv::new(2, (40, 1), Reuse::Exact).with_layout(Layout::plain().with_state(2))
}

#[test]
fn a_slot_is_idle_between_two_turns() {
    let mut kv = recurrent();
    assert!(kv.is_idle(0) && kv.is_idle(1));
    let Turn { slot, .. } = turn(&mut kv, A, &tokens(1, 1, 3), 2 * PAGE);
    assert!(!kv.is_idle(slot), "it may run although it is not pinned");
    kv.pin(slot);
    kv.launched(&[slot]);
    kv.unpin(slot);
    assert!(!kv.is_idle(slot) && kv.is_in_flight(slot));
    kv.launched(&[]);
    assert!(kv.is_idle(slot) && !kv.is_in_flight(slot));
    // Its next turn.
    turn(&mut kv, A, &tokens(1, 1, 5), 2 * PAGE);
    assert!(!kv.is_idle(slot));
}

/// Only a stored state serves. The pages for the end of the turn are not shared with a checkpoint.
#[test]
fn a_turn_continues_from_a_stored_state_or_from_its_own_pages() {
    let mut kv = recurrent();
    let prompt = tokens(1, 2, 20);
    let Turn { slot, .. } = kv
        .begin(A, 0, Wanted::without_answers(&prompt), 4 * PAGE)
        .expect("there is room");
    kv.pin(slot);
    assert_eq!(kv.state_after(slot, 0), Some(StateStart::Empty));
    kv.extend(&prompt[..2 * PAGE]);
    assert_eq!(kv.state_after(slot, 2 * PAGE), None);
    let due = kv.due_pieces(slot).expect("a checkpoint").to_vec();
    kv.checkpointed(slot);
    let stored = Some(StateStart::Pieces(due.clone()));
    assert_eq!(kv.state_after(slot, 2 * PAGE), stored);
    kv.extend(&prompt[2 * PAGE..]);
    kv.push_to(slot, 7);
    assert_eq!(kv.state_after(slot, prompt.len() + 1), None);
    let own = kv.pieces_of_turn(slot).to_vec();
    assert_eq!(own.len(), 2);
    assert!(own.iter().all(|page| !due.contains(page)));
    assert_eq!(kv.end_pieces(slot), Some(&own[..]));
    kv.ended(slot);
    assert_eq!(kv.pieces_of_turn(slot), &[0_usize; 0][..]);
    let stored = Some(StateStart::Pieces(own));
    assert_eq!(kv.state_after(slot, prompt.len() + 1), stored);
}
