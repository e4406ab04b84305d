//! The list of metrics in `gangliond(8)`, rendered from the table that `/metrics` itself uses.

use ganglion::http::{METRICS, Metric};

use super::roff::list;

pub(super) fn metrics() -> String {
    let entries = METRICS.iter().map(|metric| {
        let Metric {
            name,
            kind,
            labels,
            help,
        } = metric;
        let labels = match labels {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(", ")),
        };
        (format!("{name}{labels} ({})", kind.name()), *help)
    });
    let entries: Vec<_> = entries.collect();
    let entries = entries.iter().map(|(tag, help)| (tag.as_str(), *help));
    list(&entries.collect::<Vec<_>>())
}
