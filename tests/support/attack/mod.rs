//! Attacks by local users, one per file. Each attack runs until it is stopped, and uses only the rights of an ordinary
//! program.
//!
//! The bus is a socket, each connection a `Wire`. A refusal, a closed connection or a delay is a correct reaction and
//! not an error: the attack continues on another connection.

pub(crate) mod calls;
mod fields;
mod floods;
pub(crate) mod fuzz;
mod oversized;
mod prompts;
mod queue;
mod unread;
mod until;

use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use super::wire::Wire;

pub(crate) use fields::{MALFORMED, malformed};
pub(crate) use unread::stop_reading;
pub(crate) use until::Until;

/// The pause of an attack that was refused or has nothing to do.
const PAUSE: Duration = Duration::from_millis(20);

/// The attacker's rights in the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    Stranger,
    Member,
}

pub(crate) struct Attack {
    pub(crate) name: &'static str,
    #[allow(dead_code)] // only programs that change the user need it
    pub(crate) who: Who,
    run: fn(&Path, &Until),
}

const fn by(who: Who, name: &'static str, run: fn(&Path, &Until)) -> Attack {
    Attack { name, who, run }
}

pub(crate) const ATTACKS: &[Attack] = &[
    by(Who::Stranger, "unknown-fields", fields::run),
    by(Who::Member, "unread-descriptors", unread::descriptors),
    by(
        Who::Member,
        "unread-descriptors-many",
        unread::descriptors_many,
    ),
    by(
        Who::Member,
        "unread-descriptors-again",
        unread::descriptors_again,
    ),
    by(Who::Member, "unread-signals", unread::signals),
    by(Who::Member, "oversized", oversized::run),
    by(Who::Member, "unread-history", unread::history),
    by(Who::Member, "refused-prompts", prompts::refused),
    by(Who::Member, "long-answers", queue::long_answers),
    by(Who::Member, "cancelled", queue::cancelled),
    by(Who::Member, "send-close", queue::send_and_close),
    by(Who::Stranger, "unread-introspect", unread::introspect),
    by(Who::Stranger, "unread-ping", unread::ping),
    by(Who::Stranger, "unread-properties", unread::properties),
    by(Who::Stranger, "no-reply", floods::no_reply),
    by(Who::Member, "no-reply-generate", floods::no_reply_generate),
    by(Who::Stranger, "connections", floods::connections),
    by(Who::Member, "sessions", floods::sessions),
    by(Who::Stranger, "fuzz", fuzz::run_until),
];

impl Attack {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ATTACKS.iter().find(|attack| attack.name == name)
    }

    pub(crate) fn run(&self, bus: &Path, until: &Until) {
        (self.run)(bus, until);
    }
}

/// Runs a function on several connections at once until the time is over. A lost connection is replaced.
fn on(
    connections: usize,
    bus: &Path,
    until: &Until,
    each: impl Fn(&mut Wire) -> io::Result<()> + Sync,
) {
    thread::scope(|scope| {
        for _ in 0..connections {
            scope.spawn(|| {
                while !until.is_over() {
                    let done = Wire::connect(bus).and_then(|mut wire| each(&mut wire));
                    if done.is_err() {
                        thread::sleep(PAUSE);
                    }
                }
            });
        }
    });
}
