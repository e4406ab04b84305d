//! The plan of a model: what a step computes, which weights it needs, and the size of the cache.

use super::assistant::OpenAssistant;
use super::error::LoadError;
use super::head::Head;
use super::kv_selection::KvPlan;
use super::settings::Settings;
use super::stored_weights::StoredTensor;
use crate::executor::PREEMPTED;
use crate::model::forward::{Assistant, Forward, Guesser};
use crate::model::shape::LayerShape;
use crate::model::{Checkpoint, GuessHead, Shape, Tensor, weights};
use crate::quant::DType;
use crate::tape::{KvInfo, STEP_ROWS, StatePool, WeightId, WeightInfo};

/// Slots of the cache for each row of a step: as many sessions can be idle as are answered.
const SLOTS_PER_ROW: usize = 2;
/// The positions that a step and the step ahead of it write at most.
const RUN_OF_STEPS: usize = 2 * STEP_ROWS;

/// Returns what a step computes, and the tensors in the order of their weight ids. An assistant guesses in place of
/// the model's own head.
pub(crate) fn plan<'a>(
    checkpoint: &'a Checkpoint,
    assistant: Option<&'a OpenAssistant>,
    settings: &Settings,
) -> Result<(Forward, Vec<StoredTensor<'a>>), LoadError> {
    let head = match assistant {
        Some(_) => None,
        None => head_of(checkpoint, settings)?,
    };
    let mut shape = Shape {
        guess: head.map(|(layer, _)| *layer),
        ..checkpoint.shape.clone()
    };
    let fitted = assistant.map(|assistant| fit(assistant, checkpoint, &mut shape));
    let fitted = fitted.transpose()?;
    let context = match settings.context {
        0 => shape.context,
        context if settings.shortens => context.min(shape.context),
        context => context,
    };
    if context > shape.context {
        return Err(LoadError::Context {
            asked: context,
            trained: shape.context,
        });
    }
    shape.rotate_within(context);
    settings.kv_type.check()?;
    let types = KvPlan::of_settings(checkpoint, settings).types;
    let granule = types.granule();
    let unfit = |head_dim: &usize| !head_dim.is_multiple_of(granule);
    let head_dim = shape.stored().map(|(_, of)| of.head_dim).find(unfit);
    if let Some(head_dim) = head_dim {
        return Err(LoadError::KvType {
            name: types.name(),
            granule,
            head_dim,
        });
    }
    let rows = settings.rows.clamp(1, STEP_ROWS);
    let slots = SLOTS_PER_ROW * rows;
    let state = shape.state(states(rows, slots));
    let kv = KvInfo {
        kinds: shape.kv_kinds(),
        context,
        slots,
        pages: 0,
        chunk: 1,
        types,
        run: settings.prefill_chunk.max(RUN_OF_STEPS),
        state_bytes: state.map_or(0, |state| state.checkpoint_bytes()),
    };
    let chunk = (settings.kv_chunk / kv.page_bytes()).max(1);
    let kv = settings.kv_memory.of(KvInfo { chunk, ..kv })?;
    let mut tensors = Vec::new();
    let mut numbered = |tensor: &'a Tensor| {
        tensors.push(StoredTensor {
            checkpoint,
            tensor,
            other_files: 0,
        });
        Ok::<_, LoadError>(WeightId(tensors.len() - 1))
    };
    let weights = checkpoint.tensors.try_map(&mut numbered)?;
    let head = head.map(|(_, head)| head.try_map(&mut numbered));
    let mut guess = head.transpose()?.map(|head| Guesser::Head(Box::new(head)));
    if let (Some(assistant), Some(shape)) = (assistant, fitted) {
        let other_files = checkpoint.file_count();
        guess = Some(guesser(assistant, shape, other_files, &mut tensors)?);
    }
    let forward = Forward {
        shape,
        weights,
        guess,
        infos: tensors.iter().map(|one| info(one.tensor)).collect(),
        activation: DType::F32,
        kv,
        state,
    };
    Ok((forward, tensors))
}

