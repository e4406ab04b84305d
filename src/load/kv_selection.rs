//! Selects the types of the key-value cache. Keys with outliers lose much precision in q8_0.
//!
//! Only the model's output shows that loss. So a built-in text is scored with keys of both types before the cache is allocated.

use std::time::{Duration, Instant};

use super::error::LoadError;
use super::kv_choice::KvChoices;
use super::settings::Settings;
use crate::executor::{ExecuteError, Executor};
use crate::kv::{KvType, KvTypes, PAGE};
use crate::model::Checkpoint;
use crate::model::forward::Forward;
use crate::runner::{KEY_BOUND, KeyReason, KvSelection, RunError, log_sum_exp};
use crate::sampler::Parameters;
use crate::tape::{Ending, Input, KvInfo};

/// The built-in text.
pub const PROBE: &str = include_str!("probe.txt");
/// The most tokens of the text that are scored.
const PROBE_TOKENS: usize = 2 * PAGE;
/// Rows that run at once. More rows would need much memory for logits.
const PROBE_ROWS: usize = 16;
/// The time after which no more rows run. The other type runs the same rows.
const PROBE_TIME: Duration = Duration::from_secs(3);

/// Returns the selection before anything is measured. The type of K is the one that is used if a measurement forbids q8_0.
#[must_use]
pub fn expected_kv(checkpoint: &Checkpoint, choices: KvChoices) -> KvSelection {
    KvPlan::new(checkpoint, choices, true).selection()
}

/// The plan for the types before the weights are loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KvPlan {
    /// The types that admission counts: of two possible types the larger one.
    pub(crate) types: KvTypes,
    reason: KeyReason,
    biased: bool,
    /// Whether the cache gets q8_0 for K if a measurement allows it.
    may_shrink: bool,
}

impl KvPlan {
    /// `probed` says that there is a text to measure with.
    pub(crate) fn new(checkpoint: &Checkpoint, choices: KvChoices, probed: bool) -> Self {
        let head_dims = checkpoint.shape.stored().map(|(_, of)| of.head_dim);
        let unfit = |head_dim: &usize| !head_dim.is_multiple_of(KvType::Q8_0.granule());
        let head_dim = head_dims.max_by_key(unfit).unwrap_or_default();
        let biased = (checkpoint.tensors.layers.iter())
            .filter_map(|layer| layer.attention()?.k.as_ref())
            .any(|k| k.bias.is_some());
        Self::of(choices, (head_dim, biased), probed)
    }

    /// Returns the plan for settings.
    pub(crate) fn of_settings(checkpoint: &Checkpoint, settings: &Settings) -> Self {
        Self::new(checkpoint, settings.kv_type, !settings.probe.is_empty())
    }

    fn selection(self) -> KvSelection {
        KvSelection {
            types: self.types,
            reason: self.reason,
            biased: self.biased,
            key_delta: None,
        }
    }

    fn of(KvChoices { k, v }: KvChoices, (head_dim, biased): (usize, bool), probed: bool) -> Self {
        let fits = head_dim.is_multiple_of(KvType::Q8_0.granule());
        let number = |other: KvType| match other {
            KvType::Q8_0 => KvType::F16,
            other => other,
        };
        let of_v = v.fixed().unwrap_or(if fits {
            KvType::Q8_0
        } else {
            k.fixed().map_or(KvType::F16, number)
        });
        let (of_k, reason) = match k.fixed() {
            Some(of_k) => (of_k, KeyReason::Configured),
            None if !fits => (number(of_v), KeyReason::HeadWidth),
            None if biased => (number(of_v), KeyReason::Biases),
            None if !probed => (number(of_v), KeyReason::NotMeasured),
            None => (number(of_v), KeyReason::Measured),
        };
        Self {
            types: KvTypes::of(of_k, of_v),
            reason,
            biased,
            may_shrink: reason == KeyReason::Measured,
        }
    }

    /// Whether K has or may get q8_0, so that its loss is measured.
    fn is_measured(self, probe: &[u32]) -> bool {
        (self.may_shrink || self.types.k == KvType::Q8_0) && probe.len() > 1
    }

    /// Returns the cache that an executor is made with: a small one if there is something to measure.
    pub(crate) fn first_cache(self, kv: KvInfo, settings: &Settings) -> KvInfo {
        if self.is_measured(&settings.probe) {
            small(kv, self.reference())
        } else {
            kv
        }
    }

    /// Returns the types that q8_0 for K is compared with.
    fn reference(self) -> KvTypes {
        let k = match self.types {
            KvTypes {
                k: KvType::Q8_0,
                v: KvType::BF16,
            } => KvType::BF16,
            KvTypes {
                k: KvType::Q8_0, ..
            } => KvType::F16,
            KvTypes { k, .. } => k,
        };
        KvTypes::of(k, self.types.v)
    }

