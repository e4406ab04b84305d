//! Injected failures of driver calls around a decode graph, for tests of the recovery. Without an armed fault, this
//! module changes nothing.

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

/// The way in which a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// The call is not made.
    Before,
    /// The call is made, and reported as failed.
    After,
    /// The stream is synchronized before the call, which breaks a capture.
    Synchronize,
    /// The call is not made, and the device is reported as lost.
    Lost,
}

/// A call that will fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub call: Call,
    /// The number of calls of this kind that succeed first.
    pub skip: u32,
    pub how: How,
}

/// At most one fault, armed by a test or by `graph.debug.refuse_launches`.
#[derive(Debug, Default)]
pub struct Faults {
    next: Cell<Option<Fault>>,
    /// The number of further calls of the kind that will fail.
    again: Cell<u32>,
}

impl Faults {
    pub fn arm(&self, fault: Fault) {
        self.next.set(Some(fault));
        self.again.set(0);
    }

    /// Arms a fault that fails `times` calls in a row; 0 arms none.
    pub fn repeat(&self, fault: Fault, times: u32) {
        self.next.set((times > 0).then_some(fault));
        self.again.set(times.saturating_sub(1));
    }

    /// Disarms the fault; returns whether it was armed and had not failed a call.
    pub fn disarm(&self) -> bool {
        self.next.take().is_some()
    }

    /// Returns how this call must fail, if it must.
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
