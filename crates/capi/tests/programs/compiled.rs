//! Builds the library, compiles C and C++ programs with it, and runs them. It contains no test.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use atta_testkit::scratch::Scratch;
use atta_testkit::skip::skipped;

/// The program that finds the stand-in for HPX of `tests/c/hpx`. No other program does.
pub(crate) const STANDS_IN: &str = "futures.cpp";

pub(crate) static LIBRARY: LazyLock<PathBuf> = LazyLock::new(build);

/// The time limit of a program. It only ends programs that hang, and shows as exit code 124.
pub(crate) const PATIENCE_SECONDS: &str = "300";

/// The system libraries that a C program needs besides a static Rust library.
pub(crate) const SYSTEM: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

pub(crate) fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Builds the library. Returns its directory.
fn build() -> PathBuf {
    let test = env::current_exe().expect("a test program has a path");
    let profile = test.ancestors().nth(2).expect("it is in a target directory");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["build", "--quiet", "--jobs", "2", "--package", "atta-capi", "--lib", "--target-dir"]);
    // A requested target adds a directory in between.
    let above = if env::var_os("CARGO_BUILD_TARGET").is_some() { 2 } else { 1 };
    command.arg(profile.ancestors().nth(above).expect("so is its profile"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        command.arg("--release");
    }
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?}");
    profile.to_path_buf()
}

/// Whether the library is built with AddressSanitizer.
pub(crate) fn is_sanitized() -> bool {
    env::var("RUSTFLAGS").is_ok_and(|flags| flags.contains("-Zsanitizer=address"))
}

pub(crate) fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// How a program is linked.
#[derive(Clone, Copy)]
pub(crate) enum Link {
    Static,
    Shared,
}

/// Compiles a program of `tests/c`. `None`: there is no compiler.
pub(crate) fn compile(test: &str, source: &str, link: Link, more: &[&str], into: &Path) -> Option<PathBuf> {
    let (compiler, standard) =
        if source.ends_with(".cpp") { ("g++", "-std=c++20") } else { ("gcc", "-std=c11") };
    if !has(compiler) {
        skipped(test, &format!("no {compiler}"));
        return None;
    }
    let name = format!("{}-{}", source.replace('.', "-"), matches!(link, Link::Static));
    let (program, library) = (into.join(name), &*LIBRARY);
    let mut command = Command::new(compiler);
    command.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", standard]).args(more).arg("-I");
    command.arg(here("include")).arg(here("tests/c").join(source)).arg("-o").arg(&program);
    if source == STANDS_IN {
        command.arg("-I").arg(here("tests/c"));
    }
    match link {
        Link::Static => command.arg(library.join("libatta.a")).args(SYSTEM),
        Link::Shared => command.arg("-L").arg(library).args(["-latta", "-lpthread"]),
    };
    good(&mut command);
    Some(program)
}

/// Runs a command that must succeed.
pub(crate) fn good(command: &mut Command) -> Output {
    let output = command.output().expect("the program is there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    output
}

/// Runs a program in its own directory.
pub(crate) fn run(program: &Path, before: &[&str], variables: &[(&str, &str)]) {
    let scratch = Scratch::new("capi-run").expect("a directory can be made");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", PATIENCE_SECONDS]).args(before).arg(program).arg(scratch.path());
    command.env_remove("ATTA_AIO").env("LD_LIBRARY_PATH", &*LIBRARY).envs(variables.iter().copied());
    good(&mut command);
}

/// Whether the kernel permits this process to use a ring.
fn has_ring() -> bool {
    use atta_aio::driver::ring::{Ring, RingOptions};
    Ring::new(&RingOptions::default()).is_ok()
}

/// Compiles a program both ways, and runs it with every configuration.
pub(crate) fn everywhere(test: &str, source: &str) {
    let scratch = Scratch::new("capi").expect("a directory can be made");
    for link in [Link::Static, Link::Shared] {
        let Some(program) = compile(test, source, link, &[], scratch.path()) else { return };
        run(&program, &[], &[]);
        run(&program, &[], &[("ATTA_AIO", "threads")]);
        if has_ring() {
            run(&program, &[], &[("ATTA_AIO", "ring")]);
        } else {
            skipped(test, "no ring");
        }
    }
}

/// Arguments that make gcc detect invalid uses of memory. `None`: it cannot.
pub(crate) fn sanitizer(test: &str, scratch: &Path) -> Option<[&'static str; 2]> {
    let probe = scratch.join("probe.c");
    fs::write(&probe, "int main(void) { return 0; }\n").expect("a file can be made");
    let mut command = Command::new("gcc");
    command.arg("-fsanitize=address").arg(&probe).arg("-o").arg(scratch.join("probe"));
    if command.output().is_ok_and(|output| output.status.success()) {
        return Some(["-fsanitize=address", "-fno-omit-frame-pointer"]);
    }
    skipped(test, "no gcc with AddressSanitizer");
    None
}
