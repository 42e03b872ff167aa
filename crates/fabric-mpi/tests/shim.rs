//! `shim.c` over a double of MPI, for what no MPI does when it is asked to: operations that fail and stay active. The C
//! program `double/shim.c` is the test; this file compiles and runs it.

use std::env;
use std::path::Path;
use std::process::Command;

#[test]
fn failed_operation_is_reported_and_its_request_kept() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shim");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compile = Command::new(compiler);
    compile.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-I"]).arg(here.join("tests/double"));
    compile.arg("-I").arg(here.join("src")).arg(here.join("tests/double/shim.c")).arg("-o").arg(&program);
    for mut command in [compile, Command::new(&program)] {
        let output = command.output().expect("the command starts");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&said));
    }
}
