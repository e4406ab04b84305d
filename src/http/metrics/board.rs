//! The figures of the board.

use super::table;
use super::text::Text;
use crate::board::{BoardState, Cause, ThrottleCounts, Watched};

/// Adds all figures of the board. Those that the kernel does not show are absent.
pub(super) fn board(text: &mut Text, state: &BoardState, watched: &Watched) {
    text.begin(&table::TEMPERATURE);
    for zone in &state.zones {
        let labels = [&*zone.number.to_string(), &zone.name];
        text.sample(&table::TEMPERATURE, &labels, zone.celsius);
    }
    text.begin(&table::POWER_MODE);
    if let Some(mode) = &state.power_mode {
        text.sample(&table::POWER_MODE, &[&mode.id.to_string(), &mode.name], 1);
    }
    optional(text, &table::INPUT_POWER, state.watts);
    text.begin(&table::RAIL_POWER);
    for rail in &state.rails {
        text.sample(&table::RAIL_POWER, &[&rail.name], rail.watts);
    }
    optional(text, &table::ENERGY, watched.energy.total());
    text.begin(&table::CLOCK);
    for (name, clock) in [("gpu", state.gpu), ("cpu", state.cpu)] {
        let Some(clock) = clock else { continue };
        let values = [
            ("now", clock.now),
            ("cap", Some(clock.cap)),
            ("highest", clock.highest),
        ];
        for (kind, hertz) in values {
            if let Some(hertz) = hertz {
                text.sample(&table::CLOCK, &[name, kind], hertz);
            }
        }
    }
    text.begin(&table::THROTTLED);
    for (cause, count) in state.throttling.iter().flat_map(ThrottleCounts::named) {
        text.sample(&table::THROTTLED, &[cause], count);
    }
    text.begin(&table::SLOWED);
    let active = watched.causes();
    for cause in Cause::ALL {
        let is_active = u8::from(active.contains(&cause));
        text.sample(&table::SLOWED, &[cause.name()], is_active);
    }
    optional(text, &table::ROW_LIMIT, watched.row_limit());
}

/// Adds a metric with one value, if there is one.
fn optional(text: &mut Text, metric: &table::Metric, value: Option<impl std::fmt::Display>) {
    text.begin(metric);
    if let Some(value) = value {
        text.sample(metric, &[], value);
    }
}
