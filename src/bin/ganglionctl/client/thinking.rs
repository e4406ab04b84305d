//! What is said to whoever asks a model to think that cannot.

use ganglion::bus::proxy::ManagerProxy;

use super::info::{object, text};
use crate::output;

/// Says so on standard error, once the daemon knows its model.
///
/// Whether that is known.
pub(crate) async fn tell_if_impossible(manager: &ManagerProxy<'_>) -> bool {
    let model = manager.model().await.map(|model| object(&model));
    let model = model.unwrap_or_default();
    match (text(&model["name"]), model["thinking"].as_bool()) {
        // Until it is loaded, and of a daemon that is older, nothing is known.
        ("", _) | (_, None) => return false,
        (name, Some(false)) => output::tell(&format!(
            "ganglionctl: {name} cannot think before it answers: thinking changes nothing"
        )),
        (_, Some(true)) => {}
    }
    true
}
