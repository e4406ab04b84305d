//! Encodes the state of the board as a dictionary, `a{sv}`, without what the kernel does not show.

use std::collections::BTreeMap;

use zbus::{Array, OwnedVariant, Str};

use super::proxy::Info;
use crate::board::{BoardState, Clock, ThrottleCounts, Watched};

/// Returns the fields of the board.
pub(super) fn board(state: &BoardState, watched: &Watched) -> Info {
    let mut info = Info::new();
    let mut put = |name: &str, value: Option<OwnedVariant>| {
        info.extend(value.map(|value| (name.to_owned(), value)));
    };
    if let Some(mode) = &state.power_mode {
        put("power_mode", Some(Str::from(&*mode.name).into()));
        put("power_mode_id", Some(mode.id.into()));
    }
    let hottest = state.hottest();
    put("celsius", hottest.map(|zone| zone.celsius.into()));
    // Of zones with one name, the hottest counts.
    let mut zones = BTreeMap::new();
    for zone in &state.zones {
        let known = zones.entry(&*zone.name).or_insert(zone.celsius);
        *known = zone.celsius.max(*known);
    }
    put("temperatures", numbers(zones));
    put("watts", state.watts.map(OwnedVariant::from));
    let rails = state.rails.iter();
    put(
        "rails",
        numbers(rails.map(|rail| (&*rail.name, rail.watts))),
    );
    for (name, clock) in [("gpu", state.gpu), ("cpu", state.cpu)] {
        let Some(Clock { now, cap, highest }) = clock else {
            continue;
        };
        for (what, hertz) in [("now", now), ("cap", Some(cap)), ("highest", highest)] {
            put(&format!("{name}_hertz_{what}"), hertz.map(Into::into));
        }
    }
    for (name, count) in state.throttling.iter().flat_map(ThrottleCounts::named) {
        put(&format!("throttled_{name}"), Some(count.into()));
    }
    put("alerts", list(state.alerts.iter().map(String::as_str)));
    let causes = watched.causes();
    put("slowed_by", list(causes.iter().map(|cause| cause.name())));
    let limit = watched
        .row_limit()
        .and_then(|rows| u32::try_from(rows).ok());
    put("row_limit", limit.map(Into::into));
    info
}

/// Returns a dictionary of numbers; `None` if it is empty.
fn numbers<'a>(entries: impl IntoIterator<Item = (&'a str, f64)>) -> Option<OwnedVariant> {
    let entries = entries.into_iter();
    let entries: Info = entries
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect();
    (!entries.is_empty()).then(|| entries.into())
}

/// Returns a list of texts; `None` if it is empty.
fn list<'a>(texts: impl Iterator<Item = &'a str>) -> Option<OwnedVariant> {
    let texts: Vec<_> = texts.collect();
    // The conversion fails only for descriptors.
    (!texts.is_empty()).then(|| Array::from(texts).try_into().ok())?
}
