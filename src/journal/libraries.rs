//! Events of libraries: only warnings and errors, whatever `log.level` says, because the bus library traces every
//! message.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::events;

/// Reports the events of libraries as events of the daemon.
pub(super) struct Libraries;

impl<S: Subscriber> Layer<S> for Libraries {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut text = Text(String::new());
        event.record(&mut text);
        if *metadata.level() == Level::ERROR {
            events::library_error(metadata.target(), &text.0);
        } else {
            events::library_warning(metadata.target(), &text.0);
        }
    }
}

/// The message, followed by the fields.
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
