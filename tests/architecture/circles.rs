//! Who imports whom, file by file: nobody comes back to itself, by whatever way.
//!
//! A name that a parent hands on counts as its file's who defines it. A file and those below it are one thing in parts: what
//! they have of each other is no circle.

use std::collections::{BTreeMap, BTreeSet};

use super::Source;

/// A module by its path; the program or library comes first.
type Module = Vec<String>;

/// Where a name comes from.
type Imports = BTreeMap<String, Vec<String>>;

/// The modules of the project, with what each says in code.
struct Tree {
    code: BTreeMap<Module, String>,
    imports: BTreeMap<Module, Imports>,
}

impl Tree {
    fn new(code: BTreeMap<Module, String>) -> Self {
        let imports = code.iter().map(|(module, code)| {
            let names = imports(code).into_iter();
            (module.clone(), names.collect())
        });
        Self {
            imports: imports.collect(),
            code,
        }
    }

    /// Of each module those that it names, but its own family.
    fn edges(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let edges = self.code.iter().map(|(module, code)| {
            let imported = self.imports[module].values().cloned();
            let named = imported.chain(paths(code));
            let others = named.filter_map(|path| self.find(module, &path, 0));
            let others = others.filter(|other| !other.starts_with(module));
            let others = others.filter(|other| !module.starts_with(other));
            (module, others.collect())
        });
        edges.collect()
    }

    /// The module that defines what `path` names within `module`; nothing where it is of a library, or nothing but a local
    /// name.
    fn find(&self, module: &Module, path: &[String], depth: usize) -> Option<Module> {
        const DEEPEST: usize = 16;
        let (first, rest) = path.split_first().filter(|_| depth < DEEPEST)?;
        let mut at = module.clone();
        let mut rest = rest;
        match first.as_str() {
            "crate" => at.truncate(1),
            "ganglion" => at = vec!["ganglion".into()],
            "self" => {}
            "super" => {
                at.pop();
                while let Some((_, others)) = rest.split_first().filter(|(one, _)| *one == "super")
                {
                    at.pop();
                    rest = others;
                }
            }
            _ => {
                let below = [&at[..], std::slice::from_ref(first)].concat();
                let known =
                    self.code.contains_key(&below) || self.imports[module].contains_key(first);
                rest = known.then_some(path)?;
            }
        }
        while let Some((name, others)) = rest.split_first() {
            let below = [&at[..], std::slice::from_ref(name)].concat();
            if self.code.contains_key(&below) {
                (at, rest) = (below, others);
                continue;
            }
            let Some(from) = self.imports.get(&at).and_then(|names| names.get(name)) else {
                break;
            };
            let whole = [from, others].concat();
            let found = self.find(&at, &whole, depth + 1);
            // What a library has, and another module hands on, is that module's.
            return found.or_else(|| (at != *module).then_some(at));
        }
        Some(at)
    }
}

/// The code without comments and without tests, which come last.
fn code(source: &Source) -> String {
    let lines: Vec<_> = source.code().map(|(_, line)| line).collect();
    let code = lines.join("\n");
    let tests = code.find("#[cfg(test)]\nmod tests {");
    code[..tests.unwrap_or(code.len())].to_owned()
}

fn module(source: &Source) -> Module {
    let path = source.path.with_extension("");
    let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
    let (program, names) = match &names[..] {
        [main] if main == "main" => ("gangliond", &[][..]),
        [bin, program, names @ ..] if bin == "bin" => (&**program, names),
        names => ("ganglion", names),
    };
    let is_a_name = |name: &&str| !["mod", "main", "lib"].contains(name);
    let names = names.iter().map(|name| &**name).filter(is_a_name);
    std::iter::once(program)
        .chain(names)
        .map(str::to_owned)
        .collect()
}

/// The names that `use` brings, each with its path.
fn imports(code: &str) -> Vec<(String, Vec<String>)> {
    let mut names = Vec::new();
    for (at, word) in code.match_indices("use ") {
        let line = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with("pub") {
            let tree = code[at + word.len()..]
                .split(';')
                .next()
                .unwrap_or_default();
            let tree: Vec<_> = tree.split_whitespace().collect();
            expand(&[], &tree.join(" "), &mut names);
        }
    }
    names
}

