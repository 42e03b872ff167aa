//! Where cargo put the program that runs: its profile's directory and the target directory. Reads no configuration of
//! cargo, which a test program cannot see.

use std::io;
use std::path::{Path, PathBuf};

/// The directory of the running profile (`target/debug`), where cargo leaves the binaries of this workspace.
pub(crate) fn profile() -> io::Result<PathBuf> {
    Ok(profile_of(&std::env::current_exe()?))
}

/// The target directory, or the system's directory for temporary files where the program does not lie in one.
pub(crate) fn directory() -> PathBuf {
    let found = std::env::current_exe().ok().and_then(|program| {
        // Cargo marks every target directory with this file, whatever its name.
        let marked = program.ancestors().find(|each| each.join("CACHEDIR.TAG").exists());
        marked.map(Path::to_path_buf)
    });
    found.unwrap_or_else(std::env::temp_dir)
}

/// Test programs lie in `deps`, examples in `examples`, binaries beside both.
fn profile_of(program: &Path) -> PathBuf {
    let holder = program.parent().unwrap_or(Path::new("/"));
    let nested = holder.file_name().is_some_and(|name| name == "deps" || name == "examples");
    let profile = if nested { holder.parent().unwrap_or(holder) } else { holder };
    profile.to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_lies_above_deps_and_examples() {
        for program in ["/t/debug/deps/x-1", "/t/debug/examples/x", "/t/debug/x"] {
            assert_eq!(profile_of(Path::new(program)), Path::new("/t/debug"), "{program}");
        }
    }

    #[test]
    fn target_directory_holds_this_program() {
        let program = std::env::current_exe().unwrap();
        assert!(program.starts_with(directory()), "{}", program.display());
        assert!(profile().unwrap().starts_with(directory()));
    }
}
