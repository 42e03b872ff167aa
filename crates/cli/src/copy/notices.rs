//! Messages about other runs in the target of a copy, and about their leftovers.

use atta_entry::{escape, shell_quote};
use atta_ops::copy::{Notice, clean_command};

use crate::run::messages::complain;
use crate::size::{binary, counted};

/// Reports a notice, unless only errors are wanted.
pub(super) fn report(notice: &Notice, is_quiet: bool) {
    if is_quiet {
        return;
    }
    let (what, hint) = words(notice);
    complain(&format!("note: {what}"), hint.as_deref());
}

fn words(notice: &Notice) -> (String, Option<String>) {
    match notice {
        Notice::Crowded(holder) => {
            let who = holder.as_ref().map_or("who is not known".to_owned(), ToString::to_string);
            let hint = "files stay whole; for the same path, the last copy wins; --exclusive refuses";
            (format!("another copy is writing to TARGET ({who})"), Some(hint.to_owned()))
        }
        Notice::NoLocks(errno) => {
            let what = format!("cannot lock in TARGET: {errno}");
            (
                what,
                Some("other copies into it are not noticed, and are not to run at the same time".to_owned()),
            )
        }
        Notice::NoRecord(errno) => {
            let hint = "if this copy is killed, what it leaves (.atta.*) is to be removed by hand";
            (format!("cannot keep a record in TARGET: {errno}"), Some(hint.to_owned()))
        }
        Notice::Removed { holder, entries, bytes } => {
            let entries = counted(*entries, "entry", "entries");
            (format!("removed {entries}, {}, of a copy that was ended ({holder})", binary(*bytes)), None)
        }
        Notice::Resumable { holder, directory, job } => {
            let place = escape(directory);
            let what =
                format!("{place} has what another copy has not completed ({holder}); it is left as it is");
            let resume = job.as_ref().map_or_else(
                || "its command, or atta resume DIR".to_owned(),
                |job| format!("atta resume -- {}", shell_quote(job)),
            );
            let hint = format!("go on with it: {resume}; or give it up: {}", clean_command(directory));
            (what, Some(hint))
        }
        Notice::Begun { holder, directory } => {
            let place = escape(directory);
            let what = format!("{place} has what another copy has begun ({holder}); it is left as it is");
            (what, Some(format!("go on with it: its command; or give it up: {}", clean_command(directory))))
        }
        Notice::Left { holder, directory } => {
            let place = escape(directory);
            let what = format!("a copy that has ended may have left unfinished files in {place} ({holder})");
            (what, Some(format!("remove them with: {}", clean_command(directory))))
        }
        _ => ("something is unusual about TARGET".to_owned(), None),
    }
}
