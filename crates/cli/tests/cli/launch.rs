//! `atta launch`: shell scripts play the launcher. They kill ranks, return 0 for a job that was aborted, and have hosts that are dead. Real
//! launchers are in `tests/mpi`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use atta_testkit::scratch::Scratch;
use rustix::process::Signal;

use crate::support::{
    Ran, Running, atta, make_directory, make_file, names_in, run, run_with_input, scratch, temporary,
};

/// What each script begins with: options are taken off, and starts of `atta` are counted in the file `starts`. FILE is that of `--outcome`.
const BEGIN: &str = r#"here=${0%/*}
all=$*
while :; do case $1 in
  --oversubscribe) shift ;;
  --*=*) shift ;;
  -*) shift 2 ;;
  *) break ;;
esac; done
asks=; file=
if [ "$1" = sleep ]; then asks=yes; else file=$3; echo "$all" >>"$here/starts"; fi
[ -e "$here/starts" ] && number=$(wc -l <"$here/starts")
"#;

/// Runs `atta`, kills it when the log of its job has something, as long as this is start number `KILLS` or before, and returns 0 always.
const KILLS: &str = r#"
"$@" &
process=$!
if [ "$number" -le "$KILLS" ]; then
  until [ -n "$(find "$here" -path "*/job*/$number.0" -size +0)" ]; do sleep 0.05; done
  kill -9 "$process"
fi
wait "$process"
exit 0
"#;

/// A directory with a launcher, which is this script.
struct Launcher {
    scratch: Scratch,
}