/// The leaves of `a::{b, c::{d, e as f}}`.
fn expand(before: &[String], tree: &str, names: &mut Vec<(String, Vec<String>)>) {
    let (path, branches) = match tree.split_once('{') {
        Some((path, branches)) => (path, branches.trim_end().strip_suffix('}')),
        None => (tree, None),
    };
    let (path, name) = path.split_once(" as ").unwrap_or((path, ""));
    let parts = path
        .split("::")
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let mut path = before.to_vec();
    path.extend(parts.map(str::to_owned));
    if let Some(branches) = branches {
        let mut depth = 0;
        let apart = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        };
        for branch in branches
            .split(apart)
            .map(str::trim)
            .filter(|one| !one.is_empty())
        {
            expand(&path, branch, names);
        }
        return;
    }
    if path.len() > 1 && ["self", "*"].contains(&path[path.len() - 1].as_str()) {
        path.pop();
    }
    let name = Some(name).filter(|name| !name.is_empty());
    if let Some(name) = name.or(path.last().map(String::as_str)) {
        names.push((name.to_owned(), path));
    }
}

/// The paths that are written out in the code.
fn paths(code: &str) -> impl Iterator<Item = Vec<String>> {
    let words = code.split(|c: char| !(c.is_alphanumeric() || "_:".contains(c)));
    let paths = words.filter(|word| word.contains("::") && !word.starts_with(':'));
    paths.map(|path| {
        let parts = path.split("::").filter(|part| !part.is_empty());
        parts.map(str::to_owned).collect()
    })
}

/// Those that come back to themselves: whoever names nobody of the others, or is named by nobody of them, does not.
fn circles(tree: &Tree) -> Vec<String> {
    let mut left = tree.edges();
    loop {
        let before = left.len();
        let all: BTreeSet<_> = left.keys().map(|module| (*module).clone()).collect();
        let named: BTreeSet<_> = left.values().flatten().cloned().collect();
        left.retain(|module, others| {
            others.retain(|other| all.contains(other));
            !others.is_empty() && named.contains(*module)
        });
        if left.len() == before {
            break;
        }
    }
    let told = left.iter().map(|(module, others)| {
        let others: Vec<_> = others.iter().map(|other| other.join("::")).collect();
        format!("{} names {}", module.join("::"), others.join(", "))
    });
    told.collect()
}

#[test]
fn nobody_imports_whoever_imports_it() {
    let sources = Source::all();
    let tree = Tree::new(sources.iter().map(|one| (module(one), code(one))).collect());
    let edges: usize = tree.edges().values().map(BTreeSet::len).sum();
    assert!(edges > 1000, "only {edges} imports were found");
    let circles = circles(&tree);
    assert!(circles.is_empty(), "in a circle:\n{}", circles.join("\n"));
}

#[test]
fn a_circle_is_found_by_whatever_way_a_name_comes() {
    let tree = |sources: &[(&str, &str)]| {
        let module = |path: &str| path.split("::").map(str::to_owned).collect();
        let sources = sources.iter();
        Tree::new(
            sources
                .map(|(path, code)| (module(path), (*code).to_owned()))
                .collect(),
        )
    };
    let parent = (
        "ganglion::a",
        "mod b;\nmod c;\nmod d;\npub use b::{B, Other as Same};\nuse c::C;",
    );
    let c = ("ganglion::a::c", "use std::fmt;\nfn c() { super::d::d() }");
    for names_b in [
        "use super::{B, fmt};",
        "fn d() { crate::a::Same }",
        "pub(super) use crate::{a::{b}};",
    ] {
        let (b, d) = (
            ("ganglion::a::b", "use super::c::{self, C};"),
            ("ganglion::a::d", names_b),
        );
        let found = circles(&tree(&[("ganglion", ""), parent, b, c, d]));
        assert_eq!(found.len(), 3, "{names_b}: {found:?}");
    }
    let (b, d) = (
        ("ganglion::a::b", "use super::c::C;"),
        ("ganglion::a::d", "use super::A;"),
    );
    assert_eq!(
        circles(&tree(&[("ganglion", ""), parent, b, c, d])),
        [""; 0]
    );
}
