//! Captures the events of a thread, with their fields, in place of the system's journal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The fields of an event, including its message.
pub(crate) type Entry = BTreeMap<&'static str, String>;

#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Entry>>>);

impl Journal {
    /// Captures the events of this thread during `work`.
    pub(crate) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let subscriber = tracing_subscriber::registry().with(self.clone());
        tracing::subscriber::with_default(subscriber, work)
    }

    /// Returns the events since the last call.
    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.0.lock().expect("no panic"))
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        self.0.lock().expect("no panic").push(fields.0);
    }
}

struct Fields(Entry);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}
