//! Real ranks for tests: the MPIs that `ATTA_TEST_MPI` names, a plug-in built for each, and a way to launch a program.
//! The variable holds prefixes with a `bin/mpicc` and a `bin/mpirun`, with colons between. It installs nothing.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use crate::hosts::Hosts;
use crate::lock::Lock;

/// The longest that a launch may take. It only ends what hangs, and shows as exit code 124.
const PATIENCE_SECONDS: &str = "120";

/// The variable that hands a plug-in to the program.
const PLUGIN_VARIABLE: &str = "ATTA_MPI_PLUGIN";

/// What the names of directories for launches begin with, before the process of the test program.
const OWN: &str = "atta-mpi-";

/// One launch at a time in this program; other test programs are kept out by a lock file.
static LAUNCH: Mutex<()> = Mutex::new(());

/// An installed MPI and the plug-in for it.
#[derive(Debug)]
pub struct Mpi {
    mpirun: PathBuf,
    /// The plug-in that was built for it.
    pub plugin: PathBuf,
    /// What `mpirun --version` says, in one line.
    pub version: String,
}

impl Mpi {
    /// All MPIs that the variable names; none if it is not set. Plug-ins are built below `target`.
    ///
    /// # Panics
    /// An MPI that is named cannot be used.
    #[must_use]
    pub fn installed(target: &Path) -> Vec<Self> {
        let named = env::var("ATTA_TEST_MPI").unwrap_or_default();
        let prefixes = named.split(':').filter(|prefix| !prefix.is_empty());
        prefixes.enumerate().map(|(number, prefix)| Self::new(target, number, Path::new(prefix))).collect()
    }

    fn new(target: &Path, number: usize, prefix: &Path) -> Self {
        let mpirun = prefix.join("bin/mpirun");
        let said = Command::new(&mpirun).arg("--version").output().expect("mpirun prints its version");
        let version = String::from_utf8_lossy(&said.stdout).lines().take(2).collect::<Vec<_>>().join(" ");
        let plugin = build_plugin(target, &format!("mpi-{number}"), Some(&prefix.join("bin/mpicc")));
        Self { mpirun, plugin, version }
    }

    /// Whether it is an Open MPI.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.version.contains("Open MPI")
    }

    /// Its compiler for C.
    #[must_use]
    pub fn compiler(&self) -> PathBuf {
        self.mpirun.with_file_name("mpicc")
    }

    /// A launch of so many ranks; the program and its arguments are to be added.
    #[must_use]
    pub fn launch(&self, ranks: u32, plugin: Option<&Path>) -> Command {
        let mut command = patient(&self.mpirun, plugin);
        command.args(["-np", &ranks.to_string()]);
        if self.is_open() {
            command.arg("--oversubscribe");
            self.tune(&mut command);
            // Its launcher names a directory after its process, and does not begin if one that was killed has left such a directory.
            let own = own_directory();
            command.env("OMPI_MCA_btl_sm_backing_directory", &own).env("TMPDIR", &own);
        }
        command
    }

    /// As [`launch`](Self::launch), of ranks that go on when others die. None: this MPI cannot do that.
    #[must_use]
    pub fn launch_surviving(&self, ranks: u32, plugin: Option<&Path>) -> Option<Command> {
        if !self.is_open() || !self.version.contains(" 5.") {
            return None;
        }
        let mut command = self.launch(ranks, plugin);
        command.args(["--with-ft", "ulfm"]);
        Some(command)
    }

    /// A launch of so many ranks on each of these hosts; the program and its arguments are to be added. None: this MPI's
    /// launcher is not known to reach them.
    #[must_use]
    pub fn launch_on(&self, hosts: &Hosts, ranks_per_host: u32, plugin: Option<&Path>) -> Option<Command> {
        let mut command = hosts.on_front();
        add_patient(&mut command, &self.mpirun, plugin);
        let names = (0..hosts.count()).map(|host| format!("{}:{ranks_per_host}", hosts.name(host)));
        let list = names.collect::<Vec<_>>().join(",");
        if self.is_open() && self.version.contains(" 5.") {
            command.args(["--prtemca", "plm_ssh_agent"]).arg(hosts.agent()).args(["--host", &list]);
            command.args(["--mca", "mpi_yield_when_idle", "1", "--bind-to", "none", "-x", PLUGIN_VARIABLE]);
            self.tune(&mut command);
        } else if self.version.contains("HYDRA") {
            command.args(["-launcher", "ssh", "-launcher-exec"]).arg(hosts.agent()).args(["-hosts", &list]);
        } else {
            return None;
        }
        let ranks = ranks_per_host as usize * hosts.count();
        command.args(["-np", &ranks.to_string()]);
        Some(command)
    }

    /// What an Open MPI needs to begin soon, and as root.
    fn tune(&self, command: &mut Command) {
        // Without this list Open MPI 5 takes a second to begin.
        if self.version.contains(" 5.") {
            command.args(["--mca", "btl", "self,sm,tcp"]);
        }
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
}