/// The layer of a head, and its tensors.
type HeadTensors = (LayerShape, GuessHead<Tensor>);

/// Returns the model's own head, if the settings ask for it.
fn head_of<'a>(
    checkpoint: &'a Checkpoint,
    settings: &Settings,
) -> Result<Option<&'a HeadTensors>, LoadError> {
    Ok(match (settings.head, &checkpoint.guess) {
        (Head::Off, _) | (Head::IfPresent, Ok(None) | Err(_)) => None,
        (Head::IfPresent | Head::Required, Ok(Some(head))) => Some(head),
        (Head::Required, Ok(None)) => {
            return Err(LoadError::NoHead {
                model: checkpoint.path().to_owned(),
            });
        }
        (Head::Required, Err(defect)) => {
            return Err(LoadError::Head {
                model: checkpoint.path().to_owned(),
                defect: defect.to_string(),
            });
        }
    })
}

/// Returns the shape of an assistant whose layers read the cache of a model with a shape.
fn fit(
    OpenAssistant { path, files, .. }: &OpenAssistant,
    checkpoint: &Checkpoint,
    shape: &mut Shape,
) -> Result<Shape, LoadError> {
    let fitted = shape.fit_assistant(&files.checkpoint.shape, files.model_hidden);
    fitted.map_err(|mismatch| LoadError::Assistant {
        model: checkpoint.path().to_owned(),
        draft: path.clone(),
        mismatch,
    })
}

/// Returns an assistant of a shape, and adds its tensors to those of its model.
fn guesser<'a>(
    OpenAssistant { files, .. }: &'a OpenAssistant,
    shape: Shape,
    other_files: usize,
    tensors: &mut Vec<StoredTensor<'a>>,
) -> Result<Guesser, LoadError> {
    let mut numbered = |tensor: &'a Tensor| {
        tensors.push(StoredTensor {
            checkpoint: &files.checkpoint,
            tensor,
            other_files,
        });
        Ok::<_, LoadError>(WeightId(tensors.len() - 1))
    };
    let weights = weights::Assistant {
        join: numbered(&files.join)?,
        weights: files.checkpoint.tensors.try_map(&mut numbered)?,
        hidden: numbered(&files.hidden)?,
    };
    let assistant = Assistant { shape, weights };
    Ok(Guesser::Assistant(Box::new(assistant)))
}

/// Returns the number of recurrent states for a number of rows.
///
/// A conversation between two turns needs no state: the next turn begins from a checkpoint. A turn that waits for a row
/// needs none either, because it can be stored in pages, unless its prompt is in progress. So slots have as many states as
/// there are rows, and those of preempted prompts. As long as no prompt is preempted, these serve turns that begin before a
/// step has ended that was launched for an earlier turn. The running prompt and each preempted one write a spare state.
fn states(rows: usize, slots: usize) -> StatePool {
    StatePool {
        slots,
        owned: (rows + PREEMPTED).min(slots),
        spares: (1 + PREEMPTED).min(slots),
    }
}

/// Sets the most positions that a run writes, and the pages that conversations then need. The rows of a prompt depend on
/// the device.
pub(crate) fn settle_run(forward: &mut Forward, settings: &Settings) -> Result<(), LoadError> {
    let run = settings.prefill_chunk.max(RUN_OF_STEPS);
    forward.kv = settings.kv_memory.of(KvInfo { run, ..forward.kv })?;
    Ok(())
}

/// Describes a weight to an executor.
fn info(tensor: &Tensor) -> WeightInfo {
    let Tensor {
        name,
        rows,
        columns,
        format,
        ..
    } = tensor;
    WeightInfo {
        name: name.clone(),
        rows: *rows,
        columns: *columns,
        format: *format,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_fewer_states_than_slots_with_many_rows() {
        let states = |rows| states(rows, SLOTS_PER_ROW * rows);
        let all = [1, 2, 4, 8].map(|rows| (states(rows).owned, states(rows).states()));
        assert_eq!(all, [(2, 4), (4, 7), (6, 9), (10, 13)]);
    }
}
