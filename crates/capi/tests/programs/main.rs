//! C and C++ programs that use the library as its users do: compiled with warnings as errors, linked with `libatta.a` and with
//! `libatta.so`, run on the ring and on threads, under valgrind and with AddressSanitizer. The tests are in `tests/c`.
//!
//! The library is built here, beside this test program and in the same way: if this program was built with AddressSanitizer,
//! so is the library (`./check aio` does that, where there is a nightly toolchain).

mod compiled;
mod status;

use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use atta_testkit::scratch::Scratch;
use atta_testkit::skip::skipped;

use compiled::{
    LIBRARY, Link, PATIENCE_SECONDS, STANDS_IN, SYSTEM, compile, everywhere, good, has, here, is_sanitized,
    run, sanitizer,
};

#[test]
fn a_program_written_for_pxfs_runs() {
    everywhere("a_program_written_for_pxfs_runs", "chain.c");
}

#[test]
fn every_function_does_what_posix_says() {
    everywhere("every_function_does_what_posix_says", "every.c");
}

#[test]
fn wrong_arguments_are_errors() {
    everywhere("wrong_arguments_are_errors", "nulls.c");
}

#[test]
fn reads_at_one_position_get_different_bytes() {
    everywhere("reads_at_one_position_get_different_bytes", "reads.c");
}

#[test]
fn bare_fork_is_reported_and_exec_works() {
    everywhere("bare_fork_is_reported_and_exec_works", "forks.c");
}

#[test]
fn waiting_cancelling_and_shutting_down_end() {
    everywhere("waiting_cancelling_and_shutting_down_end", "waits.c");
}

#[test]
fn futures_of_hpx_as_far_as_a_stand_in_goes() {
    everywhere("futures_of_hpx_as_far_as_a_stand_in_goes", STANDS_IN);
}

#[test]
fn continuations_compile_and_run_in_c_and_cpp() {
    let test = "continuations_compile_and_run_in_c_and_cpp";
    for source in ["forms.c", "forms.cpp"] {
        everywhere(test, source);
        let scratch = Scratch::new("capi-forms").unwrap();
        compile(test, source, Link::Static, &["-Wpedantic"], scratch.path());
    }
}

#[test]
fn coroutines_and_futures() {
    everywhere("coroutines_and_futures", "coroutines.cpp");
}

const PROGRAMS: [&str; 15] = [
    "chain.c",
    "every.c",
    "nulls.c",
    "reads.c",
    "forks.c",
    "waits.c",
    "forms.c",
    "forms.cpp",
    "coroutines.cpp",
    STANDS_IN,
    "status.c",
    "status.cpp",
    "status_forks.c",
    "status_threads.c",
    "status_wrong.c",
];

/// Whether processes of a program end with memory that only threads of another process referenced, after a bare fork.
fn leaves_memory(source: &str) -> bool {
    source == "forks.c"
}

#[test]
fn valgrind_finds_nothing() {
    let test = "valgrind_finds_nothing";
    if !has("valgrind") {
        return skipped(test, "no valgrind");
    }
    let scratch = Scratch::new("capi-valgrind").unwrap();
    let valgrind = [
        "valgrind",
        "--quiet",
        "--error-exitcode=99",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        "--fair-sched=yes",
    ];
    for source in PROGRAMS {
        // Valgrind does not support rings.
        let Some(program) = compile(test, source, Link::Static, &[], scratch.path()) else { return };
        let leaks = if leaves_memory(source) { "--leak-check=no" } else { "--leak-check=full" };
        run(&program, &[&valgrind[..], &[leaks]].concat(), &[("ATTA_AIO", "threads")]);
    }
}

