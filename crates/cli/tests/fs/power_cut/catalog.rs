//! Catalogs on a disk that a power cut takes at any time: the same walk goes on, and the catalog has the rows of an undisturbed one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atta_testkit::random::Random;
use atta_testkit::recorded::RecordedDisk;
use atta_testkit::scratch::Scratch;
use atta_testkit::trees;
use serde_json::Value;

use super::{Case, Counts, Found, after_boot, kill_and_run};
use crate::support::{
    Running, at, make_directory, names_in, number, parse, python, run, scratch, temporary, walk,
};

/// A walk whose catalog is recorded.
pub(super) struct CatalogCase {
    scratch: Scratch,
    tree: PathBuf,
    /// What an undisturbed walk comes to.
    totals: Value,
}

impl CatalogCase {
    pub(super) fn new(random: &mut Random) -> Self {
        let scratch = scratch("power-cut-catalog");
        let tree = make_directory(scratch.join("tree"));
        trees::random(&make_directory(tree.join("random")), random.draw(), 400).unwrap();
        trees::flat(&tree.join("flat"), 4_500).unwrap();
        for number in 0..100 {
            trees::flat(&tree.join(format!("d{number}")), 10 + random.below(60)).unwrap();
            let one = tree.join(format!("d{}/f0000001", number / 3));
            std::fs::hard_link(one, tree.join(format!("d{number}/again"))).unwrap();
        }
        let plain = run(walk(["--json"]).arg(&tree)).expect_code(0);
        let totals = at(&plain.json(), "totals").clone();
        Self { scratch, tree, totals }
    }

    fn walk(&self, disk: &Path, more: &[String]) -> Command {
        let mut command = walk(["--json", "--output"]);
        command.arg(disk.join("scan.catalog")).args(more).arg(&self.tree);
        command.env("XDG_STATE_HOME", self.scratch.join("state"));
        command
    }

    /// A run that takes some seconds, with many parts.
    fn slow(&self, disk: &Path, random: &mut Random) -> Running {
        let options = [
            ("--part-rows", 50 + random.below(300)),
            ("--iops", 500 + random.below(1_000)),
            ("-j", *random.pick(&[1, 2, 4])),
        ];
        let options = options.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]);
        let mut command = self.walk(disk, &options.collect::<Vec<_>>());
        Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    /// The catalog has these totals, each row once, and nothing else. Every tenth is read by other programs, too.
    fn assert_catalog(&self, found: &Found<'_>, said: &str) {
        let place = found.disk.join("scan.catalog");
        let manifest = parse(&std::fs::read(place.join("_manifest.json")).expect(said));
        assert_eq!(at(&manifest, "totals"), &self.totals, "{said}");
        let shards = at(&manifest, "shards").as_array().expect("shards");
        let rows: u64 = shards.iter().map(|shard| number(shard, "rows")).sum();
        assert_eq!(rows, number(&manifest, "totals.entries"), "{said}");
        assert_eq!(names_in(&place).len(), shards.len() + 2, "{said}: {:?}", names_in(&place));
        if found.number.is_multiple_of(10) {
            self.assert_rows(&place, said);
        }
    }

    fn assert_rows(&self, place: &Path, said: &str) {
        let needs = ["duckdb", "polars", "pandas", "pyarrow", "pytz"];
        let Some(mut reader) = python("power_cut", "catalog.py", &needs) else { return };
        let compared = run(reader.arg(place).arg(&self.tree));
        assert!(compared.code() == 0 && compared.out().contains("equal: "), "{said}\n{}", compared.err());
    }
}

impl Case for CatalogCase {
    fn words(&self) -> String {
        "catalog".to_owned()
    }

    fn record(&self, disk: &RecordedDisk, random: &mut Random) {
        kill_and_run(disk, random, &|random| self.slow(&disk.path(), random));
    }

    fn check(&self, found: &Found<'_>, counts: &mut Counts) {
        if found.has_ended {
            return self.assert_catalog(found, &found.said);
        }
        // It may have its name already, or not.
        let was_there = found.disk.join("scan.catalog").exists();
        let ran = run(&mut after_boot(&self.walk(found.disk, &[]), self.scratch.path()));
        let said = format!("{}\n{}{}", found.said, ran.out(), ran.err());
        if !was_there {
            assert_eq!(ran.code(), 0, "{said}");
        }
        let is_resumed = ran.err().contains("resuming the job");
        *(if is_resumed { &mut counts.resumed } else { &mut counts.anew }) += 1;
        self.assert_catalog(found, &said);
        assert_eq!(temporary(found.disk), Vec::<PathBuf>::new(), "{said}");
        let names: BTreeSet<_> = names_in(found.disk).into_iter().collect();
        let strange = names.iter().filter(|name| *name != "scan.catalog" && *name != "lost+found");
        assert_eq!(strange.count(), 0, "{said}: {names:?}");
    }
}
