//! The examples under every MPI that `ATTA_TEST_MPI` names. What they assert themselves is not repeated here.

use std::path::Path;

use atta_testkit::mpi::{Mpi, alone, build_example};
use atta_testkit::skip::skipped;

#[test]
fn examples_run_under_every_mpi() {
    let mpis = Mpi::installed(Path::new(env!("CARGO_TARGET_TMPDIR")));
    if mpis.is_empty() {
        return skipped("examples_run_under_every_mpi", "ATTA_TEST_MPI names no MPI");
    }
    for (name, ranks, line) in [
        ("scr", 16, "204800 MiB for each rank:"),
        ("spindle", 16, "64 processes on 16 hosts look for 21 libraries:"),
        ("stat", 21, "opens at nfs://10.0.0.5/project:"),
        // Mount tables for another number of ranks.
        ("scr", 3, ""),
    ] {
        let program = build_example("atta-examples", name);
        for mpi in &mpis {
            let output = alone(mpi.launch(ranks, Some(&mpi.plugin)).arg(&program));
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            let lines = said.lines().filter(|each| !line.is_empty() && *each == line).count();
            assert_eq!(lines, usize::from(!line.is_empty()), "{name}, {}: {said}", mpi.version);
            assert_eq!(output.status.success(), !line.is_empty(), "{name}, {}: {said}", mpi.version);
        }
    }
}
