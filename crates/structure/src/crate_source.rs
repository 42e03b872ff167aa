//! The source of one crate: its files, parsed, without tests. It knows where modules stand, and resolves no names.

use std::error::Error;
use std::fs;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Attribute, ImplItemFn, Item, ItemFn, Signature, TraitItemFn};

/// The files of one crate; the first is its root.
pub(crate) struct CrateSource {
    pub(crate) files: Vec<SourceFile>,
}

/// One file of source.
pub(crate) struct SourceFile {
    /// Below `src`.
    pub(crate) path: String,
    /// The path of its module, without `crate`.
    pub(crate) module: Vec<String>,
    pub(crate) items: Vec<Item>,
    code_lines: usize,
    test_lines: usize,
}

/// A function or method.
pub(crate) struct Function {
    pub(crate) file: usize,
    pub(crate) name: String,
    /// The receiver is one of them.
    pub(crate) parameters: usize,
}

impl CrateSource {
    /// Reads the crate whose root is `lib.rs` or `main.rs` in this directory.
    ///
    /// # Errors
    /// A file cannot be read, or is no Rust.
    pub(crate) fn read(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let root = ["lib.rs", "main.rs"].into_iter().find(|name| directory.join(name).exists());
        let root = root.ok_or_else(|| format!("{}: neither lib.rs nor main.rs", directory.display()))?;
        let mut source = Self { files: Vec::new() };
        source.add(directory, Path::new(root), &[])?;
        Ok(source)
    }

    /// Lines of code, and of tests.
    pub(crate) fn lines(&self) -> (usize, usize) {
        let sum = |lines: fn(&SourceFile) -> usize| self.files.iter().map(lines).sum();
        (sum(|file| file.code_lines), sum(|file| file.test_lines))
    }

    /// All functions and methods.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let mut found = Functions { file: 0, functions: Vec::new() };
        for (index, file) in self.files.iter().enumerate() {
            found.file = index;
            file.items.iter().for_each(|item| found.visit_item(item));
        }
        found.functions
    }

    fn add(&mut self, directory: &Path, file: &Path, module: &[String]) -> Result<(), Box<dyn Error>> {
        let whole = directory.join(file);
        let text = fs::read_to_string(&whole).map_err(|error| format!("{}: {error}", whole.display()))?;
        let parsed = syn::parse_file(&text).map_err(|error| format!("{}: {error}", whole.display()))?;
        let lines = text.lines().count();
        if is_test(&parsed.attrs) {
            return Ok(());
        }
        let (tests, items): (Vec<_>, Vec<_>) =
            parsed.items.into_iter().partition(|item| is_test(attributes(item)));
        let test_lines = tests.iter().map(|item| lines_of(item).count()).sum();
        let children: Vec<_> = items.iter().filter_map(child).collect();
        self.files.push(SourceFile {
            path: file.to_string_lossy().into_owned(),
            module: module.to_vec(),
            items,
            code_lines: lines - test_lines,
            test_lines,
        });
        let own_folder = module.iter().collect::<PathBuf>();
        for child in children {
            let mut module = module.to_vec();
            module.push(child.clone());
            let places = [own_folder.join(format!("{child}.rs")), own_folder.join(&child).join("mod.rs")];
            let place = places.into_iter().find(|place| directory.join(place).exists());
            let place = place.ok_or_else(|| format!("{}: no file of module {child}", whole.display()))?;
            self.add(directory, &place, &module)?;
        }
        Ok(())
    }
}

/// The module that an item declares in a file of its own.
fn child(item: &Item) -> Option<String> {
    match item {
        Item::Mod(module) if module.content.is_none() => Some(module.ident.to_string()),
        _ => None,
    }
}

fn lines_of(item: &Item) -> RangeInclusive<usize> {
    item.span().start().line..=item.span().end().line
}

/// Whether `#[cfg(test)]`, `#[cfg(all(test, ...))]` or `#[test]` is among them.
pub(crate) fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg_of_test = || {
            let Ok(list) = attribute.meta.require_list() else { return false };
            let text = list.tokens.to_string();
            list.path.is_ident("cfg")
                && !text.starts_with("not")
                && text.split(|each: char| !each.is_alphanumeric()).any(|word| word == "test")
        };
        attribute.path().is_ident("test") || is_cfg_of_test()
    })
}

/// The attributes of an item, where it can have `cfg(test)`.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

struct Functions {
    file: usize,
    functions: Vec<Function>,
}

impl Functions {
    fn add(&mut self, signature: &Signature, attributes: &[Attribute]) {
        if !is_test(attributes) {
            let name = signature.ident.to_string();
            self.functions.push(Function { file: self.file, name, parameters: signature.inputs.len() });
        }
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(attributes(item)) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        self.add(&item.sig, &item.attrs);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        self.add(&item.sig, &item.attrs);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a TraitItemFn) {
        self.add(&item.sig, &item.attrs);
        syn::visit::visit_trait_item_fn(self, item);
    }
}
