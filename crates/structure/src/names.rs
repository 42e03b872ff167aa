//! Which file of a crate names items of which other one. Names of modules are resolved as the compiler does, but for
//! macros, of whose input only paths of two names or more are looked at.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;
use syn::{Item, ItemUse, Macro, UseTree};

use crate::crate_source::{CrateSource, attributes, is_test};

/// The longest chain of re-exports: beyond it there is a circle.
const ALIASES_MAX: u32 = 16;

/// Pairs of files of which the first imports the second, by index, each once.
pub(crate) fn imports(source: &CrateSource) -> Vec<(usize, usize)> {
    let names = Names::of(source);
    let mut edges = BTreeSet::new();
    for (file, parsed) in source.files.iter().enumerate() {
        let mut uses = Uses { module: parsed.module.clone(), paths: Vec::new() };
        parsed.items.iter().for_each(|item| uses.visit_item(item));
        for (module, path) in uses.paths {
            if let Some(definer) = names.definer(&module, &path)
                && definer != file
            {
                edges.insert((file, definer));
            }
        }
    }
    edges.into_iter().collect()
}

type ModulePath = Vec<String>;

/// What the modules of a crate define and rename.
#[derive(Default)]
struct Names {
    modules: BTreeMap<ModulePath, Module>,
}

#[derive(Default)]
struct Module {
    file: usize,
    items: BTreeSet<String>,
    /// Names that stand for paths.
    aliases: BTreeMap<String, Vec<String>>,
    /// Modules all of whose names are names here, too.
    globs: Vec<Vec<String>>,
}

/// What a path leads to.
enum Found {
    Module(ModulePath),
    /// An item, and the file in which it stands.
    Item(usize),
}

impl Names {
    fn of(source: &CrateSource) -> Self {
        let mut names = Self::default();
        for (index, file) in source.files.iter().enumerate() {
            names.add(index, &file.module, &file.items);
        }
        names
    }

    fn add(&mut self, file: usize, path: &ModulePath, items: &[Item]) {
        let mut module = Module { file, ..Module::default() };
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Use(item) => flatten(&item.tree, &mut Vec::new(), &mut |name, path| match name {
                    Some(name) => drop(module.aliases.insert(name, path)),
                    None => module.globs.push(path),
                }),
                Item::Mod(inner) => {
                    if let Some((_, items)) = &inner.content {
                        let mut path = path.clone();
                        path.push(inner.ident.to_string());
                        self.add(file, &path, items);
                    }
                }
                _ => module.items.extend(name_of(item)),
            }
        }
        self.modules.insert(path.clone(), module);
    }

    /// The file that defines what a path in a module leads to, if that is an item of this crate.
    fn definer(&self, module: &ModulePath, path: &[String]) -> Option<usize> {
        match self.resolve(module, path, 0)? {
            Found::Item(file) => Some(file),
            Found::Module(_) => None,
        }
    }

    fn resolve(&self, module: &ModulePath, path: &[String], aliases: u32) -> Option<Found> {
        let (first, mut rest) = path.split_first()?;
        let mut here = match first.as_str() {
            "crate" => Found::Module(Vec::new()),
            "self" => Found::Module(module.clone()),
            "super" => Found::Module(module[..module.len().checked_sub(1)?].to_vec()),
            name => self.look_up(module, name, aliases)?,
        };
        while let Found::Module(module) = &here {
            let Some((name, further)) = rest.split_first() else { break };
            here = match name.as_str() {
                "super" => Found::Module(module[..module.len().checked_sub(1)?].to_vec()),
                name => self.look_up(&module.clone(), name, aliases)?,
            };
            rest = further;
        }
        Some(here)
    }

    /// What a name means in a module.
    fn look_up(&self, path: &ModulePath, name: &str, aliases: u32) -> Option<Found> {
        let module = self.modules.get(path)?;
        if module.items.contains(name) {
            return Some(Found::Item(module.file));
        }
        let mut child = path.clone();
        child.push(name.to_owned());
        if self.modules.contains_key(&child) {
            return Some(Found::Module(child));
        }
        if aliases > ALIASES_MAX {
            return None;
        }
        if let Some(target) = module.aliases.get(name) {
            return self.resolve_alias(path, target, aliases + 1);
        }
        module.globs.iter().find_map(|glob| match self.resolve_alias(path, glob, aliases + 1)? {
            Found::Module(module) => self.look_up(&module, name, aliases + 1),
            Found::Item(_) => None,
        })
    }

    /// A path of a `use` that renames nothing would else lead to itself.
    fn resolve_alias(&self, path: &ModulePath, target: &[String], aliases: u32) -> Option<Found> {
        let is_own = target.len() == 1
            && self.modules.get(path)?.aliases.get(&target[0]).is_some_and(|own| own == target);
        if is_own { None } else { self.resolve(path, target, aliases) }
    }
}

