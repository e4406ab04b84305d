//! No file depends on itself through the files that it uses.
//!
//! A file depends on the file that defines a name, through however many re-exports. It also depends on a file that
//! re-exports the name, unless that is a folder around it. Within a folder, names are imported from the file that defines
//! them: re-exports are for users outside of the folder.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Names, Source};

/// What each file imports and mentions, by module.
type Files<'a> = BTreeMap<&'a Names, &'a Source>;

/// The modules that each module depends on.
type Edges<'a> = BTreeMap<&'a Names, BTreeSet<Names>>;

/// Returns the module that defines `path`, seen from `module`; `None` for a local name or a library. Adds the modules on
/// the way that re-export it to `passed`.
fn definer(
    files: &Files<'_>,
    module: &Names,
    path: &[String],
    passed: &mut Vec<Names>,
) -> Option<Names> {
    const LONGEST: usize = 16;
    let mut at = module.clone();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => at.truncate(1),
        "ganglion" => at = vec!["ganglion".into()],
        "self" | "super" => {}
        first => {
            let is_child = files.contains_key(&child(&at, first));
            if !is_child && import(files, &at, first).is_none() {
                return None;
            }
        }
    }
    if ["crate", "ganglion", "self"].contains(&rest[0].as_str()) {
        rest = &rest[1..];
    }
    while rest.first().is_some_and(|name| name == "super") {
        at.pop();
        rest = &rest[1..];
    }
    while let Some((name, others)) = rest.split_first() {
        let below = child(&at, name);
        if files.contains_key(&below) {
            (at, rest) = (below, others);
            continue;
        }
        let Some(from) = import(files, &at, name) else {
            break;
        };
        passed.push(at.clone());
        if passed.len() > LONGEST {
            return None;
        }
        let whole = [from, others].concat();
        let found = definer(files, &at, &whole, passed);
        // A name of a library counts as that of the module which re-exports it.
        return found.or_else(|| (at != *module).then_some(at));
    }
    Some(at)
}

fn child(module: &Names, name: &str) -> Names {
    [&module[..], &[name.to_owned()]].concat()
}

fn import<'a>(files: &Files<'a>, module: &Names, name: &str) -> Option<&'a [String]> {
    let imports = files.get(module)?.imports.iter();
    let mut imports = imports.filter(|one| !one.in_tests && one.name == name);
    imports.next().map(|one| &one.path[..])
}

fn edges<'a>(files: &Files<'a>) -> Edges<'a> {
    let edges = files.iter().map(|(module, source)| {
        let mentions = source.paths.iter().filter(|one| !one.in_tests);
        let mentions = mentions.map(|one| &one.path);
        // A variable may have the name of a module. A module alone is no value.
        let is_variable =
            |path: &&Names| path.len() == 1 && files.contains_key(&child(module, &path[0]));
        let mentions = mentions.filter(|path| !is_variable(path));
        // A re-export alone is no use of the name.
        let imports = source.imports.iter();
        let imports = imports.filter(|one| !one.in_tests && !one.is_public);
        let mut uses = BTreeSet::new();
        for path in mentions.chain(imports.map(|one| &one.path)) {
            let mut passed = Vec::new();
            uses.extend(definer(files, module, path, &mut passed));
            passed.retain(|facade| !module.starts_with(facade));
            uses.extend(passed);
        }
        uses.remove(*module);
        (*module, uses)
    });
    edges.collect()
}

/// Returns the modules on circles, and on ways between them, with the modules that they depend on.
fn circles(mut edges: Edges<'_>) -> Vec<String> {
    loop {
        let before = edges.len();
        let all: BTreeSet<_> = edges.keys().map(|module| (*module).clone()).collect();
        let used: BTreeSet<_> = edges.values().flatten().cloned().collect();
        edges.retain(|module, others| {
            others.retain(|other| all.contains(other));
            !others.is_empty() && used.contains(*module)
        });
        if edges.len() == before {
            break;
        }
    }
    let lines = edges.iter().map(|(module, others)| {
        let others: Vec<_> = others.iter().map(|other| other.join("::")).collect();
        format!("{} uses {}", module.join("::"), others.join(", "))
    });
    lines.collect()
}

