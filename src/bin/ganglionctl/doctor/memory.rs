//! Memory against the configured model: admission's own answer, before the daemon asks for it.

use std::path::Path;

use ganglion::config::Config;
use ganglion::engine::{Site, forecast};
use ganglion::model::Checkpoint;
use ganglion::service;

use super::finding::Findings;
use super::tree::Tree;
use crate::kernel::bytes;

const CHECK: &str = "memory";

/// A field of /proc/meminfo, in MiB.
pub(super) fn mebibytes(tree: &Tree, field: &str) -> Option<u64> {
    bytes(&tree.text("/proc/meminfo"), field).map(|bytes| bytes >> 20)
}

/// The model at `path` takes so many bytes if it is loaded already: asking whether another fits would count it twice.
/// Else it would be admitted at `site`, or not.
pub(super) fn check(
    tree: &Tree,
    path: &Path,
    (checkpoint, config): (&Checkpoint, &Config),
    (site, loaded): (Site, Option<u64>),
    found: &mut Findings,
) {
    let field = |name| mebibytes(tree, name);
    let (Some(total), Some(available)) = (field("MemTotal:"), field("MemAvailable:")) else {
        let remedy = "a service must not hide it (ProcSubset=pid does)";
        return found.fail(CHECK, "/proc/meminfo cannot be read", remedy);
    };
    let mut what = format!("{available} of {total} MiB are available");
    if let Some(used) = field("NvMapMemUsed:") {
        what = format!("{what}, {used} MiB in NvMap");
    }
    if let Some(swap) = field("SwapTotal:").filter(|swap| *swap > 0) {
        what = format!("{what}, {swap} MiB of swap, which a GPU cannot use");
    }
    if let Some(bytes) = loaded {
        let what = format!("the model is loaded and takes {} MiB; {what}", bytes >> 20);
        let reserve = config.memory.reserve_mib;
        if available < reserve {
            let remedy = format!(
                "less than memory.reserve_mib = {reserve}: lower kv.context or kv.slots, or stop what else uses memory"
            );
            return found.warn(CHECK, what, remedy);
        }
        return found.ok(CHECK, what);
    }
    let mut settings = service::settings(path, config).runner;
    settings.meminfo = tree.path("/proc/meminfo");
    match forecast(checkpoint, &settings, site) {
        Ok(admitted) => {
            let takes = admitted.footprint.bytes() >> 20;
            let (context, slots) = (config.kv.context, config.kv.slots);
            let with = format!("kv.context = {context}, kv.slots = {slots}");
            found.ok(
                CHECK,
                format!("{what}; the model takes {takes} with {with}"),
            );
        }
        Err(error) => found.error(CHECK, error),
    }
}
