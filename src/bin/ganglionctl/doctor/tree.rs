//! The files and commands that checks read: those of this machine, or of a folder with copies (`--root`).
//!
//! In such a folder, `dev/nodes` may list device nodes (a line for each with mode, owner, group and path, because an
//! archive cannot contain nodes). `commands/NAME` has the output of a command. Everything read is remembered for
//! `--report`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file's permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    pub(super) mode: u32,
    pub(super) owner: String,
    pub(super) group: String,
}

#[derive(Debug)]
pub(super) struct Tree {
    root: PathBuf,
    /// The content of everything read, by path.
    pub(super) seen: RefCell<BTreeMap<String, String>>,
}

impl Tree {
    pub(super) fn new(root: Option<&Path>) -> Self {
        Self {
            root: root.unwrap_or(Path::new("/")).into(),
            seen: RefCell::default(),
        }
    }

    /// Whether it is the running machine.
    pub(super) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the path of a file of the machine.
    pub(super) fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        if absolute.starts_with(&self.root) {
            return absolute.into();
        }
        self.root
            .join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// Reads a file, without surrounding white space and NULs.
    pub(super) fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let path = self.path(path);
        let bytes = fs::read(&path)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let name = path.display().to_string();
        self.seen.borrow_mut().insert(name, text.clone());
        let around = |c: char| c.is_whitespace() || c == '\0';
        Ok(text.trim_matches(around).to_owned())
    }

    /// Reads a file; empty if that fails.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> String {
        self.read(path).unwrap_or_default()
    }

    /// Reads the number in a file of /sys.
    pub(super) fn number(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.read(path).ok()?.parse().ok()
    }

    /// Lists a directory in order; empty if there is none.
    pub(super) fn entries(&self, directory: &str) -> Vec<String> {
        let names = fs::read_dir(self.path(directory)).into_iter().flatten();
        let mut names: Vec<_> = names
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .collect();
        names.sort_by_key(|name| (name.len(), name.clone()));
        names
    }

    /// Runs a command and returns its output; `None` if it fails or does not exist.
    pub(super) fn command(&self, name: &str, command: &str) -> Option<String> {
        if !self.is_live() {
            return self.read(Path::new("/commands").join(name)).ok();
        }
        let mut words = command.split(' ');
        let mut process = Command::new(words.next()?);
        let output = process.args(words).stdin(Stdio::null()).output().ok()?;
        if !output.status.success() {
            return None;
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut seen = self.seen.borrow_mut();
        seen.insert(format!("$ {command}"), text.clone());
        Some(text)
    }

    /// Returns a file's permissions.
    pub(super) fn rights(&self, path: &str) -> Option<Rights> {
        if let Ok(nodes) = self.read("/dev/nodes") {
            return nodes.lines().find_map(|line| {
                let [mode, owner, group, node] = line.split_whitespace().collect::<Vec<_>>()[..]
                else {
                    return None;
                };
                let mode = u32::from_str_radix(mode, 8).ok()?;
                let (owner, group) = (owner.into(), group.into());
                (node == path).then_some(Rights { mode, owner, group })
            });
        }
        let metadata = fs::metadata(self.path(path)).ok()?;
        let named = |file: &str, id: u32| {
            let id = id.to_string();
            let mut records = self.records(file).into_iter();
            let named = records.find(|fields| fields.get(2) == Some(&id));
            named.map_or(id, |fields| fields[0].clone())
        };
        let rights = Rights {
            mode: metadata.mode() & 0o7777,
            owner: named("/etc/passwd", metadata.uid()),
            group: named("/etc/group", metadata.gid()),
        };
        let Rights { mode, owner, group } = &rights;
        let line = format!("{mode:04o} {owner} {group} {path}\n");
        let mut seen = self.seen.borrow_mut();
        seen.entry("dev/nodes".into()).or_default().push_str(&line);
        Some(rights)
    }

    /// Reads the fields of each line of a file like /etc/passwd, which is not added to a report.
    pub(super) fn records(&self, file: &str) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.path(file)).unwrap_or_default();
        let fields = |line: &str| line.split(':').map(str::to_owned).collect();
        text.lines().map(fields).collect()
    }
}
