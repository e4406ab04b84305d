//! How much each connection, each user and all together may have in work and leave unread.

/// Something that takes memory here or on the bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::bus) struct Load {
    pub(in crate::bus) bytes: usize,
    pub(in crate::bus) descriptors: usize,
}

impl Load {
    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes + more.bytes,
            descriptors: self.descriptors + more.descriptors,
        }
    }

    pub(super) fn minus(self, less: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(less.bytes),
            descriptors: self.descriptors.saturating_sub(less.descriptors),
        }
    }

    pub(super) fn min(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.min(other.bytes),
            descriptors: self.descriptors.min(other.descriptors),
        }
    }

    /// Whether there is no room for `need` beside this; of what is not needed there may be too much.
    pub(super) fn lacks(self, need: Self, limit: Self) -> bool {
        (need.bytes > 0 && self.bytes + need.bytes > limit.bytes)
            || (need.descriptors > 0 && self.descriptors + need.descriptors > limit.descriptors)
    }

    pub(super) fn exceeds(self, limit: Self) -> bool {
        self.bytes > limit.bytes || self.descriptors > limit.descriptors
    }
}

/// What one connection, one user, and all together may have.
pub(super) struct Shares<T> {
    pub(super) connection: T,
    pub(super) user: T,
    pub(super) all: T,
}

/// Bytes of calls that are being dealt with.
pub(super) const WORK: Shares<usize> = Shares {
    connection: 6 << 20,
    user: 12 << 20,
    all: 24 << 20,
};

/// Bytes of calls that a connection may always have in work: a question of how the daemon is must not be refused because
/// others send megabytes.
pub(super) const LITTLE: usize = 16 << 10;

/// What may lie unread on the bus: well below what it takes, and one user's share well below that. Every answer that
/// nobody reads has cost the time of one that somebody waits for, too.
pub(super) const UNREAD: Shares<Load> = Shares {
    connection: Load {
        bytes: 256 << 10,
        descriptors: 4,
    },
    user: Load {
        bytes: 2 << 20,
        descriptors: 16,
    },
    all: Load {
        bytes: 16 << 20,
        descriptors: 48,
    },
};

/// So many times its share one connection may have been sent, until the bus has said how much of it is read.
pub(super) const UNTOLD: usize = 8;

/// While all together have no more unread, a connection that has none may have one beyond its user's share: programs of
/// a robot often run as one user, and one of them that does not read must not stop the others.
pub(super) const FIRST: usize = 32;

/// What an answer about all objects takes at least: about itself alone the manager says as much.
pub(super) const OBJECTS: usize = 32 << 10;

/// What one user's connections may leave unread with such answers: many programs of a robot may be started at once, and each of
/// them ask.
pub(super) const OBJECTS_OF_USER: Load = Load {
    bytes: 4 << 20,
    descriptors: 0,
};

/// More than this of one connection, and the bus is asked how much of it is unread.
pub(super) const UNCERTAIN: Load = Load {
    bytes: 32 << 10,
    descriptors: 2,
};

/// Calls of one connection that have no answer yet; dbus-daemon lets as many wait for one.
pub(super) const CALLS: usize = 128;
