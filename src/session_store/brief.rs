//! The counts and times of a session, without its messages.

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A session's file as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Brief {
    pub(super) turns: u32,
    /// Bytes of the whole records.
    pub(super) bytes: u64,
    /// Seconds since 1970.
    pub(super) began: u64,
    /// When the last turn ended; the beginning if there is no turn.
    pub(super) used: u64,
}

/// The fields of an entry that these numbers need.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry {
    Opened {
        user: u32,
        name: String,
        at: u64,
    },
    Options(IgnoredAny),
    Turn {
        at: u64,
        #[serde(default)]
        dropped: u32,
    },
    Appended(IgnoredAny),
    Rewound {
        turns: u32,
    },
}

impl Brief {
    /// Sums up the texts of all entries of a file of this user and name; `None` if they contradict each other.
    pub(super) fn of<'a>(
        mut texts: impl Iterator<Item = &'a [u8]>,
        bytes: u64,
        user: u32,
        name: &str,
    ) -> Option<Self> {
        let Entry::Opened {
            user: of,
            name: named,
            at,
        } = serde_json::from_slice(texts.next()?).ok()?
        else {
            return None;
        };
        let mut brief = Self {
            turns: 0,
            bytes,
            began: at,
            used: at,
        };
        for text in texts {
            match serde_json::from_slice(text).ok()? {
                Entry::Opened { .. } => return None,
                Entry::Options(_) | Entry::Appended(_) => {}
                Entry::Turn { at, dropped } => {
                    brief.turns = brief.turns.checked_sub(dropped)? + 1;
                    brief.used = brief.used.max(at);
                }
                Entry::Rewound { turns } => brief.turns = brief.turns.min(turns),
            }
        }
        (of == user && named == name).then_some(brief)
    }
}