/// An empty directory for the files of one launch. A launch that is killed leaves some: the next test program removes them.
fn own_directory() -> PathBuf {
    static FIRST: Once = Once::new();
    static LAUNCHES: AtomicU64 = AtomicU64::new(0);
    let memory = Path::new("/dev/shm");
    let above = if memory.is_dir() { memory.to_owned() } else { env::temp_dir() };
    FIRST.call_once(|| remove_old(&above));
    let launch = LAUNCHES.fetch_add(1, Ordering::Relaxed);
    let own = above.join(format!("{OWN}{}", std::process::id())).join(launch.to_string());
    fs::create_dir_all(&own).expect("a directory can be made");
    own
}

/// Removes the directories of test programs that have ended.
#[expect(clippy::disallowed_methods, reason = "directories of tests, which have names of their own")]
fn remove_old(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(OWN));
        if process.is_some_and(|process| !Path::new("/proc").join(process).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A command that a hang does not outlive, with this plug-in.
#[must_use]
pub fn patient(program: &Path, plugin: Option<&Path>) -> Command {
    let mut command = Command::new("env");
    add_patient(&mut command, program, plugin);
    command
}

/// The same behind a program that starts another one.
fn add_patient(command: &mut Command, program: &Path, plugin: Option<&Path>) {
    command.args(["timeout", "--kill-after=10", PATIENCE_SECONDS]).arg(program).env_remove(PLUGIN_VARIABLE);
    if let Some(plugin) = plugin {
        command.env(PLUGIN_VARIABLE, plugin);
    }
}

/// Runs a launch when no other one runs: ranks that poll take all cores.
///
/// # Panics
/// The command cannot be started.
#[must_use]
pub fn alone(command: &mut Command) -> Output {
    let _here = LAUNCH.lock().unwrap_or_else(PoisonError::into_inner);
    let _everywhere = Lock::acquire("mpi").expect("a lock file can be made");
    command.output().expect("the command starts")
}

/// Builds the plug-in, or without a compiler the stub, and moves it to where the next one does not replace it.
///
/// # Panics
/// It cannot be built.
#[must_use]
pub fn build_plugin(target: &Path, name: &str, mpicc: Option<&Path>) -> PathBuf {
    let target = target.join("plug-ins");
    cargo(Some(&target), mpicc.map(Path::as_os_str), &["--package", "atta-fabric-mpi"]);
    let place = target.join(name).join("libatta_mpi.so");
    let built = fs::read(target.join("debug/libatta_mpi.so")).expect("the plug-in was built");
    fs::create_dir_all(place.parent().unwrap_or(&target)).expect("a directory can be made");
    // Into its place as a whole: ranks of another test may run the old one, and would die of a file that shrinks.
    let fresh = place.with_extension(format!("so.{}", std::process::id()));
    fs::write(&fresh, built).expect("the plug-in can be copied");
    fs::rename(&fresh, &place).expect("the plug-in can be put into its place");
    place
}

/// Builds an example, which is then beside this test program, built in the same way.
///
/// # Panics
/// It cannot be built.
#[must_use]
pub fn build_example(package: &str, example: &str) -> PathBuf {
    let test = env::current_exe().expect("a test program has a path");
    let profile = test.ancestors().nth(2).expect("it is in a target directory");
    let mut arguments = vec!["--package", package, "--example", example];
    if profile.ends_with("release") {
        arguments.push("--release");
    }
    cargo(profile.parent(), None, &arguments);
    profile.join("examples").join(example)
}

fn cargo(target: Option<&Path>, mpicc: Option<&OsStr>, arguments: &[&str]) {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--jobs", "2"]).args(arguments).env_remove("MPICC");
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    if let Some(target) = target {
        command.arg("--target-dir").arg(target);
    }
    if let Some(mpicc) = mpicc {
        command.env("MPICC", mpicc);
    }
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?}");
}
