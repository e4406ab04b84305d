//! The source files, parsed: their modules, their imports, and the paths in their code.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ItemMod, ItemUse, Macro, MetaList, UseTree, Visibility};

/// The names between `::`.
pub(crate) type Names = Vec<String>;

/// A source file.
pub(crate) struct Source {
    /// Below `src`.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    /// Its module, after the name of the library or program.
    pub(crate) module: Names,
    pub(crate) imports: Vec<Import>,
    pub(crate) paths: Vec<Mention>,
}

/// A name that `use` brings into a file.
pub(crate) struct Import {
    pub(crate) name: String,
    pub(crate) path: Names,
    pub(crate) is_public: bool,
    pub(crate) in_tests: bool,
}

/// A path in the code of a file.
pub(crate) struct Mention {
    pub(crate) path: Names,
    pub(crate) in_tests: bool,
}

impl Source {
    /// Returns all files below `src`.
    pub(crate) fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Source>> = OnceLock::new();
        ALL.get_or_init(|| {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
            let files = files(&root).into_iter();
            let files = files.filter(|path| path.extension().is_some_and(|one| one == "rs"));
            let parse = |file: PathBuf| {
                let text = fs::read_to_string(&file).expect("a source");
                Self::parse(file.strip_prefix(&root).expect("below src"), text)
            };
            files.map(parse).collect()
        })
    }

    pub(crate) fn parse(path: &Path, text: String) -> Self {
        let tree = syn::parse_file(&text).expect("Rust");
        let is_test = path
            .iter()
            .any(|name| name == "tests" || name == "tests.rs");
        let mut reader = Reader {
            in_tests: is_test,
            ..Reader::default()
        };
        reader.visit_file(&tree);
        Self {
            path: path.to_owned(),
            text,
            module: module(path),
            imports: reader.imports,
            paths: reader.paths,
        }
    }

    /// Returns the module that it belongs to, directly below `src`.
    pub(crate) fn top(&self) -> String {
        let first = self.path.iter().next().expect("a path").to_string_lossy();
        first.trim_end_matches(".rs").to_owned()
    }
}

/// Returns the files below a path, or the path itself.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.into()];
    };
    let entries = entries.map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| files(&path)).collect()
}

fn module(path: &Path) -> Names {
    let path = path.with_extension("");
    let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
    let (program, names) = match &names[..] {
        [main] if main == "main" => ("gangliond", &[][..]),
        [bin, program, names @ ..] if bin == "bin" => (&**program, names),
        names => ("ganglion", names),
    };
    let is_a_name = |name: &&str| !["mod", "main", "lib"].contains(name);
    let names = names.iter().map(|name| &**name).filter(is_a_name);
    let module = std::iter::once(program).chain(names);
    module.map(str::to_owned).collect()
}

#[derive(Default)]
struct Reader {
    imports: Vec<Import>,
    paths: Vec<Mention>,
    in_tests: bool,
    /// The modules of the file around the item.
    depth: usize,
    /// The blocks of code around the item.
    blocks: usize,
}

impl Reader {
    fn mention(&mut self, path: Names) {
        // Alone, it is the visibility of an item that a macro defines.
        if path == ["super"] {
            return;
        }
        let path = self.seen_from_file(path);
        let in_tests = self.in_tests;
        self.paths.push(Mention { path, in_tests });
    }

    /// Returns a path in a module of the file as the file itself would write it.
    fn seen_from_file(&self, mut path: Names) -> Names {
        let supers = path.iter().take_while(|name| *name == "super").count();
        path.drain(..supers.min(self.depth));
        path
    }

    fn import(&mut self, tree: &UseTree, before: &[String], is_public: bool) {
        let path = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let (name, path) = match tree {
            UseTree::Path(tree) => return self.import(&tree.tree, &path(&tree.ident), is_public),
            UseTree::Group(group) => {
                let items = group.items.iter();
                return items.for_each(|tree| self.import(tree, before, is_public));
            }
            UseTree::Name(name) if name.ident == "self" => {
                (before.last().cloned(), before.to_vec())
            }
            UseTree::Name(name) => (Some(name.ident.to_string()), path(&name.ident)),
            UseTree::Rename(name) => (Some(name.rename.to_string()), path(&name.ident)),
            UseTree::Glob(_) => (before.last().cloned(), before.to_vec()),
        };
        let path = self.seen_from_file(path);
        // A module of the file that imports an item of the file adds nothing to it.
        let name = name.filter(|name| path != [&**name]);
        self.imports.extend(name.map(|name| Import {
            name,
            path,
            is_public,
            in_tests: self.in_tests,
        }));
    }

    /// Reads the paths in a macro, whose tokens have no syntax of their own.
    fn tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons) = (Names::new(), 0);
        for token in tokens {
            match &token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.mention(std::mem::take(&mut path));
                    }
                    path.push(name.to_string());
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Group(group) => self.tokens(group.stream()),
                _ => {}
            }
            colons = 0;
        }
        self.mention(path);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let before = self.in_tests;
        self.in_tests |= item.attrs.iter().any(is_test);
        self.depth += 1;
        visit::visit_item_mod(self, item);
        self.depth -= 1;
        self.in_tests = before;
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        let before = self.imports.len();
        self.import(&item.tree, &[], is_public);
        if self.blocks > 0 {
            // The rest of the file does not know the name.
            for Import { path, .. } in self.imports.split_off(before) {
                self.mention(path);
            }
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.blocks += 1;
        visit::visit_block(self, block);
        self.blocks -= 1;
    }

    /// A visibility's path says who may use an item. It uses nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|one| one.ident.to_string());
        self.mention(names.collect());
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        visit::visit_macro(self, item);
        self.tokens(item.tokens.clone());
    }

    fn visit_meta_list(&mut self, list: &'ast MetaList) {
        visit::visit_meta_list(self, list);
        self.tokens(list.tokens.clone());
    }
}

fn is_test(attribute: &Attribute) -> bool {
    let list = attribute.meta.require_list();
    list.is_ok_and(|list| list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}
