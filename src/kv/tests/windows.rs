//! The pages of layers that see a window.

use std::ops::Range;

use super::super::*;
use super::{A, tokens, turn};

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
