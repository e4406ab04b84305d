//! Prometheus' text format, version 0.0.4.
//!
//! It knows no metric: `page` fills it.

use std::fmt::{Display, Write as _};

use super::table::Metric;
use crate::telemetry::Distribution;

/// The value of the header `Content-Type`.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A text that grows by one metric after another.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// Begins a metric. Its samples follow, before the next metric begins.
    pub(super) fn begin(&mut self, metric: &Metric) {
        let (name, kind) = (metric.name, metric.kind.name());
        let help = metric.help.replace('\\', r"\\").replace('\n', r"\n");
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// Adds a sample of a metric. `values` are the values of its labels.
    pub(super) fn sample(&mut self, metric: &Metric, values: &[&str], value: impl Display) {
        debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
        let labels = metric.labels.iter().zip(values);
        let labels: Vec<_> = labels
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
            .collect();
        let name = metric.name;
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
        }
    }

    /// Adds a metric with one value and no labels.
    pub(super) fn single(&mut self, metric: &Metric, value: impl Display) {
        self.begin(metric);
        self.sample(metric, &[], value);
    }

    /// Adds a histogram.
    pub(super) fn histogram(&mut self, metric: &Metric, distribution: &Distribution) {
        self.begin(metric);
        let (name, Distribution { up_to, count, sum }) = (metric.name, distribution);
        for (bound, count) in up_to {
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {count}"));
        }
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {count}"));
        self.line(format_args!("{name}_sum {sum}"));
        self.line(format_args!("{name}_count {count}"));
    }

    pub(super) fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// Escapes a label's value.
fn escaped(value: &str) -> String {
    let escapes = [('\\', r"\\"), ('"', "\\\""), ('\n', r"\n")];
    let escapes = escapes.into_iter();
    escapes.fold(value.to_owned(), |text, (of, to)| text.replace(of, to))
}