    /// Measures on an executor that has `first_cache`, selects the types, and gives the executor and `forward` the cache of these
    /// types. `recache` replaces the executor's cache by an empty one. `alive` is called now and then.
    pub(crate) fn settle<E: Executor>(
        self,
        forward: &mut Forward,
        settings: &Settings,
        executor: &mut E,
        recache: impl Fn(&mut E, KvInfo) -> Result<(), LoadError>,
        alive: &mut dyn FnMut(),
    ) -> Result<KvSelection, LoadError> {
        let mut selection = self.selection();
        if !self.is_measured(&settings.probe) {
            return Ok(selection);
        }
        let reference = self.reference();
        let quantized = KvTypes::of(KvType::Q8_0, reference.v);
        let end = settings.probe.len().min(PROBE_TOKENS);
        let probe = &settings.probe[..end];
        let mut scores = Vec::new();
        for (types, time) in [(reference, Some(PROBE_TIME)), (quantized, None)] {
            let kv = small(forward.kv, types);
            if !scores.is_empty() {
                recache(executor, kv)?;
            }
            let measured = Forward {
                kv,
                ..forward.clone()
            };
            // The second type runs as many rows as the first.
            let most = scores
                .first()
                .map_or(probe.len(), |of: &Vec<f64>| of.len() + 1);
            let rows = PROBE_ROWS.min(settings.prefill_chunk.max(1));
            let run = score(executor, &measured, (&probe[..most], rows), time, alive);
            scores.push(run.map_err(RunError::from)?);
        }
        let delta = mean_delta(&scores[0], &scores[1]);
        selection.key_delta = Some(delta);
        if self.may_shrink && delta <= KEY_BOUND {
            selection.types = quantized;
            forward.kv = retyped(forward.kv, quantized, settings)?;
        }
        recache(executor, forward.kv)?;
        Ok(selection)
    }
}

/// Returns a cache that is large enough for the built-in text.
fn small(kv: KvInfo, types: KvTypes) -> KvInfo {
    let pages = PROBE_TOKENS / PAGE * kv.groups();
    KvInfo {
        context: kv.context.min(PROBE_TOKENS),
        slots: 1,
        pages,
        chunk: pages,
        types,
        ..kv
    }
}

/// Returns the cache with other types: with as many pages as the settings say, but no more memory than was admitted.
fn retyped(kv: KvInfo, types: KvTypes, settings: &Settings) -> Result<KvInfo, LoadError> {
    let wanted = KvInfo { types, ..kv };
    let chunk = (settings.kv_chunk / wanted.page_bytes()).max(1);
    let wanted = settings.kv_memory.of(KvInfo { chunk, ..wanted })?;
    let pages = wanted.pages.min(kv.bytes() / wanted.page_bytes());
    Ok(KvInfo { pages, ..wanted })
}

/// Returns the log probability of each token except the first, in chunks of `rows` tokens, until `time` is over.
fn score(
    executor: &mut dyn Executor,
    forward: &Forward,
    (probe, rows): (&[u32], usize),
    time: Option<Duration>,
    alive: &mut dyn FnMut(),
) -> Result<Vec<f64>, ExecuteError> {
    let begun = Instant::now();
    let mut scores = Vec::new();
    executor.begin((0, 0), Parameters::default(), &[])?;
    let probe = &probe[..probe.len().min(forward.kv.context)];
    let mut read = 0;
    while read + 1 < probe.len() {
        let chunk = &probe[read..probe.len().min(read + rows)];
        let tape = forward.tape(chunk.len(), Input::Prompt, Ending::Logits);
        executor.prepare(&tape)?;
        executor.run(&tape, chunk)?;
        for row in 0..chunk.len() {
            let logits = executor.logits(&tape, row);
            let next = probe.get(read + row + 1);
            let logit = next.and_then(|next| logits.get(*next as usize));
            scores.extend(logit.map(|logit| f64::from(*logit) - log_sum_exp(logits)));
        }
        read += chunk.len();
        alive();
        if time.is_some_and(|time| begun.elapsed() > time) {
            break;
        }
    }
    Ok(scores)
}

#[allow(clippy::cast_precision_loss)] // counts of tokens
fn mean_delta(ours: &[f64], theirs: &[f64]) -> f64 {
    let pairs = ours.iter().zip(theirs);
    let count = pairs.len().max(1) as f64;
    pairs.map(|(a, b)| (a - b).abs()).sum::<f64>() / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::kv_choice::KvChoice;

    fn planned(k: KvChoice, v: KvChoice, biased: bool) -> (KvTypes, bool) {
        let plan = KvPlan::of(KvChoices { k, v }, (128, biased), true);
        (plan.types, plan.is_measured(&[1, 2]))
    }

    #[test]
    fn a_model_with_biases_keeps_its_keys_in_f16() {
        let mixed = KvTypes::of(KvType::F16, KvType::Q8_0);
        let auto = KvChoice::Auto;
        assert_eq!(planned(auto, auto, true), (mixed, false));
        assert_eq!(planned(auto, auto, false), (mixed, true));
        assert_eq!(planned(KvChoice::F16, auto, false), (mixed, false));
        let q8_0 = KvType::Q8_0.into();
        assert_eq!(planned(KvChoice::Q8_0, auto, true), (q8_0, true));
    }

    #[test]
    fn auto_follows_the_other_side_and_the_width_of_heads() {
        let auto = KvChoice::Auto;
        let bf16 = KvType::BF16.into();
        assert_eq!(planned(auto, KvChoice::BF16, true), (bf16, false));
        let narrow = |k, v| KvPlan::of(KvChoices { k, v }, (24, false), true).types;
        assert_eq!(narrow(auto, auto), KvType::F16.into());
        assert_eq!(narrow(KvChoice::BF16, auto), bf16);
    }

    #[test]
    fn harm_is_what_exceeds_the_bound() {
        let selection = |k: KvType, delta| KvSelection {
            types: KvTypes::of(k, KvType::Q8_0),
            reason: KeyReason::Configured,
            biased: false,
            key_delta: Some(delta),
        };
        assert_eq!(selection(KvType::Q8_0, 0.123).harm(), Some(0.123));
        assert_eq!(selection(KvType::Q8_0, KEY_BOUND).harm(), None);
        assert_eq!(selection(KvType::F16, 0.123).harm(), None);
        assert!(selection(KvType::Q8_0, f64::NAN).harm().is_some());
    }
}
