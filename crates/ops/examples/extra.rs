//! Says what TARGET has and SOURCE has not: directory by directory, with everything below it, names and bytes.
//!
//! ```text
//! cargo run --example extra -- SOURCE TARGET
//! mpirun -n 4 target/debug/examples/extra SOURCE TARGET
//! ```

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::process::ExitCode;

use atta_entry::{Entry, Failure, Kind, escape};
use atta_ops::trees::{self, At, Operation};
use atta_ops::walk::Options;
use atta_runtime::{Limits, RankError, Session, Stop, counters};

counters! {
    /// What one tree has and the other has not.
    pub(crate) struct Extra {
        /// Names.
        pub(crate) names: u64;
        /// Bytes of files.
        pub(crate) bytes: u64;
        /// Names that could not be compared.
        pub(crate) failed: u64;
    }
}

/// The operation. `each` gets every directory that has more.
pub(crate) struct Extras<F>(pub(crate) F);

impl<F: Fn(&[u8], &Extra) + Sync> Operation for Extras<F> {
    type Sum = Extra;

    fn entry(&self, at: &mut At<'_, Extra>, entry: &Entry<'_>) {
        match at.other() {
            Ok(Some(_)) => {}
            Ok(None) => {
                let bytes = if entry.kind == Kind::File { entry.size() } else { 0 };
                at.add(&Extra { names: 1, bytes, failed: 0 });
            }
            Err(errno) => {
                complain(&format!("cannot look up in SOURCE: {}: {errno}", escape(&entry.path())));
                at.add(&Extra { failed: 1, ..Extra::default() });
            }
        }
    }

    fn closed(&self, path: &[u8], sum: &Extra, is_whole: bool) {
        // What could not be read may hold more.
        let failed = sum.failed + u64::from(!is_whole && sum.failed == 0);
        let sum = Extra { failed, ..sum.clone() };
        if sum != Extra::default() {
            (self.0)(path, &sum);
        }
    }

    fn failure(&self, failure: &Failure<'_>) {
        complain(&failure.to_string());
    }
}

/// Compares the trees as one rank of a session.
pub(crate) fn extra(
    session: &mut Session<'_>,
    [source, target]: [&[u8]; 2],
    stop: &Stop,
    each: impl Fn(&[u8], &Extra) + Sync,
) -> Result<ExitCode, RankError> {
    let options = Options { stop: stop.clone(), ..Options::default() };
    match trees::run(session, &Extras(each), [target, source], &options)? {
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(errno) => {
            complain(&format!("cannot open SOURCE: {}: {errno}", escape(source)));
            Ok(ExitCode::from(4))
        }
    }
}

fn complain(what: &str) {
    let _ = writeln!(std::io::stderr(), "extra: {what}");
}

fn print(path: &[u8], Extra { names, bytes, failed }: &Extra) {
    let not_compared = if *failed > 0 { format!(", {failed} not compared") } else { String::new() };
    let _ = writeln!(std::io::stdout(), "{names} names, {bytes} bytes{not_compared}: {}", escape(path));
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let paths: Vec<_> = std::env::args_os().skip(1).map(OsString::into_vec).collect();
    let [source, target] = paths.as_slice() else { return Err("usage: extra SOURCE TARGET".into()) };
    let (mut endpoint, stop) = (atta_mpi_loader::join()?, Stop::new());
    let mut session = Session::join(&mut *endpoint, "extra", stop.clone(), Limits::default())?
        .map_err(|differs| differs.to_string())?;
    let code = extra(&mut session, [source, target], &stop, print)?;
    session.close((), |(), ()| ())?;
    endpoint.leave()?;
    Ok(code)
}