/// Returns the imports of re-exports by a file in the re-exporting folder, or of a name that belongs to another folder.
fn detours(files: &Files<'_>) -> Vec<String> {
    let mut detours = Vec::new();
    for (module, source) in files {
        let imports = source.imports.iter().filter(|one| !one.in_tests);
        let mentions = source.paths.iter().filter(|one| !one.in_tests);
        let paths = mentions.map(|one| &one.path);
        let from_elsewhere = |path: &&Names| {
            let first = path.first().map(String::as_str);
            first.is_some_and(|first| ["crate", "super"].contains(&first))
        };
        let paths = paths.filter(from_elsewhere);
        for path in imports.map(|one| &one.path).chain(paths) {
            let mut passed = Vec::new();
            let definer = definer(files, module, path, &mut passed);
            let is_detour = |facade: &Names| {
                let is_around = module.starts_with(facade);
                let is_owner = definer.as_ref().is_some_and(|one| one.starts_with(facade));
                let is_same_folder = facade.get(..2) == module.get(..2);
                facade != *module && (is_around || is_same_folder && !is_owner)
            };
            if passed.iter().any(is_detour) {
                let (module, path) = (module.join("::"), path.join("::"));
                detours.push(format!("{module} imports {path}"));
            }
        }
    }
    detours
}

fn of<'a>(sources: impl IntoIterator<Item = &'a Source>) -> Files<'a> {
    let files = sources.into_iter().map(|one| (&one.module, one));
    files.collect()
}

#[test]
fn no_file_depends_on_itself() {
    let edges = edges(&of(Source::all()));
    let count: usize = edges.values().map(BTreeSet::len).sum();
    assert!(count > 1000, "only {count} uses were found");
    let circles = circles(edges);
    assert!(circles.is_empty(), "in a circle:\n{}", circles.join("\n"));
}

#[test]
fn names_are_imported_from_the_files_that_define_them() {
    let detours = detours(&of(Source::all()));
    assert!(detours.is_empty(), "{}", detours.join("\n"));
}

#[test]
fn imports_of_a_siblings_re_export_are_found() {
    let count = |path: &str, text: &str| {
        let files = [
            ("a/mod.rs", "mod b; mod c; mod d; pub use b::B;"),
            ("a/b.rs", "pub use super::d::D; pub struct B;"),
            ("a/d.rs", "pub struct D;"),
            (path, text),
        ];
        let parse = |(path, text): (&str, &str)| Source::parse(path.as_ref(), text.into());
        detours(&of(&files.map(parse))).len()
    };
    for detour in [
        "use super::B;",
        "use crate::a::B;",
        "use super::b::D;",
        "fn c(_: super::B) {}",
    ] {
        assert_eq!(count("a/c.rs", detour), 1, "{detour}");
    }
    assert_eq!(count("a/c.rs", "use super::b::B;"), 0);
    assert_eq!(count("e.rs", "use crate::a::B;"), 0);
}

#[test]
fn circles_through_parents_children_and_re_exports_are_found() {
    let circle = |files: &[(&str, &str)]| {
        let parse = |(path, text): &(&str, &str)| Source::parse(path.as_ref(), (*text).into());
        let sources: Vec<_> = files.iter().map(parse).collect();
        circles(edges(&of(&sources))).len()
    };
    let parent = ("a/mod.rs", "mod b; mod c; pub use b::B;");
    let b = ("a/b.rs", "use super::c::C; pub struct B;");
    for c in [
        "use super::B;",
        "use crate::a::b::B;",
        "fn c() { vec![super::b::B] }",
    ] {
        assert_eq!(circle(&[parent, b, ("a/c.rs", c)]), 2, "{c}");
    }
    assert_eq!(circle(&[parent, b, ("a/c.rs", "struct C;")]), 0);
    let uses_child = ("a/mod.rs", "mod b; use b::B; struct A(B);");
    assert_eq!(circle(&[uses_child, ("a/b.rs", "use super::A;")]), 2);
    let facade = ("a.rs", "pub use b::B; use crate::c::C; fn a(_: C) {}");
    let c = ("c.rs", "use crate::a::B; struct C;");
    assert_eq!(circle(&[facade, ("a/b.rs", "struct B;"), c]), 2);
}
