//! Folders that look like a board to its readers.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

pub(crate) const ORIN_NANO: &str = include_str!("../../../tests/boards/orin-nano.txt");
pub(crate) const ORIN_NX: &str = include_str!("../../../tests/boards/orin-nx.txt");
pub(crate) const AGX_ORIN: &str = include_str!("../../../tests/boards/agx-orin.txt");
pub(crate) const PC: &str = include_str!("../../../tests/boards/pc.txt");

/// Makes a folder with the files of a board.
pub(crate) fn tree(files: &str) -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for line in files.lines() {
        let (path, value) = line.split_once(" = ").expect("path = value");
        write(root.path(), path, &value.replace("\\n", "\n"));
    }
    root
}

/// Writes a file below `root`.
pub(crate) fn write(root: &Path, path: &str, value: &str) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
    fs::write(file, format!("{value}\n")).expect("it is written");
}
