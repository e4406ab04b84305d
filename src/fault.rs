//! Failures on purpose: a call on the way of a decode graph that is refused, so that tests can see what follows.
//!
//! Nothing here fails by itself: without an armed fault every call is made and believed.

use std::cell::Cell;

/// The driver calls that record and replay a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    BeginCapture,
    Launch,
    EndCapture,
    Instantiate,
    SetKernel,
    Update,
    Upload,
    GraphLaunch,
}

impl Call {
    pub const ALL: [Self; 8] = [
        Self::BeginCapture,
        Self::Launch,
        Self::EndCapture,
        Self::Instantiate,
        Self::SetKernel,
        Self::Update,
        Self::Upload,
        Self::GraphLaunch,
    ];
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// It is not made.
    Before,
    /// It is made, and reported as failed all the same.
    After,
    /// The stream is synchronised first, which a capture does not survive; the call is then made.
    Synchronize,
    /// It is not made, and the device is reported as lost.
    Lost,
}

/// One call that will fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub call: Call,
    /// How many calls of the kind succeed before it.
    pub skip: u32,
    pub how: How,
}

/// At most one fault, armed by a test or by `graph.debug.refuse_launches`.
#[derive(Debug, Default)]
pub struct Faults {
    next: Cell<Option<Fault>>,
    /// How often it strikes again after that, each time at the next call of its kind.
    again: Cell<u32>,
}

impl Faults {
    pub fn arm(&self, fault: Fault) {
        self.next.set(Some(fault));
        self.again.set(0);
    }

    /// It strikes `times` calls in a row; none if that is 0.
    pub fn repeat(&self, fault: Fault, times: u32) {
        self.next.set((times > 0).then_some(fault));
        self.again.set(times.saturating_sub(1));
    }

    /// Whether a fault was armed and has not struck.
    pub fn disarm(&self) -> bool {
        self.next.take().is_some()
    }

    /// Asked at each call: how it is to fail, if it is.
    pub(crate) fn strike(&self, call: Call) -> Option<How> {
        let fault = self.next.get().filter(|fault| fault.call == call)?;
        let again = self.again.get();
        self.next.set(match fault.skip {
            0 if again == 0 => None,
            0 => Some(fault),
            skip => Some(Fault {
                skip: skip - 1,
                ..fault
            }),
        });
        if fault.skip > 0 {
            return None;
        }
        self.again.set(again.saturating_sub(1));
        Some(fault.how)
    }
}
