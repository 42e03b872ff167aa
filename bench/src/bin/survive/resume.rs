//! The rest of a copy that was killed near its end: `atta copy` with its log, `atta copy --update`, and `rsync -a`, each from a state that was
//! made anew.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Arguments, command, logged, quartiles, run, target};

/// The share of the log after which a copy is killed.
const SHARE: f64 = 0.95;

/// Copies with a log until most of it is written.
fn kill_near_the_end(arguments: &Arguments, tree: &Path, bytes: u64) -> std::io::Result<()> {
    let (job, target) = (arguments.directory.join("job"), target(arguments));
    std::fs::create_dir(&target)?;
    let mut copy = command(arguments, tree);
    copy.args(["--fsync", "none", "--iops", &arguments.killed_iops.to_string(), "--job"])
        .arg(&job)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut copy = copy.spawn()?;
    let most = (bytes as f64 * SHARE) as u64;
    while !job.exists() || logged(&job)? < most {
        if copy.try_wait()?.is_some() {
            return Err(std::io::Error::other("the copy ended before it was killed"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    copy.kill()?;
    copy.wait().map(drop)
}

/// How many regular files a tree has.
fn files_in(tree: &Path) -> std::io::Result<u64> {
    let mut files = 0;
    for entry in std::fs::read_dir(tree)? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() { files_in(&entry.path())? } else { 1 };
    }
    Ok(files)
}

/// What a run takes, beyond copying the files that are missing.
#[expect(clippy::print_stdout, reason = "the result")]
pub(super) fn measure(arguments: &Arguments, tree: &Path) -> std::io::Result<()> {
    let (job, target) = (arguments.directory.join("job"), target(arguments));
    std::fs::create_dir(&target)?;
    let whole = run(command(arguments, tree).args(["--fsync", "none"]))?.wall;
    std::fs::remove_dir_all(&target)?;
    let bytes = super::log_bytes(arguments, tree)?;
    println!("a whole copy: {whole:.2} s, log {bytes} bytes");
    let all = files_in(tree)?;
    let mut beyond = [const { Vec::new() }; 3];
    for _ in 0..arguments.rounds {
        for (which, beyond) in beyond.iter_mut().enumerate() {
            kill_near_the_end(arguments, tree, bytes)?;
            let missing = all.saturating_sub(files_in(&target)?);
            let mut rest = match which {
                0 => {
                    let mut rest = command(arguments, tree);
                    rest.args(["--fsync", "none", "--job"]).arg(&job);
                    rest
                }
                1 => {
                    let mut rest = command(arguments, tree);
                    rest.args(["--fsync", "none", "--update"]);
                    rest
                }
                _ => {
                    let mut rest = Command::new("rsync");
                    rest.arg("-a").arg(tree).arg(&target);
                    rest
                }
            };
            let spent = run(rest.stderr(Stdio::null()))?.wall;
            let copying = whole * missing as f64 / all as f64;
            println!("{which}: {spent:.3} s, {missing} of {all} files were missing");
            beyond.push(spent - copying);
            std::fs::remove_dir_all(&target)?;
            std::fs::remove_dir_all(&job)?;
        }
    }
    for (what, values) in ["resume", "atta copy --update", "rsync -a"].into_iter().zip(beyond) {
        let [low, median, high] = quartiles(values);
        println!("beyond copying what is missing, {what:<20} {median:.3} s ({low:.3} to {high:.3})");
    }
    Ok(())
}
