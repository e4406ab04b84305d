//! A CUDA driver without a device, whose answers are set by environment variables.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// Returns the folder of the library, under both names that the loader tries.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/service/libcuda.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(folder.path().join("libcuda.so"))
            .arg(source)
            .status()
            .expect("cc runs");
        assert!(built.success());
        let copy = folder.path().join("libcuda.so.1");
        std::fs::copy(folder.path().join("libcuda.so"), copy).expect("a copy");
        folder
    });
    folder.path()
}

/// Returns the environment of a process that loads this driver.
pub(crate) fn environment(answers: &[(&str, &str)]) -> HashMap<OsString, OsString> {
    let library = ("LD_LIBRARY_PATH".into(), folder().into());
    let answers = answers
        .iter()
        .map(|(name, answer)| (name.into(), answer.into()));
    std::iter::once(library).chain(answers).collect()
}
