//! The pool of recurrent states on a device.
//!
//! A conversation on the device has the number of its state, and a prompt that of the spare one that it writes. Kernels
//! find addresses in a table, so recordings do not depend on which conversation has which state.

use std::rc::Rc;

use super::narrow::narrow;
use crate::device::{Arena, Context, Error, MemoryKind, Plan, Region, Stream};
use crate::executor::{StateError, StatePlaces};
use crate::tape::StateInfo;

#[derive(Debug)]
pub(super) struct States {
    /// Owns the memory of all states and of the table.
    _arena: Arena,
    pub(super) info: StateInfo,
    pub(super) places: StatePlaces,
    addresses: Vec<u64>,
    table: u64,
}

impl States {
    /// Plans the table of addresses, then all states.
    pub(super) fn plan(info: StateInfo) -> Result<(Plan, Vec<Region>), Error> {
        let mut plan = Plan::new();
        let all = info.pool.states();
        let mut regions = vec![plan.add(8 * all)?];
        for _ in 0..all {
            regions.push(plan.add(info.bytes_each())?);
        }
        Ok((plan, regions))
    }

    pub(super) fn new(
        context: &Rc<Context>,
        memory: MemoryKind,
        info: StateInfo,
        stream: &mut Stream,
    ) -> Result<Self, Error> {
        let (plan, regions) = Self::plan(info)?;
        let mut arena = Arena::new(context, memory, &plan)?;
        arena.attach(stream)?;
        let (table, states) = (regions[0], &regions[1..]);
        // Memory is written once, so that the driver cannot fail to provide it later.
        for state in states {
            arena.set(*state, 0, stream)?;
        }
        let addresses: Vec<u64> = states
            .iter()
            .map(|state| arena.address(*state))
            .collect::<Result<_, _>>()?;
        let bytes: Vec<u8> = addresses.iter().flat_map(|at| at.to_le_bytes()).collect();
        arena.write(table, &bytes, stream)?;
        Ok(Self {
            table: arena.address(table)?,
            _arena: arena,
            info,
            places: StatePlaces::new(info.pool),
            addresses,
        })
    }

    /// The address of the table of addresses.
    pub(super) fn table(&self) -> u64 {
        self.table
    }

    /// The address of a slot's state.
    ///
    /// # Errors
    /// If the slot has none.
    pub(super) fn of_slot(&self, slot: usize) -> Result<u64, StateError> {
        Ok(self.addresses[self.places.own(slot)?])
    }

    /// The number of a slot's state, as the device has it; `None` if the slot has none.
    pub(super) fn number(&self, slot: usize) -> Option<u32> {
        self.places.own(slot).ok().map(narrow)
    }

    /// Checks that some bytes can hold a checkpoint.
    pub(super) fn fits(&self, given: usize) -> Result<(), StateError> {
        let needed = self.info.checkpoint_bytes();
        if given < needed {
            return Err(StateError::Checkpoint { given, needed });
        }
        Ok(())
    }

    /// Forgets all conversations.
    pub(super) fn clear(&mut self) {
        self.places = StatePlaces::new(self.info.pool);
    }
}
