//! Limits of pending calls and of unread answers: for each connection, for each user, and for all together.

/// A use of resources of the daemon or of the bus.
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

    /// Whether adding `need` exceeds `limit`. A resource that is not needed does not count, even if it exceeds.
    pub(super) fn lacks(self, need: Self, limit: Self) -> bool {
        (need.bytes > 0 && self.bytes + need.bytes > limit.bytes)
            || (need.descriptors > 0 && self.descriptors + need.descriptors > limit.descriptors)
    }

    pub(super) fn exceeds(self, limit: Self) -> bool {
        self.bytes > limit.bytes || self.descriptors > limit.descriptors
    }
}

/// Limits of one connection, of one user, and of all together.
pub(super) struct Shares<T> {
    pub(super) connection: T,
    pub(super) user: T,
    pub(super) all: T,
}

/// Bytes of pending calls.
pub(super) const WORK: Shares<usize> = Shares {
    connection: 6 << 20,
    user: 12 << 20,
    all: 24 << 20,
};

/// Descriptors of one call: the daemon's copies are open until it is answered.
pub(super) const DESCRIPTORS: usize = 32;

/// Bytes that a descriptor of a pending call counts for. So all users together have less than 400 open.
pub(super) const DESCRIPTOR: usize = 64 << 10;

/// Bytes of pending calls that a connection may always have: a call for the daemon's state must not be refused because other
/// connections send megabytes.
pub(super) const ALWAYS_ALLOWED: usize = 16 << 10;

/// Unread answers on the bus: the limit of all is well below the bus's own, and the share of one user well below that.
/// Computing an answer that stays unread also delays other answers.
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

/// The multiple of its share that one connection may be sent before the bus has reported how much it has read.
pub(super) const UNCONFIRMED_SHARES: usize = 8;

/// Up to this number of descriptors of all, a connection with none may have one beyond its user's share. Programs of a robot
/// often run as one user, and a program that does not read must not stop the others.
pub(super) const FIRST_DESCRIPTORS: usize = 32;

/// The least bytes of an answer that lists all objects: the introspection of the manager alone has as many.
pub(super) const OBJECTS: usize = 32 << 10;

/// The limit of one user for unread answers that list all objects: many programs of a robot may start at once, and each
/// introspect.
pub(super) const OBJECTS_OF_USER: Load = Load {
    bytes: 4 << 20,
    descriptors: 0,
};

/// Above this load of one connection, the bus is queried about how much of it is unread.
pub(super) const UNCERTAIN: Load = Load {
    bytes: 32 << 10,
    descriptors: 2,
};

/// Pending calls of one connection; dbus-daemon has the same limit.
pub(super) const CALLS: usize = 128;