impl Launcher {
    fn new(script: &str) -> Self {
        let scratch = scratch("launch");
        make_file(scratch.join("mpirun"), format!("{BEGIN}{script}").as_bytes());
        make_directory(scratch.join("shared"));
        Self { scratch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// `atta launch` of this launcher with its options; the arguments of `atta` follow.
    fn launch(&self, own: &[&str], options: &[&str]) -> Command {
        let mut command = atta();
        command.arg("launch").args(own).arg("--shared").arg(self.path("shared"));
        command.args(["--", "sh"]).arg(self.path("mpirun")).args(options).arg(env!("CARGO_BIN_EXE_atta"));
        command.current_dir(self.scratch.path());
        command
    }

    /// The words that each start had, up to `atta`.
    fn starts(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("starts")).unwrap_or_default();
        let before =
            |line: &str| line.split(env!("CARGO_BIN_EXE_atta")).next().unwrap().trim_end().to_owned();
        text.lines().map(before).collect()
    }

    /// Nothing of `atta launch` is left.
    #[track_caller]
    fn is_clean(&self) {
        assert_eq!(names_in(&self.path("shared")), Vec::<std::ffi::OsString>::new());
    }

    /// A tree that takes some seconds to copy with [`SLOW`].
    fn tree(&self) -> PathBuf {
        let tree = make_directory(self.path("tree"));
        for number in 0..150 {
            let directory = make_directory(tree.join(format!("d{number}")));
            atta_testkit::trees::flat(&directory, 20).unwrap();
        }
        tree
    }
}

const SLOW: [&str; 5] = ["--json", "--iops", "2000", "--fsync", "none"];

fn asserts_same(one: &Path, other: &Path) {
    run(atta().args(["verify", "--content"]).args([one, other])).expect_code(0);
}

fn again(ran: &Ran) -> usize {
    ran.err().matches("starting it again").count()
}

#[test]
fn killed_copy_is_started_again() {
    let launcher = Launcher::new(KILLS);
    let (tree, target) = (launcher.tree(), launcher.path("target"));
    let mut command = launcher.launch(&[], &["-np", "3"]);
    let ran = run(command.arg("copy").args(SLOW).args([&tree, &target]).env("KILLS", "2")).expect_code(0);
    assert_eq!(ran.json()["files"], 3000, "{}", ran.err());
    let why = "atta: mpirun ended with exit code 0 before the job came to its end; starting it again";
    assert!(ran.err().contains(&format!("{why} (1 of 3)\n")), "{}", ran.err());
    assert!(ran.err().contains(&format!("{why} (2 of 3)\n")), "{}", ran.err());
    assert_eq!(launcher.starts(), ["-np 3"; 3]);
    asserts_same(&tree, &target);
    assert_eq!(temporary(launcher.scratch.path()), Vec::<PathBuf>::new());
    launcher.is_clean();
}

#[test]
fn restart_does_not_forget_what_it_began() {
    let launcher = Launcher::new(KILLS);
    let (tree, target) = (launcher.tree(), launcher.path("target"));
    let mut command = launcher.launch(&[], &[]);
    command.args(["copy", "--restart", "--job"]).arg(launcher.path("job")).args(SLOW);
    let ran = run(command.args([&tree, &target]).env("KILLS", "1")).expect_code(0);
    assert!(ran.err().contains(": resuming the job in "), "{}", ran.err());
    assert_eq!(again(&ran), 1);
    asserts_same(&tree, &target);
}

#[test]
fn retries_are_used_up_and_resume_goes_on() {
    let launcher = Launcher::new(KILLS);
    let (tree, target) = (launcher.tree(), launcher.path("target"));
    let mut command = launcher.launch(&["--retries", "1"], &[]);
    let ran = run(command.arg("copy").args(SLOW).args([&tree, &target]).env("KILLS", "9")).expect_code(4);
    assert!(ran.err().contains("; given up after 1 new start\n"), "{}", ran.err());
    assert!(ran.err().ends_with("hint: to do what is left, give the same command again\n"), "{}", ran.err());
    assert_eq!(launcher.starts().len(), 2);
    launcher.is_clean();
    // The recorded command line is that of the copy alone.
    run(atta().arg("resume").arg(&target)).expect_code(0);
    asserts_same(&tree, &target);
}

#[test]
fn wrong_usage_is_never_repeated() {
    let launcher = Launcher::new("\"$@\"; exit 0");
    let ran = run(launcher.launch(&[], &[]).args(["copy", "--bogus", "a", "b"])).expect_code(2);
    assert!(ran.err().contains("unexpected argument '--bogus'"), "{}", ran.err());
    let ran = run(launcher.launch(&[], &[]).args(["copy", "missing", "b"]));
    assert_ne!(ran.code(), 0);
    assert_eq!(launcher.starts().len(), 2, "{}", ran.err());
    launcher.is_clean();
}

#[test]
fn exit_code_is_that_of_the_command() {
    let launcher = Launcher::new("\"$@\"; exit 0");
    let tree = launcher.tree();
    let mut command = launcher.launch(&[], &[]);
    let ran = run(command.args(["walk", "--json"]).args([&tree, &launcher.path("missing")])).expect_code(3);
    assert_eq!(ran.json()["totals"]["by_kind"]["file"], 3000);
    let mut command = launcher.launch(&[], &[]);
    run(command.args(["verify", "-q"]).args([&tree, &tree.join("d0")])).expect_code(1);
    assert_eq!(launcher.starts().len(), 2);
    launcher.is_clean();
}

#[test]
fn reports_of_ranks_decide() {
    // Lines of each start, the launcher's exit code, and what follows.
    let cases = [
        ("1) say begun; say ended 4 ;; 2) say ended 3 ;;", 0, 3, 2),
        ("*) say begun; say ended 4 ;;", 0, 4, 2),
        ("*) say ended 4 ;;", 0, 4, 1),
        ("*) say begun; say ended 143 ;;", 0, 143, 1),
        ("*) say begun; say ended 141 ;;", 1, 141, 1),
        ("*) say begun; say complete 3 ;;", 137, 3, 1),
        ("*) say begun; say complete 3; say ended 4 ;;", 0, 4, 1),
        ("*) say begun; say ended 0 ;;", 77, 0, 1),
        ("1) say begun ;; 2) ;; 3) say ended 0 ;;", 1, 0, 2),
        ("*) ;;", 0, 4, 1),
        ("*) ;;", 77, 77, 1),
    ];
    for (lines, launcher_code, code, starts) in cases {
        let say = "say() { echo \"$*\" >>\"$file\"; }";
        let launcher = Launcher::new(&format!("{say}\ncase $number in {lines} esac\nexit {launcher_code}"));
        let retries = if starts == 2 && code == 0 { "2" } else { "1" };
        let ran = run(launcher.launch(&["--retries", retries], &[]).args(["copy", "a", "b"]));
        let starts = if retries == "2" { 3 } else { starts };
        assert_eq!((ran.code(), launcher.starts().len()), (code, starts), "{lines}: {}", ran.err());
        launcher.is_clean();
    }
}

#[test]
fn signal_ends_it_for_good() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        let script = "trap 'echo caught >>\"$here/caught\"; exit 0' TERM INT HUP\necho begun >>\"$file\"\n\
                      : >\"$here/waits\"\nwhile :; do sleep 0.05; done";
        let launcher = Launcher::new(script);
        let mut command = launcher.launch(&[], &[]);
        let command = command.args(["copy", "a", "b"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = Running::start(command);
        let waits = launcher.path("waits");
        running.wait_until(|| waits.exists());
        running.signal(signal);
        let ran = running.finish().expect_code(code);
        assert_eq!(std::fs::read_to_string(launcher.path("caught")).unwrap(), "caught\n");
        assert_eq!(launcher.starts().len(), 1, "{}", ran.err());
        launcher.is_clean();
    }
}

#[test]
fn signal_interrupts_the_copy_itself() {
    let launcher = Launcher::new("exec \"$@\"");
    let (tree, target, job) = (launcher.tree(), launcher.path("target"), launcher.path("job"));
    let mut command = launcher.launch(&[], &[]);
    command.arg("copy").arg("--job").arg(&job).args(SLOW).args([&tree, &target]);
    let mut running = Running::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    running.wait_until(|| std::fs::metadata(job.join("1.0")).is_ok_and(|log| log.len() > 0));
    running.signal(Signal::TERM);
    let ran = running.finish().expect_code(143);
    assert_eq!(again(&ran), 0, "{}", ran.err());
    assert_eq!(ran.json()["interrupted"], true, "{}", ran.out());
    run(atta().arg("resume").arg(&job)).expect_code(0);
    asserts_same(&tree, &target);
}

/// A launcher whose host `b` is dead after the first start, and that copies nothing.
const DEAD: &str = r#"
if [ -n "$asks" ]; then
  case $all in *" b"* | *=b*) exit 1 ;; *hangs*) exec sleep 1000 ;; esac
  exit 0
