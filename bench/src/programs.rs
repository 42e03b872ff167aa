//! The programs that compete: our own, built here, and the peers, found on this machine or installed on demand.
//!
//! A peer that is missing is no error; the benchmark says so and goes on.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The workspace's member that this is; its directory lies in the source tree.
pub(crate) const PACKAGE_DIRECTORY: &str = env!("CARGO_MANIFEST_DIR");

/// The directory that cargo builds into, known from where a program of ours lies: `<target>/release/atta-bench`.
///
/// # Errors
///
/// If the program was moved elsewhere.
pub(crate) fn target_directory(program: &Path) -> Result<PathBuf, String> {
    let target = program.parent().and_then(Path::parent).filter(|path| path.file_name().is_some());
    target.map(Path::to_owned).ok_or_else(|| "this program does not lie in a target directory".into())
}

/// Builds one of our packages in release; the directory of its programs.
///
/// # Errors
///
/// If cargo fails. What it says goes to the terminal.
pub(crate) fn build(package: &str, target: &Path) -> Result<PathBuf, String> {
    build_with(None, package, target)
}

/// The same of a package that is compiled for the MPI whose compiler `mpicc` is.
///
/// # Errors
///
/// If cargo fails.
pub(crate) fn build_for(mpicc: &Path, package: &str, target: &Path) -> Result<PathBuf, String> {
    build_with(Some(mpicc), package, target)
}

fn build_with(mpicc: Option<&Path>, package: &str, target: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--package", package, "--target-dir"]).arg(target);
    command.arg("--manifest-path").arg(Path::new(PACKAGE_DIRECTORY).join("Cargo.toml"));
    if let Some(mpicc) = mpicc {
        command.env("MPICC", mpicc);
    }
    succeed(&mut command)?;
    Ok(target.join("release"))
}

/// A program that does a job like ours.
#[derive(Clone, Copy)]
pub(crate) struct Peer {
    /// The names it may have, by preference. Debian renames some.
    names: &'static [&'static str],
    /// Where it comes from.
    source: Source,
}

#[derive(Clone, Copy)]
enum Source {
    Debian(&'static str),
    Crate(&'static str),
    /// Nobody packages it: it is built by hand.
    Project(&'static str),
}

/// find of the GNU findutils.
pub(crate) const FIND: Peer = Peer { names: &["find"], source: Source::Debian("findutils") };
/// bfs, a breadth-first find.
pub(crate) const BFS: Peer = Peer { names: &["bfs"], source: Source::Debian("bfs") };
/// fd, which finds names with threads.
pub(crate) const FD: Peer = Peer { names: &["fd", "fdfind"], source: Source::Debian("fd-find") };
/// du of the GNU coreutils.
pub(crate) const DU: Peer = Peer { names: &["du"], source: Source::Debian("coreutils") };
/// pdu, a du with threads.
pub(crate) const PDU: Peer = Peer { names: &["pdu"], source: Source::Crate("parallel-disk-usage") };

/// cp of the GNU coreutils.
pub(crate) const CP: Peer = Peer { names: &["cp"], source: Source::Debian("coreutils") };
/// rsync, which compares and copies on one core.
pub(crate) const RSYNC: Peer = Peer { names: &["rsync"], source: Source::Debian("rsync") };
/// rclone, which copies with threads and compares digests afterwards.
pub(crate) const RCLONE: Peer = Peer { names: &["rclone"], source: Source::Debian("rclone") };
/// fpsync, which runs several rsync.
pub(crate) const FPSYNC: Peer = Peer { names: &["fpsync"], source: Source::Debian("fpart") };
/// xcp, a cp with threads.
pub(crate) const XCP: Peer = Peer { names: &["xcp"], source: Source::Crate("xcp") };
/// dcp of the mpiFileUtils, which copies with ranks.
pub(crate) const DCP: Peer = Peer { names: &["dcp"], source: Source::Project("mpiFileUtils") };

impl Peer {
    /// The name it is spoken of by.
    pub(crate) fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Where it lies: among the tools installed here, or on the search path.
    pub(crate) fn find(&self, tools: &Path) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places = vec![tools.join("bin")];
        places.extend(std::env::split_paths(&path));
        let candidates = |name: &&str| places.iter().map(|place| place.join(name)).collect::<Vec<_>>();
        self.names.iter().flat_map(candidates).find(|candidate| candidate.is_file())
    }

    /// Installs it: Debian's package on the system, or a crate below `tools`.
    ///
    /// # Errors
    ///
    /// If the package manager fails. What it says goes to the terminal.
    pub(crate) fn install(&self, tools: &Path) -> Result<(), String> {
        match self.source {
            Source::Debian(package) => succeed(Command::new("apt-get").args(["install", "-y", package])),
            Source::Crate(name) => {
                succeed(Command::new("cargo").args(["install", "--locked", name, "--root"]).arg(tools))
            }
            Source::Project(name) => Err(format!("{name} is built by hand")),
        }
    }

    /// The package that holds it, for the hint to a reader who lacks it.
    pub(crate) fn package(&self) -> String {
        match self.source {
            Source::Debian(name) => format!("Debian's {name}"),
            Source::Crate(name) => format!("the crate {name}"),
            Source::Project(name) => format!("{name}, to be built by hand"),
        }
    }
}

/// The first line with a digit of what a program says about its version.
pub(crate) fn version(program: &Path) -> String {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let line = text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit()));
    line.unwrap_or("unknown").trim().to_owned()
}

pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let name = Path::new(command.get_program()).file_name().unwrap_or(OsStr::new("?")).display().to_string();
    // The standard output of this benchmark is its table.
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_found_by_any_of_their_names() {
        let shell = Peer { names: &["no-such-program-at-all", "sh"], source: Source::Debian("dash") };
        let found = shell.find(Path::new("/nowhere")).unwrap();
        assert_eq!(found.file_name(), Some(OsStr::new("sh")));
        let missing = Peer { names: &["no-such-program-at-all"], ..shell };
        assert_eq!(missing.find(Path::new("/nowhere")), None);
    }

    #[test]
    fn failures_name_the_program_without_its_directory() {
        let failure = succeed(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(failure, "sh: exit status: 3");
    }
}
