//! A real parallel file system: GlusterFS with two clients. What is walked through one client while the other one
//! changes it is what `find` sees. Started by `glusterfs.sh`, in a network namespace of its own. Copies to it are in
//! `two_clients.rs`.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use atta_mounts::{MountTable, SystemProbes, resolved};
use atta_runtime::{Limits, Session, Stop};
use atta_status::{Answer, Detail, Options, Status, SystemLooks, inspect};
use atta_testkit::lock::Lock;
use atta_testkit::scratch::Scratch;
use atta_testkit::{skip, trees};

use crate::support::{bytes_of, find, lines, make_directory, number, records, run, walk};

/// Exit code of the script where GlusterFS is not available.
const NOT_HERE: i32 = 4;

/// A running volume. It ends with the standard input of the script, and therefore also when this process dies. Dropping it waits
/// for its end.
pub(crate) struct Volume {
    script: Child,
    output: BufReader<ChildStdout>,
    scratch: Scratch,
}

impl Volume {
    /// Starts a volume. The error is the reason why there is none.
    pub(crate) fn start() -> Result<Self, String> {
        let scratch = Scratch::below(&std::env::temp_dir(), "gluster").map_err(|error| error.to_string())?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fs/glusterfs.sh");
        let mut command = Command::new("unshare");
        command.arg("--net").arg("bash").arg(script).arg(scratch.join("volume"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut script = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        let output = script.stdout.take().expect("a pipe");
        let mut volume = Self { script, output: BufReader::new(output), scratch };
        let mut line = String::new();
        volume.output.read_line(&mut line).expect("read the script's output");
        if line == "ready\n" {
            return Ok(volume);
        }
        let status = volume.script.wait().expect("wait for the script");
        let mut why = String::new();
        volume.script.stderr.take().expect("a pipe").read_to_string(&mut why).expect("read its errors");
        // Without the right to make a namespace, unshare itself says so and exits with 1.
        let lack = status.code() == Some(NOT_HERE) || why.starts_with("unshare:");
        assert!(lack, "GlusterFS does not start: {status}: {why}");
        Err(why.trim_end().to_owned())
    }

    /// Mount point of a client, `one` or `two`.
    pub(crate) fn client(&self, name: &str) -> std::path::PathBuf {
        self.scratch.join("volume").join(name)
    }

    /// Stops the volume and checks that it leaves nothing behind.
    pub(crate) fn stop(mut self) {
        drop(self.script.stdin.take());
        let status = self.script.wait().expect("wait for the script");
        let mut said = String::new();
        self.script.stderr.take().expect("a pipe").read_to_string(&mut said).expect("read its errors");
        assert!(status.success(), "{status}: {said}");
        assert!(!self.client("one").exists(), "left behind: {said}");
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        // A stopped volume has ended already.
        let _ended = self.script.wait();
    }
}

#[test]
fn a_parallel_file_system_is_walked_as_find_walks_it() {
    let test = "a_parallel_file_system_is_walked_as_find_walks_it";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let volume = match Volume::start() {
        Ok(volume) => volume,
        Err(why) => return skip::skipped(test, &why),
    };
    let (one, two) = (volume.client("one"), volume.client("two"));
    let tree = make_directory(one.join("tree"));
    trees::random(&tree.join("random"), 2, 120).unwrap();
    trees::flat(&tree.join("flat"), 150).unwrap();
    trees::chain(&tree.join("chain"), 20, b"level").unwrap();
    for client in [&one, &two] {
        rows_are_those_of_find(client);
    }
    what_one_client_changes_the_other_walks(&one, &two);
    a_vanished_directory_is_a_failed_entry_or_none(&one, &two);
    volume.stop();
}

// The clients mount the volume from two addresses of its server, of which no host knows that they are one.
#[test]
fn two_clients_of_one_volume_see_one_file() {
    let test = "two_clients_of_one_volume_see_one_file";
    let _lock = Lock::for_mounts().expect("take the lock of mounts");
    let volume = match Volume::start() {
        Ok(volume) => volume,
        Err(why) => return skip::skipped(test, &why),
    };
    let clients = ["one", "two"].map(|name| volume.client(name));
    std::fs::write(clients[0].join("file"), "content").unwrap();
    std::fs::write(clients[0].join("other"), "content").unwrap();
    let ask = |names: [&str; 2]| {
        let paths = [clients[0].join(names[0]), clients[1].join(names[1])];
        on_two_ranks(|rank, session| {
            let table = MountTable::read(&SystemProbes::new().unwrap()).unwrap();
            let status = Status::join(session, &table, Options::default()).unwrap();
            let path = resolved(bytes_of(paths[rank].to_str().unwrap()).as_slice()).unwrap();
            let found = inspect(&status, session, &path, (&SystemLooks, Detail::Names)).unwrap();
            (found.distribution.is_unique(), found.is_unique(), found.is_consistent())
        })
    };
    assert_eq!(ask(["file", "file"]), (Answer::Unknown, Answer::Yes, Answer::Yes));
    assert_eq!(ask(["file", "other"]).1, Answer::No);
    volume.stop();
}

/// What the first of two ranks returns, which are threads.
fn on_two_ranks<T: Send>(run: impl Fn(usize, &mut Session<'_>) -> T + Sync) -> T {
    std::thread::scope(|scope| {
        let run = &run;
        let ranks = atta_fabric::in_process(2).into_iter().enumerate().map(|(rank, mut endpoint)| {
            scope.spawn(move || {
                let joined = Session::join(&mut endpoint, "test", Stop::new(), Limits::default());
                let mut session = joined.unwrap().unwrap();
                let value = run(rank, &mut session);
                session.close((), |(), ()| ()).unwrap();
                value
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).next().unwrap()
    })
}

/// Kind, mode, owner, links, size, blocks, inode, time and path; and the walk's own counts.
fn rows_are_those_of_find(client: &Path) {
    let format = "%y %m %U %G %n %s %b %i %p\\0";
    let listed = find(client, ["tree", "-printf", format]);
    let ran = run(walk(["--format", "ndjson", "--threads", "8", "tree"]).current_dir(client)).expect_code(0);
    let mut rows: Vec<Vec<u8>> = crate::support::parse_lines(&ran.stdout).iter().map(row_as_find).collect();
    rows.sort();
    let expected = records(&listed);
    for (row, expected) in rows.iter().zip(&expected) {
        assert_eq!(String::from_utf8_lossy(row), String::from_utf8_lossy(expected));
    }
    assert_eq!(rows.len(), expected.len());
    for way in [&["--lite"][..], &["--threads", "1"], &["--threads", "16"], &["-x"]] {
        let ran = run(walk(["--print0", "tree"]).args(way).current_dir(client)).expect_code(0);
        let listed = find(client, ["tree", "-print0"]);
        assert!(records(&ran.stdout) == records(&listed), "{way:?} lists something else than find");
    }
}

fn row_as_find(row: &serde_json::Value) -> Vec<u8> {
    let text = |name: &str| row.get(name).and_then(serde_json::Value::as_str);
    let letter = match text("kind").expect("a kind") {
        "file" => 'f',
        "directory" => 'd',
        "symlink" => 'l',
        "fifo" => 'p',
        "socket" => 's',
        kind => panic!("unexpected kind {kind}"),
    };
    let of = |name: &str| number(row, name);
    let head = format!(
        "{letter} {:o} {} {} {} {} {} {} ",
        of("mode") & 0o7777,
        of("uid"),
        of("gid"),
        of("nlink"),
        of("size"),
        of("blocks"),
        of("inode")
    );
    let path = match text("path_raw") {
        Some(digits) => (0..digits.len() / 2)
            .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits"))
            .collect(),
        None => bytes_of(text("path").expect("a path")),
    };
    [head.into_bytes(), path].concat()
}

fn what_one_client_changes_the_other_walks(one: &Path, two: &Path) {
    let made = make_directory(one.join("tree/made"));
    trees::flat(&made.join("flat"), 50).unwrap();
    std::fs::rename(one.join("tree/chain"), made.join("moved")).unwrap();
    std::fs::remove_file(one.join("tree/flat/f0000000")).unwrap();
    let ran = run(walk(["--print", "tree/made", "tree/flat"]).current_dir(two)).expect_code(0);
    assert_eq!(lines(&ran.stdout), lines(&find(one, ["tree/made", "tree/flat"])));
    assert!(lines(&ran.stdout).contains(&bytes_of("tree/made/moved/level")));
}

/// The other client removes directories during the walk: each is listed or reported as missing, and the walk continues.
fn a_vanished_directory_is_a_failed_entry_or_none(one: &Path, two: &Path) {
    let doomed = make_directory(one.join("doomed"));
    for number in 0..40 {
        make_directory(doomed.join(format!("directory-{number}")));
    }
    let walking = {
        let mut command = walk(["--json", "--threads", "2", "doomed"]);
        command.current_dir(two).stdout(Stdio::piped()).stderr(Stdio::piped());
        crate::support::Running::start(&mut command)
    };
    for number in 0..40 {
        std::fs::remove_dir(doomed.join(format!("directory-{number}"))).unwrap();
    }
    let ran = walking.finish();
    assert!([0, 3].contains(&ran.code()), "{}: {}", ran.code(), ran.err());
    for (errno, _) in crate::support::at(&ran.json(), "errors.by_errno").as_object().unwrap() {
        assert!(["ENOENT", "ESTALE"].contains(&errno.as_str()), "{errno}: {}", ran.err());
    }
}
