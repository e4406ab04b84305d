//! CONTRIBUTING.md says where a change goes. Each path in it exists, and a list that is called whole has all files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::source::files;

/// Returns the paths of the project between backquotes.
fn paths(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    let tops = ["config", "cross", "kernels", "src", "systemd", "tests"];
    let is_path = |words: &&str| {
        let top = words.split_once('/').map(|(top, _)| top);
        top.is_some_and(|top| tops.contains(&top)) && !words.contains(char::is_whitespace)
    };
    quoted.filter(is_path).collect()
}

/// Whether a file contains one of these words.
fn contains(file: &Path, words: &str) -> bool {
    let text = fs::read(file).expect("a file");
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut found = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    found.any(|word| words.split(' ').any(|wanted| wanted == word))
}

#[test]
fn the_lists_of_contributing_are_complete() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("CONTRIBUTING.md")).expect("the page");
    for path in paths(&page) {
        assert!(root.join(path).exists(), "{path} does not exist");
    }
    let mut lists = 0;
    for section in page.split("\n### ").skip(1) {
        let items = section.lines().filter(|line| line.starts_with("- `"));
        let listed = items.filter_map(|item| item.split_once("`:").map(|(files, _)| files));
        let listed: String = listed.flat_map(|files| [files, "`"]).collect();
        for claim in section.split("<!-- whole: ").skip(1) {
            let claim = claim.split(" -->").next().unwrap_or_default();
            let (words, folders) = claim.split_once(" in ").expect("words in folders");
            let folders: Vec<_> = folders.split(' ').collect();
            let below = |path: &&str| folders.iter().any(|folder| path.starts_with(folder));
            let listed: BTreeSet<_> = paths(&listed).into_iter().filter(below).collect();
            let all = folders.iter().flat_map(|folder| files(&root.join(folder)));
            let found: Vec<PathBuf> = all
                .filter(|file| contains(file, words))
                .map(|file| file.strip_prefix(root).expect("below").to_owned())
                .collect();
            let found: BTreeSet<_> = found.iter().filter_map(|file| file.to_str()).collect();
            assert_eq!(listed, found, "the files with {words}");
            lists += 1;
        }
    }
    assert!(lists >= 6, "the lists were found");
}
