//! Compiles the plug-in's C part: `shim.c` for the MPI whose compiler wrapper `MPICC` names, `stub.c` if it names none.
//! The wrapper is asked once, with `-show`, for its flags; the compiler itself is cargo's choice, as for all C code.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    for file in ["src/atta_mpi.h", "src/shim.c", "src/stub.c", "build.rs"] {
        say("rerun-if-changed", file);
    }
    say("rerun-if-env-changed", "MPICC");
    let mut build = cc::Build::new();
    build.include("src").std("c11").warnings(true).extra_warnings(true).warnings_into_errors(true);
    match env::var("MPICC") {
        Ok(wrapper) if !wrapper.trim().is_empty() => with_mpi(&mut build, wrapper.trim())?,
        _ => {
            build.file("src/stub.c");
        }
    }
    build.try_compile("atta_mpi_shim")?;
    Ok(())
}

/// The flags of the wrapper: those of the preprocessor to the compiler, those of the linker to the plug-in's link.
fn with_mpi(build: &mut cc::Build, wrapper: &str) -> Result<(), Box<dyn Error>> {
    if let Some(file) = find(wrapper) {
        // Another MPI may be installed in the same place.
        say("rerun-if-changed", &file.display().to_string());
    }
    let flags = shown(wrapper)?;
    build.file("src/shim.c");
    let mut words = flags.iter().map(String::as_str).skip(1);
    while let Some(word) = words.next() {
        // Some flags are two words: `-I DIR`, `-Xlinker FLAG`.
        let value = if matches!(word, "-I" | "-L" | "-l" | "-D" | "-Xlinker") { words.next() } else { None };
        if word.starts_with("-I") || word.starts_with("-D") || word == "-pthread" {
            build.flag(word);
            value.iter().for_each(|value| {
                build.flag(value);
            });
        }
        let library = word.ends_with(".so") || word.ends_with(".a");
        if ["-L", "-l", "-Wl,", "-X", "-pthread"].iter().any(|each| word.starts_with(each)) || library {
            link(word);
            value.into_iter().for_each(link);
        }
        if let Some(directory) = word.strip_prefix("-L") {
            // So that this MPI's library is found at run time, wherever it is installed.
            link(&format!("-Wl,-rpath,{}", value.unwrap_or(directory)));
        }
    }
    Ok(())
}

/// What the wrapper would call: the compiler and its flags.
fn shown(wrapper: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let output = Command::new(wrapper)
        .arg("-show")
        .output()
        .map_err(|error| format!("cannot run MPICC={wrapper}: {error}"))?;
    let text = String::from_utf8(output.stdout)?;
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    if !output.status.success() || words.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("MPICC={wrapper} does not answer to -show: {said}").into());
    }
    Ok(words)
}

/// Where the wrapper is, as a shell would find it.
fn find(wrapper: &str) -> Option<PathBuf> {
    if wrapper.contains('/') {
        return Some(Path::new(wrapper).to_path_buf());
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(wrapper)).find(|file| file.is_file())
}

fn link(flag: &str) {
    say("rustc-cdylib-link-arg", flag);
}

fn say(key: &str, value: &str) {
    println!("cargo:{key}={value}");
}
