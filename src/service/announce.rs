//! Reports changes of the engine's state to systemd and the journal.

use std::time::Instant;

use super::notify;
use crate::engine::{State, Status, StatusReceiver};
use crate::journal;
use crate::runner::KEY_BOUND;

/// Follows the engine's state as long as the engine lives.
pub(super) async fn announce(mut engine: StatusReceiver) {
    let begun = Instant::now();
    let mut ready = false;
    let mut computes = (String::new(), String::new());
    let mut shown = String::new();
    let mut selected = None;
    loop {
        let status = engine.borrow_and_update();
        // A reload may choose another backend, or find that the configured one is not available.
        let now = (status.backend.clone(), status.device.clone());
        if status.state == State::Ready && computes != now {
            journal::backend_chosen(&now.0, &now.1);
            computes = now;
        }
        if let Some(kv) = status.model.kv
            && status.state == State::Ready
            && selected != Some(kv)
        {
            selected = Some(kv);
            let [k, v] = kv.names();
            journal::kv_selected(k, v, kv.reason.name(), kv.key_delta);
            if let Some(delta) = kv.harm() {
                journal::kv_harmful(delta, KEY_BOUND);
            }
        }
        if status.state == State::Ready && !ready {
            ready = true;
            let model = &status.model;
            journal::model_loaded(
                &model.name,
                model.weight_bytes,
                begun.elapsed().as_secs_f64(),
            );
            journal::ready(&model.name);
            notify::ready();
        }
        let line = line(&status);
        if line != shown {
            notify::status(&line);
            shown = line;
        }
        if engine.changed().await.is_err() {
            return;
        }
    }
}

/// Returns the line that `systemctl status` shows to every user: the progress of a load, the reason of a failure, or
/// the speed of the last answer. The lengths of prompts and answers are left out.
fn line(status: &Status) -> String {
    match (&status.state, &status.receipt) {
        (State::Ready, _) if !status.detail.is_empty() => format!("ready; {}", status.detail),
        (State::Ready, Some(receipt)) => {
            let rate = receipt.usage.tokens_per_second;
            format!("ready; last request: {rate:.1} tokens/s")
        }
        (State::Idle, _) if !status.detail.is_empty() => format!("idle; {}", status.detail),
        (State::Loading | State::Failed, _) if !status.detail.is_empty() => status.detail.clone(),
        (state, _) => state.name().to_owned(),
    }
}