fi
echo begun >>"$file"
[ "$number" = 2 ] && echo ended 0 >>"$file"
exit 1
"#;

/// The words of both starts, and what was said.
fn starts_with_dead_host(options: &[&str]) -> (Vec<String>, String) {
    let launcher = Launcher::new(DEAD);
    let ran = run(launcher.launch(&[], options).args(["copy", "x", "y"]));
    launcher.is_clean();
    let ran = ran.expect_code(0);
    (launcher.starts(), ran.err())
}

#[test]
fn dead_host_is_left_out() {
    let (starts, said) = starts_with_dead_host(&["--host", "a:2,b:2,c:1", "-np", "5", "--mca", "x"]);
    assert_eq!(starts, ["--host a:2,b:2,c:1 -np 5 --mca x", "--host a:2,c:1 -np 3 --mca x"], "{said}");
    assert!(said.contains("atta: host b does not answer and is left out\n"), "{said}");
    assert!(said.contains("atta: 3 ranks are started instead of 5\n"), "{said}");
    let (starts, said) = starts_with_dead_host(&["--hosts=a,b,c", "--oversubscribe", "-n", "9"]);
    assert_eq!(starts[1], "--hosts=a,c --oversubscribe -n 9", "{said}");
    assert!(!said.contains("ranks are started"), "{said}");
    // All are there.
    let (starts, said) = starts_with_dead_host(&["-H", "a,c", "-c", "2"]);
    assert_eq!(starts, ["-H a,c -c 2"; 2], "{said}");
}

/// A launcher can fail once for reasons of its own: the host is asked again.
#[test]
fn host_that_answers_the_second_time_is_kept() {
    let script = DEAD.replacen("case", "mkdir \"$here/asked\" 2>/dev/null && exit 1\ncase", 1);
    let launcher = Launcher::new(&script);
    run(launcher.launch(&[], &["--host", "a"]).args(["copy", "x", "y"])).expect_code(0);
    assert_eq!(launcher.starts(), ["--host a"; 2]);
}

#[test]
#[ignore = "a host has twice 30 seconds for its answer"]
fn host_that_hangs_is_left_out() {
    let (starts, said) = starts_with_dead_host(&["--host", "a,hangs,c"]);
    assert_eq!(starts[1], "--host a,c", "{said}");
}

