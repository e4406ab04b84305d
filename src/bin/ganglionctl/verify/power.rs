//! Watches the power mode and what throttles while the checks run.

use std::path::Path;

use ganglion::board::{BoardState, Sensors};

use super::checks::POWER;
use super::found::Results;

/// The board at the beginning.
pub(super) struct Watch {
    sensors: Sensors,
    before: BoardState,
}

impl Watch {
    pub(super) fn begin() -> Self {
        let sensors = Sensors::find(Path::new("/"));
        let before = sensors.read();
        Self { sensors, before }
    }

    /// Compares the board with its state at the beginning.
    pub(super) fn end(self, results: &mut Results) {
        let now = self.sensors.read();
        match judge(&self.before, &now) {
            Err(why) => results.not_run(POWER, why),
            Ok((passed, observed)) => results.judge(POWER, passed, observed),
        }
    }
}

/// Returns whether nothing has changed, and what was seen, or the reason why that is unknown.
fn judge(before: &BoardState, now: &BoardState) -> Result<(bool, String), &'static str> {
    if now.power_mode.is_none() && now.throttling.is_none() {
        return Err("this machine shows neither power modes nor throttling");
    }
    let name = |state: &BoardState| {
        let mode = state.power_mode.as_ref();
        mode.map_or("unknown".to_owned(), |mode| mode.name.clone())
    };
    let (was, is) = (name(before), name(now));
    let mut seen = vec![if was == is {
        is.clone()
    } else {
        format!("{was}, then {is}")
    }];
    let mut passed = was == is && now.alerts.is_empty();
    seen.extend(now.alerts.iter().cloned());
    let counts = |state: &BoardState| state.throttling.unwrap_or_default().named();
    for ((kind, before), (_, after)) in counts(before).into_iter().zip(counts(now)) {
        let more = after.saturating_sub(before);
        if more > 0 {
            passed = false;
            seen.push(format!("{kind} {more} times"));
        }
    }
    if let Some(zone) = now.hottest() {
        seen.push(format!("{} at {:.0} C", zone.name, zone.celsius));
    }
    Ok((passed, seen.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ganglion::board::{PowerMode, ThrottleCounts};

    fn state(mode: &str, under_voltage: u64) -> BoardState {
        let name = mode.to_owned();
        BoardState {
            power_mode: Some(PowerMode { id: 0, name }),
            throttling: Some(ThrottleCounts {
                under_voltage,
                ..ThrottleCounts::default()
            }),
            ..BoardState::default()
        }
    }

    #[test]
    fn a_changed_mode_or_a_weak_supply_fails_and_a_pc_does_not_run() {
        let before = state("MAXN", 3);
        let passed = |now| judge(&before, &now).map(|(passed, _)| passed);
        assert_eq!(passed(state("MAXN", 3)), Ok(true));
        assert_eq!(passed(state("15W", 3)), Ok(false));
        assert_eq!(passed(state("MAXN", 4)), Ok(false));
        let pc = BoardState::default();
        assert!(judge(&pc, &pc).is_err());
    }
}