#[test]
fn address_sanitizer_finds_nothing() {
    let test = "address_sanitizer_finds_nothing";
    let scratch = Scratch::new("capi-asan").unwrap();
    let Some(more) = sanitizer(test, scratch.path()) else { return };
    for source in PROGRAMS {
        let Some(program) = compile(test, source, Link::Static, &more, scratch.path()) else { return };
        for backend in ["best", "threads"] {
            let leaks = if leaves_memory(source) { "detect_leaks=0" } else { "detect_leaks=1" };
            run(&program, &[], &[("ATTA_AIO", backend), ("ASAN_OPTIONS", leaks)]);
        }
    }
}

/// If the library itself is built with AddressSanitizer, its memory accesses are checked, not only the program's.
#[test]
fn address_sanitizer_sees_what_the_library_does() {
    let test = "address_sanitizer_sees_what_the_library_does";
    let scratch = Scratch::new("capi-asan").unwrap();
    if !is_sanitized() {
        return;
    }
    let Some(more) = sanitizer(test, scratch.path()) else { return };
    let Some(program) = compile(test, "frees.c", Link::Static, &more, scratch.path()) else { return };
    for backend in ["best", "threads"] {
        let mut command = Command::new("timeout");
        command.args(["--kill-after=10", PATIENCE_SECONDS]).arg(&program).env("ATTA_AIO", backend);
        let output = command.output().expect("timeout is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("heap-use-after-free"), "{output:?}");
        assert!(said.contains("WRITE of size 8"), "{said}");
    }
}

#[test]
fn an_installed_library_is_found_by_pkg_config() {
    let test = "an_installed_library_is_found_by_pkg_config";
    if !has("pkg-config") || !has("gcc") {
        return skipped(test, "no pkg-config, or no gcc");
    }
    let scratch = Scratch::new("capi-prefix").unwrap();
    let prefix = scratch.path();
    install(prefix).unwrap();
    run_installed(prefix);
}

/// Compiles and runs a program with the files installed in a directory, as `pkg-config` reports them.
fn run_installed(prefix: &Path) {
    let mut asked = Command::new("pkg-config");
    asked.args(["--cflags", "--libs", "atta"]).env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let flags = String::from_utf8_lossy(&good(&mut asked).stdout).into_owned();
    let (program, libraries) = (prefix.join("chain"), prefix.join("lib"));
    let mut command = Command::new("gcc");
    command.arg("-std=c11").arg(here("tests/c/chain.c")).arg("-o").arg(&program);
    good(command.args(flags.split_whitespace()).arg("-lpthread"));
    run(&program, &[], &[("LD_LIBRARY_PATH", &libraries.to_string_lossy())]);
}

#[test]
#[ignore = "builds the library in a way of its own"]
fn cargo_c_installs_what_the_readme_says() {
    let test = "cargo_c_installs_what_the_readme_says";
    if !["cargo-cinstall", "pkg-config", "gcc"].into_iter().all(has) {
        return skipped(test, "no cargo-c, no pkg-config, or no gcc");
    }
    let scratch = Scratch::new("capi-cargo-c").unwrap();
    let prefix = scratch.path().join("prefix");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["cinstall", "--profile", "dev", "--package", "atta-capi", "--prefix"]).arg(&prefix);
    command.arg("--libdir").arg(prefix.join("lib")).arg("--target-dir").arg(LIBRARY.join("cargo-c"));
    good(command.current_dir(env!("CARGO_MANIFEST_DIR")));
    for header in HEADERS {
        assert!(prefix.join("include").join(header).exists(), "{header}");
    }
    let soname =
        format!("libatta.so.{}.{}", env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    assert!(prefix.join("lib/libatta.a").exists() && prefix.join("lib").join(soname).exists());
    run_installed(&prefix);
}

#[test]
fn the_example_of_the_readme_runs() {
    let test = "the_example_of_the_readme_runs";
    if !has("gcc") {
        return skipped(test, "no gcc");
    }
    let readme = fs::read_to_string(here("README.md")).unwrap();
    let example = readme.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let scratch = Scratch::new("capi-readme").unwrap();
    let (source, program) = (scratch.path().join("example.c"), scratch.path().join("example"));
    fs::write(&source, example).unwrap();
    let mut command = Command::new("gcc");
    command.args(["-Wall", "-Wextra", "-Werror", "-std=c11", "-I"]).arg(here("include")).arg(&source);
    good(command.arg("-o").arg(&program).arg(LIBRARY.join("libatta.a")).args(SYSTEM));
    run(&program, &[], &[]);
}

const HEADERS: [&str; 7] =
    ["atta.h", "pxfs.h", "atta_status.h", "atta_status_mpi.h", "atta.hpp", "atta_hpx.hpp", "atta_status.hpp"];

/// Installs files at the places that README.md names.
fn install(prefix: &Path) -> io::Result<()> {
    fs::create_dir_all(prefix.join("include"))?;
    fs::create_dir_all(prefix.join("lib/pkgconfig"))?;
    for header in HEADERS {
        fs::write(prefix.join("include").join(header), fs::read(here("include").join(header))?)?;
    }
    fs::write(prefix.join("lib/libatta.so"), fs::read(LIBRARY.join("libatta.so"))?)?;
    let template = fs::read_to_string(here("atta.pc.in"))?;
    let filled = template.replace("@PREFIX@", prefix.to_str().unwrap_or_default());
    let filled = filled.replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    fs::write(prefix.join("lib/pkgconfig/atta.pc"), filled)
}

/// Names that a header declares: the word before a parenthesis, in a line that is not indented.
fn declared() -> Vec<String> {
    let mut names = Vec::new();
    for header in ["include/atta.h", "include/pxfs.h", "include/atta_status.h"] {
        let text = fs::read_to_string(here(header)).expect("the header is there");
        let is_declaration = |line: &&str| {
            line.starts_with("int ") || line.starts_with("atta_op ") || line.starts_with("const ")
        };
        for line in text.lines().filter(is_declaration) {
            let before = line.split('(').next().unwrap_or(line);
            names.push(before.rsplit([' ', '*']).next().unwrap_or(before).to_owned());
        }
    }
    names.sort();
    names
}

#[test]
fn headers_declare_what_the_library_exports() {
    let test = "headers_declare_what_the_library_exports";
    if !has("nm") {
        return skipped(test, "no nm");
    }
    let mut command = Command::new("nm");
    command.args(["--dynamic", "--defined-only", "--format=posix"]).arg(LIBRARY.join("libatta.so"));
    let said = String::from_utf8(good(&mut command).stdout).unwrap();
    let mut exported: Vec<_> = said.lines().filter_map(|line| line.split(' ').next()).collect();
    exported.sort_unstable();
    let declared = declared();
    assert!(declared.len() > 120, "{declared:?}");
    assert_eq!(declared, exported);
}

/// Whether a function is one of `atta_status.h`.
fn is_of_status(name: &str) -> bool {
    let header = fs::read_to_string(here("include/atta_status.h")).expect("the header is there");
    header.contains(&format!(" {name}(")) || header.contains(&format!("*{name}("))
}

#[test]
fn every_function_is_tested() {
    let read = |name: &str| fs::read_to_string(here("tests/c").join(name)).unwrap();
    let uses = ["every.c", "reads.c", "waits.c", "status.c", "status_threads.c"].map(read).concat();
    let wrong = ["nulls.c", "status_wrong.c"].map(read).concat();
    for name in declared() {
        assert!(uses.contains(&format!("{name}(")), "{name} is used");
        if name.starts_with("pxfs_") || is_of_status(&name) {
            // The 64-bit forms are the same functions under another name.
            let other = name.strip_suffix("64").map_or(format!("{name}64"), str::to_owned);
            let is_there = [name.clone(), other].iter().any(|name| wrong.contains(&format!("{name}(")));
            assert!(is_there, "{name} is given wrong arguments");
        }
    }
}