#[test]
fn dead_host_is_left_out_of_a_host_file() {
    let launcher = Launcher::new(
        r#"
for word in $all; do case $word in "$here"/*) found=$word; break ;; esac; done
if [ -n "$asks" ]; then ! grep -q b "$found"; exit; fi
cp "$found" "$here/file-$number"
echo begun >>"$file"
[ "$number" = 2 ] && echo ended 0 >>"$file"
exit 1
"#,
    );
    let hosts = make_file(launcher.path("hosts"), b"# all\na slots=2\nb slots=4 # dead\nc:2\n");
    let hosts = hosts.to_str().unwrap();
    let ran = run(launcher.launch(&[], &["--hostfile", hosts, "-np", "8"]).args(["sum", "x"])).expect_code(0);
    let starts = launcher.starts();
    assert_eq!(starts[0], format!("--hostfile {hosts} -np 8"));
    assert!(starts[1].ends_with(" -np 4") && !starts[1].contains("/hosts "), "{starts:?}\n{}", ran.err());
    assert_eq!(std::fs::read(launcher.path("file-2")).unwrap(), b"# all\na slots=2\nc:2\n");
    launcher.is_clean();
}

#[test]
fn launch_ends_when_no_host_answers() {
    let launcher = Launcher::new("[ -n \"$asks\" ] && exit 1\necho begun >>\"$file\"\nexit 0");
    let ran = run(launcher.launch(&[], &["-hosts", "a,b"]).args(["copy", "x", "y"])).expect_code(4);
    assert!(ran.err().contains("atta: no host answers\nhint: each was asked with: sh "), "{}", ran.err());
    assert!(ran.err().contains(" -np 1 -hosts a sleep 1\n"), "{}", ran.err());
    assert_eq!(launcher.starts().len(), 1);
    launcher.is_clean();
}

#[test]
fn file_that_ranks_do_not_see_is_reported() {
    let launcher = Launcher::new("atta=$1; shift 3; exec \"$atta\" --outcome \"$here/none\" \"$@\"");
    let tree = launcher.tree();
    let mut command = launcher.launch(&[], &[]);
    let ran = run(command.arg("copy").args([&tree, &launcher.path("target")]));
    assert!(ran.err().contains("cannot open the file of atta launch: "), "{}", ran.err());
    assert!(ran.err().contains("hint: name a directory that all hosts share: atta launch --shared DIR\n"));
    assert!(!launcher.path("target").exists() && launcher.starts().len() == 1);
    ran.expect_code(2);
}

#[test]
fn first_start_alone_gets_the_input() {
    let script =
        "cat >\"$here/input-$number\"\necho begun >>\"$file\"\n[ $number = 2 ] && echo ended 0 >>\"$file\"\n";
    let launcher = Launcher::new(script);
    run_with_input(launcher.launch(&[], &[]).args(["copy", "a", "b"]), b"list\n").expect_code(0);
    assert_eq!(std::fs::read(launcher.path("input-1")).unwrap(), b"list\n");
    assert_eq!(std::fs::read(launcher.path("input-2")).unwrap(), b"");
}

#[test]
fn commands_that_cannot_be_started_are_refused() {
    let scratch = scratch("launch-refused");
    let plain = make_file(scratch.join("plain"), b"x");
    let launch = |words: &[&str]| run(atta().arg("launch").args(words));
    for program in ["/nonexistent/mpirun", plain.to_str().unwrap()] {
        let ran = launch(&["--", program, "atta", "copy", "a", "b"]).expect_code(2);
        assert!(ran.err().contains(&format!("cannot start COMMAND: {program}: ")), "{}", ran.err());
    }
    let ran = launch(&["--", "mpirun", "-np", "2", "hostname"]).expect_code(2);
    assert!(ran.err().contains("COMMAND has no word atta"), "{}", ran.err());
    let ran = launch(&["--shared", "/nonexistent", "--", "atta", "copy", "a", "b"]).expect_code(2);
    assert!(ran.err().contains("cannot make a file for the ranks: /nonexistent/"), "{}", ran.err());
    launch(&["mpirun", "atta", "copy", "a", "b"]).expect_code(2);
    launch(&[]).expect_code(2);
    let mut ranks = atta();
    ranks.args(["launch", "--", "atta", "copy", "a", "b"]).env("PMI_RANK", "0").env("PMI_SIZE", "2");
    let ran = run(&mut ranks).expect_code(2);
    assert!(ran.err().contains("atta launch runs on one rank"), "{}", ran.err());
}

#[test]
fn launch_needs_no_launcher() {
    let scratch = scratch("launch-alone");
    let tree = make_directory(scratch.join("tree"));
    atta_testkit::trees::flat(&tree, 20).unwrap();
    let target = scratch.join("target");
    let mut command = atta();
    command.args(["launch", "--", env!("CARGO_BIN_EXE_atta"), "copy"]);
    run(command.args([&tree, &target])).expect_code(0);
    asserts_same(&tree, &target);
}