/// The name by which an item is known to other modules.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

/// Each name that a `use` brings, with its path; none for a glob.
fn flatten(tree: &UseTree, path: &mut Vec<String>, found: &mut impl FnMut(Option<String>, Vec<String>)) {
    match tree {
        UseTree::Path(part) => {
            path.push(part.ident.to_string());
            flatten(&part.tree, path, found);
            path.pop();
        }
        UseTree::Name(name) if name.ident == "self" => found(path.last().cloned(), path.clone()),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            found(Some(name.clone()), [path.as_slice(), &[name]].concat());
        }
        UseTree::Rename(name) if name.ident == "self" => found(Some(name.rename.to_string()), path.clone()),
        UseTree::Rename(name) => {
            found(Some(name.rename.to_string()), [path.as_slice(), &[name.ident.to_string()]].concat());
        }
        UseTree::Glob(_) => found(None, path.clone()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, path, found)),
    }
}

/// Collects the paths that a file names, each with the module in which it stands.
struct Uses {
    module: ModulePath,
    paths: Vec<(ModulePath, Vec<String>)>,
}

impl Uses {
    fn note(&mut self, path: Vec<String>) {
        self.paths.push((self.module.clone(), path));
    }
}

impl<'a> Visit<'a> for Uses {
    fn visit_item(&mut self, item: &'a Item) {
        if is_test(attributes(item)) {
            return;
        }
        match item {
            Item::Mod(inner) if inner.content.is_some() => {
                self.module.push(inner.ident.to_string());
                syn::visit::visit_item(self, item);
                self.module.pop();
            }
            _ => syn::visit::visit_item(self, item),
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        flatten(&item.tree, &mut Vec::new(), &mut |_, path| self.note(path));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        self.note(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'a Macro) {
        self.visit_path(&called.path);
        paths_in(called.tokens.clone(), &mut |path| self.note(path));
    }
}

/// Paths of two names or more in the input of a macro.
fn paths_in(tokens: TokenStream, found: &mut impl FnMut(Vec<String>)) {
    let mut path: Vec<String> = Vec::new();
    let mut colons = 0;
    let mut end = |path: &mut Vec<String>| {
        let path = std::mem::take(path);
        if path.len() > 1 {
            found(path);
        }
    };
    let mut groups = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => colons += 1,
            TokenTree::Ident(name) => {
                if colons != 2 {
                    end(&mut path);
                }
                path.push(name.to_string());
                colons = 0;
            }
            other => {
                end(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    groups.push(group.stream());
                }
            }
        }
    }
    end(&mut path);
    groups.into_iter().for_each(|group| paths_in(group, found));
}

#[cfg(test)]
mod tests {
    use atta_testkit::scratch::Scratch;

    use super::*;

    fn source(files: &[(&str, &str)]) -> CrateSource {
        let place = Scratch::new("structure").unwrap();
        for (path, text) in files {
            let file = place.join(path);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        CrateSource::read(place.path()).unwrap()
    }

    fn pairs(source: &CrateSource) -> Vec<(&str, &str)> {
        let path = |file: usize| source.files[file].path.as_str();
        imports(source).into_iter().map(|(from, to)| (path(from), path(to))).collect()
    }

    #[test]
    fn imports_are_found_through_reexports() {
        let source = source(&[
            ("lib.rs", "mod a; mod b; mod c; pub use b::deep::Deep;"),
            ("a.rs", "use crate::Deep; fn f(_: Deep) {}"),
            ("b.rs", "pub mod deep; pub use crate::c::*;"),
            ("b/deep.rs", "pub struct Deep; fn g() { super::super::a::f() }"),
            ("c.rs", "pub fn h() { assert!(crate::b::h2::<u8>() && super::b::h()); } pub fn h2<T>() {}"),
        ]);
        assert_eq!(pairs(&source), [("lib.rs", "b/deep.rs"), ("a.rs", "b/deep.rs"), ("b/deep.rs", "a.rs")]);
    }

    #[test]
    fn names_of_tests_and_of_other_crates_are_no_imports() {
        let source = source(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use std::fs; #[cfg(test)] mod tests { use crate::b::B; } pub struct A;"),
            ("b.rs", "pub struct B; impl B { fn x() { let a = format!(\"{}\", super::a::A); } }"),
        ]);
        assert_eq!(pairs(&source), [("b.rs", "a.rs")]);
        assert_eq!(source.functions().len(), 1);
    }
}
