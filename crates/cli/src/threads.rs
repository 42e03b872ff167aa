//! Parses the number of threads. No I/O.

use std::num::NonZeroUsize;

use atta_runtime::Threads;

/// Most threads that may be requested: more have never helped, and each takes address space.
const THREADS_MAX: usize = 4096;

/// `auto`, or a number from 1 to 4096.
///
/// # Errors
/// Returns what is wrong with it.
pub(crate) fn parse_threads(text: &str) -> Result<Threads, String> {
    if text == "auto" {
        return Ok(Threads::Auto);
    }
    match text.parse::<NonZeroUsize>() {
        Ok(count) if count.get() <= THREADS_MAX => Ok(Threads::Fixed(count)),
        Ok(_) => Err(format!("more than {THREADS_MAX}")),
        Err(_) => Err("neither auto nor a number above 0".to_owned()),
    }
}
