//! What it takes to have positions again, by what has been measured: the disk, or the model.

use std::time::{Duration, Instant};

use crate::kv::Family;

/// A measure that is older says nothing of now: a disk that was busy then would never be asked again.
const FRESH: Duration = Duration::from_secs(600);
/// How much the newest measure counts.
const NEWEST: f64 = 0.5;

/// Seconds that a position takes to be read again, by what makes it; `None` where nobody knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub read: Option<f64>,
    pub said: Option<f64>,
}

impl Cost {
    fn of(&self, families: impl Iterator<Item = Family>) -> Option<f64> {
        let mut all = families.map(|family| match family {
            Family::Prompt => self.read,
            Family::Step => self.said,
        });
        all.try_fold(0.0, |sum, one| Some(sum + one?))
    }
}

/// How fast the disk reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    /// Bytes a second, and when that was measured.
    measured: Option<(f64, Instant)>,
}

impl Rate {
    pub(super) fn measure(&mut self, bytes: u64, took: Duration) {
        #[allow(clippy::cast_precision_loss)] // a rate is no exact number
        let rate = bytes as f64 / took.as_secs_f64().max(1e-9);
        let before = self.fresh();
        let rate = before.map_or(rate, |before| before + NEWEST * (rate - before));
        self.measured = Some((rate, Instant::now()));
    }

    /// Bytes a second, where that is known.
    pub(super) fn fresh(&self) -> Option<f64> {
        let (rate, at) = self.measured?;
        (at.elapsed() < FRESH).then_some(rate)
    }

    /// Whether reading so many bytes is faster than having the model read these positions again; what nobody knows yet is found
    /// out by doing it.
    pub(super) fn pays(
        &self,
        bytes: u64,
        again: &Cost,
        families: impl Iterator<Item = Family>,
    ) -> bool {
        #[allow(clippy::cast_precision_loss)] // as above
        let disk = self.fresh().map(|rate| bytes as f64 / rate);
        match (disk, again.of(families)) {
            (Some(disk), Some(again)) => disk < again,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_to_be_cheaper_is_chosen() {
        let families = || [Family::Prompt, Family::Prompt, Family::Step].into_iter();
        let cost = |read, said| Cost { read, said };
        // Ten seconds by the model.
        let known = cost(Some(1.0), Some(8.0));
        let mut rate = Rate::default();
        assert!(
            rate.pays(1 << 40, &known, families()),
            "nobody knows the disk"
        );
        rate.measure(1000, Duration::from_secs(1));
        assert!(rate.pays(9_999, &known, families()));
        assert!(!rate.pays(10_001, &known, families()));
        // Of the prompt alone.
        assert!(!rate.pays(2_001, &known, families().take(2)));
        assert!(rate.pays(1_999, &cost(Some(1.0), None), families().take(2)));
        assert!(
            rate.pays(1 << 40, &cost(Some(1.0), None), families()),
            "nobody knows what steps take"
        );
        // The newest measure counts most, and not alone.
        rate.measure(2000, Duration::from_secs(1));
        assert_eq!(rate.fresh(), Some(1500.0));
        rate.measured = rate
            .measured
            .and_then(|(rate, at)| Some((rate, at.checked_sub(FRESH)?)));
        assert!(rate.pays(1 << 40, &known, families()), "that was long ago");
    }
}
