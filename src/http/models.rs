//! `/v1/models`: the loaded model, and the names that requests may call it by.

use std::path::Path as File;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Serialize;

use super::error::{Error, LOADING};
use super::shared::Shared;
use crate::engine::{ModelInfo, State as EngineState, Status};
use crate::front::shortened;

/// Names of the loaded model, whichever it is, for programs that have a fixed name.
const ALIASES: [&str; 2] = ["default", "ganglion"];

/// A model as OpenAI describes it.
#[derive(Debug, Serialize)]
pub(super) struct Model {
    id: String,
    object: &'static str,
    /// When its file was last changed, in seconds since 1970; 0 if that is unknown.
    created: u64,
    owned_by: &'static str,
    ganglion: Abilities,
}

/// What a caller may want to know of a model before it asks.
#[derive(Debug, Serialize)]
struct Abilities {
    /// Tokens of a prompt and its answer.
    context: u32,
    parameters: u64,
    quantization: String,
    images: bool,
    tools: bool,
    /// Whether thoughts can be switched.
    thinking: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Models {
    object: &'static str,
    data: [Model; 1],
}

/// Lists the loaded model.
pub(super) async fn list(State(shared): State<Shared>) -> Result<Json<Models>, Error> {
    let status = ready(&shared)?;
    Ok(Json(Models {
        object: "list",
        data: [describe(&status.model).await],
    }))
}

/// Describes one model.
pub(super) async fn one(
    State(shared): State<Shared>,
    Path(model): Path<String>,
) -> Result<Json<Model>, Error> {
    let status = ready(&shared)?;
    check(&status.model, &model)?;
    Ok(Json(describe(&status.model).await))
}

/// Returns the status of an engine that has a model.
///
/// # Errors
/// 503 with the reason, during the first load, after a failed one, and while the daemon stops.
pub(super) fn ready(shared: &Shared) -> Result<Arc<Status>, Error> {
    let status = shared.front.engine().status().borrow();
    let detail = match &*status.detail {
        "" => String::new(),
        detail => format!(": {detail}"),
    };
    let (text, retry_after) = match status.state {
        EngineState::Ready | EngineState::Idle => return Ok(status),
        // It is loaded again, and requests wait for it.
        EngineState::Loading if shared.front.engine().knows_model() => return Ok(status),
        EngineState::Loading => {
            let text = format!("the model is still loading{detail}; try again when it has loaded");
            (text, Some(LOADING))
        }
        EngineState::Failed => {
            let again = status.passes.then_some(LOADING);
            (format!("the model could not be loaded{detail}"), again)
        }
        EngineState::Stopping => {
            let text = "the daemon is stopping; try again when it has started".to_owned();
            (text, None)
        }
    };
    Err(Error {
        retry_after,
        ..Error::unavailable("not_ready", text)
    })
}

/// Refuses a name that is not one of the loaded model.
pub(super) fn check(model: &ModelInfo, asked: &str) -> Result<(), Error> {
    if asked == model.name || ALIASES.contains(&asked) || names_file(&model.path, asked) {
        return Ok(());
    }
    let (asked, loaded) = (shortened(asked), &model.name);
    let why = format!(
        "the model {asked:?} is not loaded; give {loaded:?}, or \"default\" for whichever is loaded"
    );
    Err(Error {
        param: Some("model".to_owned()),
        ..Error::new(
            StatusCode::NOT_FOUND,
            "invalid_request_error",
            Some("model_not_found"),
            why,
        )
    })
}

/// Whether a name is that of a file, with or without its extension.
fn names_file(path: &str, name: &str) -> bool {
    let path = File::new(path);
    let names = [path.file_name(), path.file_stem()];
    names.into_iter().flatten().any(|known| known == name)
}

async fn describe(model: &ModelInfo) -> Model {
    let path = model.path.clone();
    let changed = tokio::task::spawn_blocking(move || {
        let changed = std::fs::metadata(path).ok()?.modified().ok()?;
        changed.duration_since(UNIX_EPOCH).ok()
    });
    let created = changed
        .await
        .ok()
        .flatten()
        .map_or(0, |time| time.as_secs());
    Model {
        id: model.name.clone(),
        object: "model",
        created,
        owned_by: "ganglion",
        ganglion: Abilities {
            context: model.context,
            parameters: model.parameters,
            quantization: model.quantization.clone(),
            images: model.images,
            tools: !model.tools.is_empty(),
            thinking: model.thinking,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_asked_for_by_its_name_its_file_or_a_fixed_name() {
        let model = ModelInfo {
            name: "Tiny Model".to_owned(),
            path: "/var/lib/ganglion/tiny-1.5b.gguf".to_owned(),
            ..ModelInfo::default()
        };
        for name in [
            "Tiny Model",
            "tiny-1.5b.gguf",
            "tiny-1.5b",
            "default",
            "ganglion",
        ] {
            assert!(check(&model, name).is_ok(), "{name}");
        }
        for name in ["gpt-4o", "", "tiny", "/var/lib/ganglion/tiny-1.5b.gguf"] {
            let error = check(&model, name).expect_err(name);
            assert_eq!(error.status, StatusCode::NOT_FOUND);
            assert!(error.message.contains("\"Tiny Model\""), "{error:?}");
        }
    }
}
