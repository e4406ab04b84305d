//! What is said to whoever asks a model to think that cannot.

use ganglion::bus::proxy::ManagerProxy;

use super::info::{object, plain};
use crate::output;

/// Says so on standard error, once the daemon knows its model.
///
/// Whether that is known.
pub(crate) async fn tell_if_impossible(manager: &ManagerProxy<'_>) -> bool {
    let Ok(model) = manager.model().await else {
        return false;
    };
    let model = object(&model);
    let name = model.get("name").map(plain).unwrap_or_default();
    // Until it is loaded, and of a daemon that is older, nothing is known.
    let Some(thinks) = model.get("thinking").and_then(serde_json::Value::as_bool) else {
        return false;
    };
    if name.is_empty() {
        return false;
    }
    if !thinks {
        output::tell(&format!(
            "ganglionctl: {name} cannot think before it answers: thinking changes nothing"
        ));
    }
    true
}
