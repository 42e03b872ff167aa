//! Programs of `atta_status.h`: one process, threads, forked processes, and real ranks under every MPI that `ATTA_TEST_MPI` names.

use std::path::{Path, PathBuf};
use std::process::Command;

use atta_testkit::mpi::{Mpi, alone};
use atta_testkit::scratch::Scratch;
use atta_testkit::skip::skipped;

use crate::compiled::{LIBRARY, Link, SYSTEM, compile, everywhere, good, has, here, sanitizer};

#[test]
fn names_and_queries_of_one_process() {
    everywhere("names_and_queries_of_one_process", "status.c");
}

#[test]
fn wrong_arguments_of_status_are_errors() {
    everywhere("wrong_arguments_of_status_are_errors", "status_wrong.c");
}

#[test]
fn ranks_of_a_program_of_its_own() {
    everywhere("ranks_of_a_program_of_its_own", "status_threads.c");
}

#[test]
fn forked_ranks_and_ranks_that_die() {
    everywhere("forked_ranks_and_ranks_that_die", "status_forks.c");
}

#[test]
fn classes_of_cpp_for_status() {
    everywhere("classes_of_cpp_for_status", "status.cpp");
}

#[test]
fn header_of_status_is_strict_c_and_cpp() {
    let test = "header_of_status_is_strict_c_and_cpp";
    let scratch = Scratch::new("capi-strict").unwrap();
    for source in ["status_wrong.c", "status.cpp"] {
        compile(test, source, Link::Static, &["-Wpedantic", "-Wconversion"], scratch.path());
    }
}

/// Compiles the example of forked processes.
fn example(scratch: &Path, more: &[&str]) -> PathBuf {
    let program = scratch.join("status_pipes");
    let mut command = Command::new("gcc");
    command.args(["-g", "-Wall", "-Wextra", "-Werror", "-std=c11"]).args(more).arg("-I").arg(here("include"));
    command.arg(here("examples/status_pipes.c")).arg("-o").arg(&program).arg(LIBRARY.join("libatta.a"));
    good(command.args(SYSTEM));
    program
}

#[test]
fn example_of_forked_ranks_runs() {
    let test = "example_of_forked_ranks_runs";
    if !has("gcc") {
        return skipped(test, "no gcc");
    }
    let scratch = Scratch::new("capi-example").unwrap();
    let mut ways = vec![Vec::new()];
    ways.extend(sanitizer(test, scratch.path()).map(|more| more.to_vec()));
    for more in ways {
        let program = example(scratch.path(), &more);
        let output = good(Command::new(&program).args(["5", "/proc/self/status/../x"]));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected =
            "/proc/self/status/../x: unique yes, consistent yes, groups 1, ranks of this group 5\n";
        assert_eq!(said, expected);
        let output = Command::new(&program).args(["3", "relative"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert_eq!(said.matches("relative: Invalid argument").count(), 3, "{said}");
    }
}

/// Compiles the program with real ranks, with the compiler of an MPI.
fn with_mpi(mpi: &Mpi, scratch: &Path) -> PathBuf {
    let program = scratch.join("status_mpi");
    let mut command = Command::new(mpi.compiler());
    command.args(["-g", "-O1", "-Wall", "-Wextra", "-Werror", "-std=c11", "-I"]).arg(here("include"));
    command.arg(here("tests/c/status_mpi.c")).arg("-o").arg(&program).arg(LIBRARY.join("libatta.a"));
    good(command.args(SYSTEM));
    program
}

#[test]
fn ranks_of_mpi_and_a_part_of_them() {
    let test = "ranks_of_mpi_and_a_part_of_them";
    let all = Mpi::installed(Path::new(env!("CARGO_TARGET_TMPDIR")));
    if all.is_empty() || !has("gcc") || !has("g++") {
        return skipped(test, "ATTA_TEST_MPI names no MPI, or there is no gcc or g++");
    }
    for mpi in all {
        let scratch = Scratch::new("capi-mpi").unwrap();
        as_cpp(&mpi, scratch.path());
        example_for_mpi(&mpi, scratch.path());
        let program = with_mpi(&mpi, scratch.path());
        let output = alone(mpi.launch(6, None).arg(&program).arg(scratch.path()));
        assert!(output.status.success(), "{}: {output:?}", mpi.version);
    }
}

/// Compiles the example of the README.
fn example_for_mpi(mpi: &Mpi, scratch: &Path) {
    let readme = std::fs::read_to_string(here("README.md")).expect("it is there");
    let is_example = |text: &&str| text.contains("#include <atta_status_mpi.h>");
    let example = readme.split("```c\n").find(is_example).expect("it has one");
    let example = example.split("```").next().unwrap_or_default();
    let source = scratch.join("example.c");
    std::fs::write(&source, example).expect("a file can be made");
    let mut command = Command::new(mpi.compiler());
    command.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-std=c11", "-I"]).arg(here("include"));
    good(command.arg(&source));
}

/// Compiles the header for MPI as C++.
fn as_cpp(mpi: &Mpi, scratch: &Path) {
    let source = scratch.join("header.cpp");
    std::fs::write(&source, "#include \"atta_status_mpi.h\"\n").expect("a file can be made");
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-isystem"]);
    command.arg(mpi.compiler().with_file_name("../include"));
    good(command.arg("-I").arg(here("include")).arg(&source));
}
