//! Who competes in the benchmark `walk`, and with which arguments.
//!
//! Everybody gets the same tree. What a contender does not do that others do is said in its note.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::contest::{Contender, Product};
use crate::machine::cores;
use crate::programs::{self, BFS, DU, FD, FIND, PDU, Peer};
use crate::report::name_before;

/// What find and bfs print for each entry; the answer needs the size and the time, so every entry is stat'ed.
const LISTING: &str = "%s %T@ %p\\n";

/// Threads of the raw limit without caches: waiting threads cost little, and the disk serves many.
const COLD_THREADS: [usize; 3] = [2, 8, 32];

/// Where everybody's program lies.
pub(crate) struct Field {
    walk_limit: PathBuf,
    yardstick: Option<PathBuf>,
    /// `None` if it does not build.
    atta: Option<PathBuf>,
    /// An older one, to compare with.
    pub(crate) before: Option<PathBuf>,
    peers: Vec<(Peer, PathBuf)>,
}

impl Field {
    /// Builds our programs.
    ///
    /// # Errors
    ///
    /// If the raw limit does not build.
    pub(crate) fn gather(
        target: &Path,
        yardstick: Option<PathBuf>,
        log: impl Fn(&str),
    ) -> Result<Self, String> {
        let built = programs::build("atta-bench", target)?;
        let atta = match programs::build("atta-cli", target) {
            Ok(place) => Some(place.join("atta")),
            Err(reason) => {
                log(&format!("atta is left out, it does not build: {reason}"));
                None
            }
        };
        Ok(Self { walk_limit: built.join("walk-limit"), yardstick, atta, before: None, peers: vec![] })
    }

    /// Looks for the peers, and installs the missing ones if that is wanted.
    ///
    /// # Errors
    ///
    /// If a peer cannot be installed.
    pub(crate) fn find_peers(
        &mut self,
        target: &Path,
        install: bool,
        log: impl Fn(&str),
    ) -> Result<(), String> {
        self.peers = peers(&target.join("bench-tools"), install, log)?;
        Ok(())
    }

    /// Everybody, with caches.
    pub(crate) fn warm(&self, tree: &Path, catalog: &Path) -> Vec<Contender> {
        let mut contenders = vec![self.limit(cores(), tree)];
        if let Some(yardstick) = &self.yardstick {
            let threads = cores().to_string();
            let arguments = ["-t", &threads, "-f", "-s", "TREE"];
            contenders.push(contender(
                "yardstick",
                yardstick,
                &arguments,
                tree,
                "the raw limit by another program",
            ));
        }
        if let Some(atta) = &self.atta {
            contenders.extend(atta_variants(atta, tree, catalog));
        }
        if let Some(before) = &self.before {
            contenders.extend(atta_variants(before, tree, catalog).into_iter().take(1).map(|contender| {
                Contender { name: name_before(&contender.name), note: "the older program", ..contender }
            }));
        }
        contenders.extend(self.peers.iter().map(|(peer, program)| entrant(*peer, program, tree)));
        contenders
    }

    /// The programs whose waiting for the disk is measured.
    pub(crate) fn cold(&self, tree: &Path) -> Vec<Contender> {
        let mut contenders: Vec<_> = COLD_THREADS.iter().map(|&threads| self.limit(threads, tree)).collect();
        if let Some(atta) = &self.atta {
            contenders.push(contender(
                "atta walk",
                atta,
                &["walk", "TREE", "-q", "--progress", "never"],
                tree,
                "",
            ));
        }
        let find = self.peers.iter().filter(|(peer, _)| peer.name() == FIND.name());
        contenders.extend(find.map(|(peer, program)| entrant(*peer, program, tree)));
        contenders
    }

    fn limit(&self, threads: usize, tree: &Path) -> Contender {
        let name = format!("walk-limit -t {threads}");
        let arguments = ["-t", &threads.to_string(), "TREE"];
        let limit = contender(&name, &self.walk_limit, &arguments, tree, "the raw limit");
        Contender { is_limit: true, ..limit }
    }

    /// What each program says about its version.
    pub(crate) fn versions(&self) -> Vec<String> {
        let peers = self.peers.iter().map(|(_, program)| program);
        self.atta.iter().chain(peers).map(|program| programs::version(program)).collect()
    }
}

/// The peers that are on this machine, or are now if `install` is wanted.
fn peers(tools: &Path, install: bool, log: impl Fn(&str)) -> Result<Vec<(Peer, PathBuf)>, String> {
    let mut peers = Vec::new();
    for peer in [FIND, BFS, FD, DU, PDU] {
        if install && peer.find(tools).is_none() {
            peer.install(tools)?;
        }
        match peer.find(tools) {
            Some(program) => peers.push((peer, program)),
            None => log(&format!(
                "{} is left out, it is not installed (--install takes {})",
                peer.name(),
                peer.package()
            )),
        }
    }
    Ok(peers)
}

/// The ways to run `atta walk`, from the least that it does to the most.
fn atta_variants(atta: &Path, tree: &Path, catalog: &Path) -> Vec<Contender> {
    let variant = |name: &str, more: &[&str], note| {
        let arguments = [&["walk", "TREE", "-q", "--progress", "never"], more].concat();
        contender(name, atta, &arguments, tree, note)
    };
    let mut cataloged = variant("atta walk, catalog", &["--output"], "writes every attribute to a catalog");
    cataloged.command.push(catalog.into());
    cataloged.product = Some(Product::unchecked(catalog));
    vec![
        variant("atta walk", &[], ""),
        variant("atta walk, all attributes", &["--callback", "full"], "reads every attribute and path"),
        cataloged,
        variant("atta walk, lite", &["--lite"], "stats nothing"),
    ]
}

/// A peer with the arguments that make it do a comparable job.
fn entrant(peer: Peer, program: &Path, tree: &Path) -> Contender {
    let (arguments, note): (&[&str], _) = match peer.name() {
        "find" | "bfs" => (&["TREE", "-printf", LISTING], "formats size, time and path"),
        "fd" => (&["-u", ".", "TREE"], "formats the path; stats nothing"),
        "pdu" => (&["--quantity", "block-size", "--max-depth", "1", "TREE"], "adds blocks up"),
        _ => (&["-s", "TREE"], "adds blocks up"),
    };
    contender(peer.name(), program, arguments, tree, note)
}

/// A contender that makes nothing; the argument `TREE` stands for the path of the tree.
fn contender(name: &str, program: &Path, arguments: &[&str], tree: &Path, note: &'static str) -> Contender {
    let argument = |&word: &&str| {
        if word == "TREE" { tree.into() } else { OsString::from(word) }
    };
    let command = std::iter::once(program.into()).chain(arguments.iter().map(argument)).collect();
    Contender { name: name.into(), command, note, is_limit: false, product: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_gets_the_tree_in_place_of_the_word() {
        let made = entrant(FIND, Path::new("/bin/find"), Path::new("/big/tree"));
        assert_eq!(made.command, ["/bin/find", "/big/tree", "-printf", "%s %T@ %p\\n"]);
    }

    #[test]
    fn the_catalog_is_removed_after_its_run() {
        let variants =
            atta_variants(Path::new("/bin/atta"), Path::new("/big/tree"), Path::new("/big/catalog"));
        let cataloged = variants.iter().find(|variant| variant.product.is_some()).unwrap();
        assert_eq!(cataloged.command.last().unwrap(), "/big/catalog");
        let product = cataloged.product.as_ref().map(|product| product.path.as_path());
        assert_eq!(product, Some(Path::new("/big/catalog")));
    }
}
