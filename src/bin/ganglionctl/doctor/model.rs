//! Checks of the configured model: its files and their checksums, access by the service, and its memory.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use ganglion::config::Config;
use ganglion::kv::KvType;
use ganglion::load::{self, KvChoices, OpenModel, Target, admit};
use ganglion::model::Checkpoint;
use ganglion::model::checkpoint::files_of;
use ganglion::runner::KeyReason;
use ganglion::service;

use super::finding::Findings;
use super::machine::Machine;
use super::tree::Tree;
use super::unit::reveal;
use crate::checksum;

/// Opens the model, and reports its errors.
pub(super) fn open(
    tree: &Tree,
    path: &Path,
    template: Option<&Path>,
    found: &mut Findings,
) -> Option<Checkpoint> {
    const CHECK: &str = "model";
    let shown = path.display();
    let here = tree.path(path);
    if let Err(error) = fs::metadata(&here) {
        let remedy = "ganglionctl pull fetches one; then set model.path, or run ganglionctl setup";
        found.fail(CHECK, format!("{shown}: {error}"), remedy);
        return None;
    }
    let template = template.map(|file| tree.path(file));
    match OpenModel::read(&here, template.as_deref()) {
        Ok(OpenModel { checkpoint, .. }) => {
            let (name, mib) = (&checkpoint.name, checkpoint.weight_bytes() >> 20);
            found.ok(CHECK, format!("{shown}: {name}, {mib} MiB of weights"));
            Some(checkpoint)
        }
        Err(error) => {
            found.error(CHECK, error);
            None
        }
    }
}

/// Reads the model as the service does.
pub(super) fn read_inside(path: &Path, found: &mut Findings) {
    const CHECK: &str = "sandbox";
    let shown = path.display();
    let opened = files_of(path).into_iter();
    let mut refused = opened.filter_map(|file| Some((fs::File::open(&file).err()?, file)));
    let Some((error, file)) = refused.next() else {
        return found.ok(CHECK, format!("the service can read {shown}"));
    };
    let what = format!("the service cannot read {}: {error}", file.display());
    let moved = reveal(path);
    if error.kind() == ErrorKind::NotFound {
        return found.fail(CHECK, what, moved);
    }
    let owned = format!("sudo chown -R ganglion: {shown}");
    let remedy = format!("{owned}, or if the sandbox hides it: {moved}");
    found.fail(CHECK, what, remedy);
}

/// Compares the files with their recorded checksums: `FILE.sha256`, as `pull` and sha256sum write them.
pub(super) fn checksums(tree: &Tree, path: &Path, found: &mut Findings) {
    const CHECK: &str = "checksum";
    let files = files_of(&tree.path(path));
    let recorded = files.iter();
    let recorded = recorded.filter_map(|file| Some((file, checksum::recorded(file)?)));
    let mut known = 0;
    for (file, expected) in recorded {
        let name = file.display();
        match checksum::open(file).and_then(|mut file| checksum::of(&mut file)) {
            Ok(sum) if sum == expected => known += 1,
            Ok(sum) => {
                let what = format!("{name} has the SHA-256 {sum}, and {expected} is recorded");
                let remedy = "it is damaged: fetch it again with ganglionctl pull --force";
                return found.fail(CHECK, what, remedy);
            }
            Err(error) => {
                let remedy = "the disk may be failing: see sudo dmesg";
                return found.fail(CHECK, format!("{name}: {error}"), remedy);
            }
        }
    }
    if known == 0 {
        let remedy = "sha256sum FILE > FILE.sha256 records it; ganglionctl pull does so itself";
        let what = format!("none is recorded for {}", path.display());
        return found.warn(CHECK, what, remedy);
    }
    let all = files.len();
    found.ok(CHECK, format!("{known} of {all} files are as recorded"));
}

/// Reports the types of the cache, as far as they are known before a load; nothing for the default.
pub(super) fn check_kv(checkpoint: &Checkpoint, config: &Config, found: &mut Findings) {
    const CHECK: &str = "kv";
    let choices = config.kv.choices();
    if choices == KvChoices::default() {
        return;
    }
    let selection = load::expected_kv(checkpoint, choices);
    let [k, v] = selection.names();
    let types = format!("the cache will store K as {k} and V as {v}");
    match selection.reason {
        KeyReason::Configured if k == KvType::Q8_0.name() && selection.biased => {
            let what = format!("{types}; this model's keys have biases, which lose much in q8_0");
            found.warn(CHECK, what, "set kv.type_k to \"auto\" or \"f16\"");
        }
        KeyReason::Configured => found.ok(CHECK, types),
        KeyReason::Measured => {
            let what = format!("{types}; K of q8_0 if that changes a short text little at load");
            found.ok(CHECK, what);
        }
        reason => found.ok(CHECK, format!("{types} ({})", reason.name())),
    }
}

impl Machine {
    /// Compares the memory with the model at `path`. If the model is loaded, only its size is reported. Otherwise
    /// admission decides whether it fits `site`.
    pub(super) fn check_memory(
        &self,
        path: &Path,
        (checkpoint, config): (&Checkpoint, &Config),
        (site, loaded): (Target, Option<u64>),
        found: &mut Findings,
    ) {
        const CHECK: &str = "memory";
        let field = |name| self.meminfo(name).map(|bytes| bytes >> 20);
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
            if available >= reserve {
                return found.ok(CHECK, what);
            }
            let remedy = format!(
                "less than memory.reserve_mib = {reserve}: lower kv.context or kv.memory_mib, or stop other programs"
            );
            return found.warn(CHECK, what, remedy);
        }
        let mut settings = service::settings(path, config).runner;
        settings.meminfo = self.tree.path("/proc/meminfo");
        settings.groups = self.groups();
        let settings = load::with_tower(&self.tree.path(path), checkpoint, settings);
        match settings.and_then(|settings| admit(checkpoint, &settings, site)) {
            Ok(admitted) => {
                let takes = admitted.estimate.bytes() >> 20;
                let trained = checkpoint.shape.context;
                let context = match config.kv.context {
                    0 => trained,
                    context => context.min(trained),
                };
                let (kv, states) = (admitted.estimate.kv >> 20, admitted.estimate.states >> 20);
                let what = format!(
                    "{what}; the model takes {takes}, {kv} of them for conversations of up to {context} tokens"
                );
                let what = match states {
                    0 => what,
                    states => format!("{what}, and {states} for recurrent states"),
                };
                found.ok(CHECK, what);
            }
            Err(error) if self.is_live() && self.unit().runs() => {
                let what = format!("{error}; the memory of the running gangliond counts as used");
                found.warn(
                    CHECK,
                    what,
                    "run this again when it is ready, as a user who may call it",
                );
            }
            Err(error) => found.error(CHECK, error),
        }
    }
}
