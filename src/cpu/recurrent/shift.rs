//! Hidden states at the positions after their own. The last ones of a conversation lie in a ring by position.

use super::group::Group;
use super::states::States;
use crate::executor::StateError;

/// Sets each row of a conversation to the input of the position before, and stores the input in the ring; both are (rows,
/// hidden).
///
/// # Errors
/// If the conversation's slot has no state.
pub(super) fn shift(
    states: &mut States,
    group: &Group,
    input: &[f32],
    out: &mut [f32],
) -> Result<(), StateError> {
    let hidden = states.info.hidden;
    let (first, end) = (group.position, group.end());
    let (own, spare) = states.hidden(group.slot)?;
    let (head, rest) = out.split_at_mut(hidden);
    match first.checked_sub(1) {
        Some(before) => head.copy_from_slice(own.at(before)),
        None => head.fill(0.0),
    }
    rest.copy_from_slice(&input[..input.len() - hidden]);
    let mut rows = (first..end).zip(input.chunks_exact(hidden));
    match spare {
        // The successors of a prompt need its last row.
        Some(spare) => rows
            .next_back()
            .into_iter()
            .for_each(|(at, row)| spare.at_mut(at).copy_from_slice(row)),
        None => rows.for_each(|(at, row)| own.at_mut(at).copy_from_slice(row)),
    }
    Ok(())
}
