//! The recurrent states of all conversations: a pool of states, and the state of each slot.

use super::columns::replay;
use super::layer::Layer;
use super::ring::Ring;
use crate::executor::{StateError, StatePlaces};
use crate::tape::StateInfo;

/// The states of all slots, and spare ones.
#[derive(Debug)]
pub(in crate::cpu) struct States {
    pub(super) info: StateInfo,
    /// (states, layers)
    pool: Vec<Vec<Layer>>,
    /// (states): (`hidden_states`, hidden), by position. Empty without a head.
    hidden: Vec<Ring>,
    places: StatePlaces,
}

impl States {
    /// Allocates all states. Each starts at position 0 with zeros.
    pub(in crate::cpu) fn new(info: StateInfo) -> Self {
        Self {
            info,
            pool: (0..info.pool.states()).map(|_| layers(info)).collect(),
            hidden: (0..info.pool.states())
                .map(|_| Ring::new(StateInfo::hidden_states(), info.hidden))
                .collect(),
            places: StatePlaces::new(info.pool),
        }
    }

    pub(in crate::cpu) fn info(&self) -> StateInfo {
        self.info
    }

    /// A layer of the state of a slot.
    ///
    /// # Errors
    /// If the slot has none.
    pub(super) fn layer(&mut self, slot: usize, layer: usize) -> Result<&mut Layer, StateError> {
        Ok(&mut self.pool[self.places.own(slot)?][layer])
    }

    /// A layer of the state of a slot, and of the spare state that its prompt writes, if it has a prompt.
    ///
    /// # Errors
    /// If the slot has no state.
    pub(super) fn layers(
        &mut self,
        slot: usize,
        layer: usize,
    ) -> Result<(&Layer, Option<&mut Layer>), StateError> {
        let own = self.places.own(slot)?;
        let Some((spare, _)) = self.places.written(slot) else {
            return Ok((&self.pool[own][layer], None));
        };
        // They are two states of the pool.
        let (low, high) = self.pool.split_at_mut(own.max(spare));
        let (low, high) = (&mut low[own.min(spare)][layer], &mut high[0][layer]);
        Ok(if own < spare {
            (low, Some(high))
        } else {
            (high, Some(low))
        })
    }

    /// The hidden states of a slot, and those of the spare state that its prompt writes, if it has a prompt.
    ///
    /// # Errors
    /// If the slot has no state.
    pub(super) fn hidden(
        &mut self,
        slot: usize,
    ) -> Result<(&mut Ring, Option<&mut Ring>), StateError> {
        let own = self.places.own(slot)?;
        let Some((spare, _)) = self.places.written(slot) else {
            return Ok((&mut self.hidden[own], None));
        };
        // They are two states of the pool.
        let (low, high) = self.hidden.split_at_mut(own.max(spare));
        let (low, high) = (&mut low[own.min(spare)], &mut high[0]);
        Ok(if own < spare {
            (low, Some(high))
        } else {
            (high, Some(low))
        })
    }

    /// The states by number.
    pub(in crate::cpu) fn places(&self) -> &StatePlaces {
        &self.places
    }

    pub(in crate::cpu) fn places_mut(&mut self) -> &mut StatePlaces {
        &mut self.places
    }

    /// Replays the pending updates of a slot up to `position` in all layers.
    ///
    /// # Errors
    /// If the slot has no state, or it has passed the position, or lacks updates before it.
    pub(in crate::cpu) fn commit(
        &mut self,
        slot: usize,
        position: usize,
    ) -> Result<(), StateError> {
        let heads = self.info.heads;
        (self.pool[self.places.own(slot)?].iter_mut())
            .try_for_each(|layer| replay(layer, heads, position))
    }

    /// Appends a checkpoint of a slot's state: its position as u64, then for each layer the state and the last
    /// `taps - 1` inputs of the convolution, the oldest first, then the last hidden state. All numbers are little-endian.
    ///
    /// # Errors
    /// As `commit`, which runs first.
    pub(in crate::cpu) fn read(
        &mut self,
        slot: usize,
        position: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), StateError> {
        self.commit(slot, position)?;
        let history = self.info.taps - 1;
        out.extend((position as u64).to_le_bytes());
        for layer in &self.pool[self.places.own(slot)?] {
            let mut put = |values: &[f32]| {
                out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            };
            put(&layer.heads);
            for back in (1..=history).rev() {
                match position.checked_sub(back) {
                    Some(at) => put(layer.columns.at(at)),
                    None => put(&vec![0.0; self.info.channels]),
                }
            }
        }
        let none = vec![0.0; self.info.hidden];
        let hidden = &self.hidden[self.places.own(slot)?];
        let last = position
            .checked_sub(1)
            .map_or(&none[..], |at| hidden.at(at));
        out.extend(last.iter().flat_map(|value| value.to_le_bytes()));
        Ok(())
    }

    /// Replaces the state of a slot by a checkpoint that `read` made. Returns its position.
    ///
    /// # Errors
    /// If the slot has no state, or the checkpoint has another length than `StateInfo::checkpoint_bytes`.
    pub(in crate::cpu) fn write(&mut self, slot: usize, bytes: &[u8]) -> Result<usize, StateError> {
        let (given, needed) = (bytes.len(), self.info.checkpoint_bytes());
        let wrong = StateError::Checkpoint { given, needed };
        let (position, mut rest) = bytes.split_first_chunk().ok_or(wrong)?;
        if given != needed {
            return Err(wrong);
        }
        self.places.discard(slot);
        let position = usize::try_from(u64::from_le_bytes(*position)).map_err(|_| wrong)?;
        let history = self.info.taps - 1;
        let mut take = |values: &mut [f32]| {
            let (own, others) = rest.split_at(4 * values.len());
            for (value, bytes) in values.iter_mut().zip(own.as_chunks().0) {
                *value = f32::from_le_bytes(*bytes);
            }
            rest = others;
        };
        let own = self.places.own(slot)?;
        for layer in &mut self.pool[own] {
            take(&mut layer.heads);
            layer.position = position;
            for back in (1..=history).rev() {
                match position.checked_sub(back) {
                    Some(at) => take(layer.columns.at_mut(at)),
                    None => take(&mut vec![0.0; self.info.channels]),
                }
            }
        }
        if let Some(at) = position.checked_sub(1) {
            take(self.hidden[own].at_mut(at));
        }
        Ok(position)
    }
}

/// The layers of a state. Each is allocated by itself, so that the system provides its memory on first write: a clone would
/// write its zeros.
fn layers(info: StateInfo) -> Vec<Layer> {
    (0..info.layers).map(|_| Layer::new(info)).collect()
}
