//! Memory against the configured model: admission's own answer, before the daemon asks for it.

use std::path::Path;

use ganglion::config::Config;
use ganglion::engine::{Site, forecast};
use ganglion::model::Checkpoint;
use ganglion::service;

use super::finding::{Finding, Mark};
use super::tree::Tree;

const CHECK: &str = "memory";

/// A field of /proc/meminfo, in MiB.
pub(super) fn mebibytes(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with(field))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib >> 10)
}

/// What there is, for the lines below.
fn available(tree: &Tree) -> Result<String, Finding> {
    let meminfo = tree.read("/proc/meminfo").unwrap_or_default();
    let field = |name| mebibytes(&meminfo, name);
    let (Some(total), Some(available)) = (field("MemTotal:"), field("MemAvailable:")) else {
        let remedy = "a service must not hide it (ProcSubset=pid does)";
        return Err(Finding::fail(CHECK, "/proc/meminfo cannot be read", remedy));
    };
    let nvmap = field("NvMapMemUsed:").map(|used| format!(", {used} MiB in NvMap"));
    let swap = field("SwapTotal:").filter(|swap| *swap > 0);
    let swap = swap.map(|swap| format!(", {swap} MiB of swap, which a GPU cannot use"));
    Ok(format!(
        "{available} of {total} MiB are available{}{}",
        nvmap.unwrap_or_default(),
        swap.unwrap_or_default()
    ))
}

/// While the daemon holds its model, asking whether another fits would count it twice.
pub(super) fn loaded(tree: &Tree, bytes: u64, config: &Config) -> Finding {
    let what = match available(tree) {
        Ok(what) => what,
        Err(finding) => return finding,
    };
    let meminfo = tree.read("/proc/meminfo").unwrap_or_default();
    let left = mebibytes(&meminfo, "MemAvailable:").unwrap_or(0);
    let what = format!("the model is loaded and takes {} MiB; {what}", bytes >> 20);
    let reserve = config.memory.reserve_mib;
    if left < reserve {
        let remedy = format!(
            "less than memory.reserve_mib = {reserve}: lower kv.context or kv.slots, or stop what else uses memory"
        );
        return Finding::warn(CHECK, what, remedy);
    }
    Finding::ok(CHECK, what)
}

/// Whether the model would be admitted at `site`.
pub(super) fn check(
    tree: &Tree,
    path: &Path,
    checkpoint: &Checkpoint,
    config: &Config,
    site: Site,
) -> Finding {
    let what = match available(tree) {
        Ok(what) => what,
        Err(finding) => return finding,
    };
    let mut settings = service::settings(path, config).runner;
    settings.meminfo = tree.path("/proc/meminfo");
    match forecast(checkpoint, &settings, site) {
        Ok(admitted) => {
            let takes = admitted.footprint.bytes() >> 20;
            let context = config.kv.context;
            let slots = config.kv.slots;
            let what = format!(
                "{what}; the model takes {takes} with kv.context = {context}, kv.slots = {slots}"
            );
            Finding::ok(CHECK, what)
        }
        Err(error) => Finding::new(Mark::Fail, CHECK, error.to_string()),
    }
}
