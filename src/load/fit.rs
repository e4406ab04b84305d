//! Checks that a model fits the memory of its executor, before anything is allocated.
//!
//! Where the settings leave the size of the cache open, the free memory decides it here.

#[cfg(feature = "cuda")]
use super::admission::Pool;
use super::admission::{Admitted, Budget, MemoryRefusal, greatest};
use super::draft::DraftPlan;
use super::error::LoadError;
use super::kv_memory::KvMemory;
use super::plan::settle_run;
#[cfg(feature = "cuda")]
use super::settings::Placement;
use super::settings::Settings;
use crate::cpu;
#[cfg(feature = "cuda")]
use crate::cuda;
use crate::executor::MemoryEstimate;
use crate::model::forward::Forward;
use crate::tape::{Ending, Input, KvInfo, STEP_ROWS, Tape};

/// Admits a model, with its draft model if it has one, to the system's memory, and returns the memory that it needs.
pub(crate) fn admit_on_cpu(
    forward: &mut Forward,
    settings: &Settings,
    draft: Option<&DraftPlan>,
) -> Result<Admitted, LoadError> {
    settle_run(forward, settings)?;
    let budget = Budget::of_system(settings)?;
    let of_draft = |kv| draft.map_or_else(MemoryEstimate::default, |draft| draft.on_cpu(kv));
    let admitted = admit(&budget, forward, settings, |tapes, kv| {
        let own = cpu::memory_estimate(tapes, settings.threads);
        Some(own.with(settings.tower.on_cpu).with(of_draft(kv)))
    });
    admitted.map_err(|error| with_draft(error, draft, Some(of_draft(forward.kv))))
}

/// Names both models in the refusal of both. A buffer that is too large is one of the model's own.
fn with_draft(
    error: LoadError,
    draft: Option<&DraftPlan>,
    estimate: Option<MemoryEstimate>,
) -> LoadError {
    match (error, draft, estimate) {
        (LoadError::Memory(refusal), Some(draft), Some(estimate)) => {
            let MemoryRefusal::Memory { estimate: both, .. } = &refusal else {
                return LoadError::Memory(refusal);
            };
            let (both, bytes) = (both.bytes(), estimate.bytes());
            LoadError::Memory(MemoryRefusal::WithDraft {
                refusal: Box::new(refusal),
                model: draft.model.clone(),
                model_bytes: both.saturating_sub(bytes),
                draft: draft.path.clone(),
                bytes,
            })
        }
        (error, ..) => error,
    }
}

/// Admits a model to the memory of a GPU. `own` is the free memory of a discrete GPU. An integrated GPU shares the
/// system's memory, and its driver counts the page cache as used, so the system's own figure is used.
#[cfg(feature = "cuda")]
pub(crate) fn admit_on_cuda(
    own: Option<u64>,
    forward: &mut Forward,
    settings: &Settings,
    draft: Option<&DraftPlan>,
) -> Result<Admitted, LoadError> {
    settle_run(forward, settings)?;
    for tape in &tapes(forward, settings) {
        cuda::suits(tape)?;
    }
    if let Some(pass) = forward.guess_tape(2) {
        cuda::suits(&pass)?;
    }
    if let Some(draft) = draft {
        draft.suits_gpu(forward.kv)?;
    }
    let system = || Budget::of_system(settings);
    let budget = match own {
        None => system()?,
        Some(have) => Budget {
            have,
            reserve: settings.reserve,
            pool: Pool::Device,
        },
    };
    let of_draft = |kv| match draft {
        None => Some(MemoryEstimate::default()),
        Some(draft) => draft.on_gpu(kv, own.is_none()),
    };
    let admitted = admit(&budget, forward, settings, |tapes, kv| {
        let of_model = cuda::memory_estimate(tapes, settings.prefill_chunk, own.is_none());
        Some(
            of_model
                .ok()?
                .with(settings.tower.on_gpu?)
                .with(of_draft(kv)?),
        )
    });
    let admitted = admitted.map_err(|error| with_draft(error, draft, of_draft(forward.kv)))?;
    if own.is_some() && settings.cuda.weights == Placement::Unified {
        system()?.admit_passage(admitted.estimate.weights)?;
    }
    Ok(admitted)
}

/// Returns the tapes that decide the memory of activations: the largest prompt, with images if the model sees them, and the
/// largest step.
fn tapes(forward: &Forward, settings: &Settings) -> [Tape; 2] {
    let (rows, chunk) = (settings.rows.clamp(1, STEP_ROWS), settings.prefill_chunk);
    [
        if settings.tower.has_tower() {
            forward.image_tape(chunk, Ending::Token)
        } else {
            forward.tape(chunk, Input::Prompt, Ending::Token)
        },
        forward.tape(rows.next_power_of_two(), Input::Step, Ending::Token),
    ]
}

/// Returns the plan with another cache.
fn with_kv(forward: &Forward, kv: KvInfo) -> Forward {
    Forward {
        kv,
        ..forward.clone()
    }
}

/// Admits a model to `budget`, and sets the number of pages of its cache where the settings leave it open. `estimate`
/// returns the memory that two tapes and what is next to a cache need, or `None` where a buffer would be too large.
fn admit(
    budget: &Budget,
    forward: &mut Forward,
    settings: &Settings,
    estimate: impl Fn(&[&Tape], KvInfo) -> Option<MemoryEstimate>,
) -> Result<Admitted, LoadError> {
    let takes = |kv: KvInfo| {
        let [prompt, step] = tapes(&with_kv(forward, kv), settings);
        estimate(&[&prompt, &step], kv)
    };
    let full = forward.kv;
    let choices = settings.kv_memory.choices(full);
    let kv = choices.map_or(full, |choices| {
        let fits = |pages| {
            let fewer = takes(KvInfo { pages, ..full });
            fewer.is_some_and(|estimate| budget.holds(estimate.bytes()))
        };
        let pages = greatest(choices.end() + 1, fits).max(*choices.start());
        KvInfo { pages, ..full }
    });
    let of_context = |context| {
        let each = KvInfo { context, ..kv }.pages_each();
        let pages = match settings.kv_memory {
            KvMemory::Mebibytes(_) => kv.pages,
            KvMemory::Auto => each.min(kv.pages),
            KvMemory::Conversations(count) => count.max(1) * each,
        };
        let pages = if context == kv.context {
            kv.pages
        } else {
            pages
        };
        takes(KvInfo {
            context,
            pages,
            ..kv
        })
    };
    let admitted = budget.admit(kv.context, of_context)?;
    forward.kv = kv;
    Ok(admitted)
}
