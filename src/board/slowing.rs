//! What slows decoding down: heat, the supply, or a power mode. It judges states of the board, in the order of their times.

use std::time::{Duration, Instant};

use super::clocks::Clock;
use super::state::BoardState;
use super::throttling::ThrottleCounts;

/// How far a hot board must cool down.
const HYSTERESIS: f64 = 5.0;
/// How long a cause must be gone until it counts as over. Heat and weak supplies throttle many times a minute.
const QUIET: Duration = Duration::from_secs(30);

/// Why decoding slows down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A zone of a processor has reached `heat.celsius`.
    Limit,
    /// The board lowers its clocks because of heat.
    Heat,
    /// The board lowers its clocks because of its supply.
    Supply,
    /// The clock of the processor that computes may not reach its highest speed.
    Clock,
}

impl Cause {
    pub const ALL: [Self; 4] = [Self::Limit, Self::Heat, Self::Supply, Self::Clock];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limit => "heat.celsius",
            Self::Heat => "heat",
            Self::Supply => "supply",
            Self::Clock => "clock",
        }
    }

    /// Returns how long it must be gone until it counts as over.
    const fn quiet(self) -> Duration {
        match self {
            // It has a hysteresis.
            Self::Limit => Duration::ZERO,
            _ => QUIET,
        }
    }
}

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    Cpu,
    Gpu,
}

impl Processor {
    const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
        }
    }
}

/// What to do on a hot board.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The temperature from which the board is hot; `None` if it never is.
    pub celsius: Option<u32>,
    /// The most rows of a step on a hot board.
    pub rows: usize,
}

/// A change for people.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Decoding slows down.
    Begins { cause: Cause, detail: String },
    /// The cause is over, after this time.
    Ends { cause: Cause, after: Duration },
}

/// A cause that has begun and is not over.
#[derive(Clone, Copy, Debug)]
struct Active {
    since: Instant,
    /// When it was last seen.
    seen: Instant,
}

/// Follows the states of a board.
#[derive(Debug, Default)]
pub struct Slowing {
    is_hot: bool,
    /// The last counts.
    counts: Option<ThrottleCounts>,
    active: [Option<Active>; Cause::ALL.len()],
}

impl Slowing {
    /// Follows a state. `generated` says that tokens were generated since the state before it: a cause begins only then.
    /// Returns what has changed; each cause begins once until it is over.
    pub fn follow(
        &mut self,
        state: &BoardState,
        rules: Rules,
        computes: Processor,
        generated: bool,
        now: Instant,
    ) -> Vec<Change> {
        self.is_hot = is_hot(state, rules, self.is_hot);
        let counts = std::mem::replace(&mut self.counts, state.throttling);
        let seen = [
            self.limit(state, rules),
            heat(state),
            supply(counts, state.throttling).filter(|_| generated),
            clock(state, computes),
        ];
        let mut changes = Vec::new();
        for ((cause, active), seen) in Cause::ALL.into_iter().zip(&mut self.active).zip(seen) {
            match (active.as_mut(), seen) {
                (None, Some(detail)) if generated => {
                    *active = Some(Active {
                        since: now,
                        seen: now,
                    });
                    changes.push(Change::Begins { cause, detail });
                }
                (Some(active), Some(_)) => active.seen = now,
                (Some(begun), None) if now.duration_since(begun.seen) >= cause.quiet() => {
                    let after = now.duration_since(begun.since);
                    *active = None;
                    changes.push(Change::Ends { cause, after });
                }
                _ => {}
            }
        }
        changes
    }

    /// Whether a zone of a processor has reached the temperature of the rules, and has not cooled down since.
    #[must_use]
    pub fn is_hot(&self) -> bool {
        self.is_hot
    }

    /// Returns the causes that have begun and are not over.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        let all = Cause::ALL.into_iter().zip(&self.active);
        all.filter_map(|(cause, active)| active.map(|_| cause))
            .collect()
    }

    fn limit(&self, state: &BoardState, rules: Rules) -> Option<String> {
        let (hottest, limit) = state.hottest().zip(rules.celsius)?;
        let (name, celsius, rows) = (&hottest.name, hottest.celsius, rules.rows);
        self.is_hot.then(|| {
            format!("{name} is at {celsius:.0} C, and heat.celsius is {limit}: a step has {rows} rows at most")
        })
    }
}

fn is_hot(state: &BoardState, rules: Rules, before: bool) -> bool {
    let Some((hottest, limit)) = state.hottest().zip(rules.celsius) else {
        return false;
    };
    let limit = f64::from(limit) - if before { HYSTERESIS } else { 0.0 };
    hottest.celsius >= limit
}

fn heat(state: &BoardState) -> Option<String> {
    let alerts = Some(state.alerts.join(", ")).filter(|alerts| !alerts.is_empty())?;
    Some(format!("the board is slowed down by heat ({alerts})"))
}

fn supply(before: Option<ThrottleCounts>, now: Option<ThrottleCounts>) -> Option<String> {
    let (before, now) = before.zip(now)?;
    let rises = before.named().into_iter().zip(now.named());
    let rises = rises.filter(|((_, before), (_, now))| now > before);
    let rises: Vec<_> = rises
        .map(|((name, before), (_, now))| format!("{name} {}", now - before))
        .collect();
    let rises = Some(rises.join(", ")).filter(|rises| !rises.is_empty())?;
    Some(format!("the supply is too weak ({rises})"))
}

fn clock(state: &BoardState, computes: Processor) -> Option<String> {
    let clock = match computes {
        Processor::Cpu => state.cpu,
        Processor::Gpu => state.gpu,
    };
    let Clock { cap, highest, .. } = clock.filter(Clock::is_capped)?;
    let (cap, highest, name) = (cap / 1_000_000, highest? / 1_000_000, computes.name());
    let mode = state.power_mode.as_ref();
    let mode = mode.map_or_else(String::new, |mode| format!(", in power mode {}", mode.name));
    Some(format!(
        "the clock of the {name} may reach {cap} of {highest} MHz{mode}"
    ))
}
