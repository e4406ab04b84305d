//! Who rests while there are holds: nobody, `background`, or everyone.

use super::Priority;

/// What holds keep off the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Held {
    #[default]
    Nothing,
    Background,
    All,
}

impl Held {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Background => "background",
            Self::All => "all",
        }
    }

    /// Whether a request of such a priority rests.
    pub(super) fn rests(self, priority: Priority) -> bool {
        match self {
            Self::Nothing => false,
            Self::Background => priority == Priority::Background,
            Self::All => true,
        }
    }

    pub(super) const fn of(number: u8) -> Self {
        match number {
            0 => Self::Nothing,
            1 => Self::Background,
            _ => Self::All,
        }
    }
}
