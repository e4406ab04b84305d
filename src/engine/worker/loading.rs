//! The progress of a load on the engine thread, and its failure, as others see them.

use crate::engine::intake::receiver::Receiver;
use crate::engine::intake::shared::Shared;
use crate::engine::observe::report;
use crate::engine::reload::loaded_model::Loading;
use crate::load::LoadError;

/// Returns what publishes the progress of a load on the engine thread.
pub(super) fn progress(shared: &Shared) -> impl FnMut(Loading) {
    move |loading| {
        let (detail, percent) = match loading {
            Loading::Begins(phase) => {
                shared.progress.enter(phase);
                (Some(phase.name().to_owned()), None)
            }
            Loading::Read(percent) => (
                percent.map(|percent| format!("loading {percent}%")),
                percent,
            ),
        };
        shared.progress.advance();
        shared.progress.load_step();
        if let Some(detail) = detail {
            shared.publish(|status| {
                status.detail.clone_from(&detail);
                status.loaded_percent = percent.or(status.loaded_percent);
            });
        }
    }
}

/// Publishes why there is no model.
pub(super) fn refuse(receiver: &Receiver, error: &LoadError) {
    report::load_error(error);
    let passes = error.may_pass();
    receiver.shared.publish(|status| status.passes = passes);
    receiver.fail(&error.to_string());
}
