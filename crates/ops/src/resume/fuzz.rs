//! The decoders of headers of jobs and of what has changed since an earlier run, for `atta_testkit::fuzz`.

use atta_entry::{Code, Errno};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use super::Rechecked;
use super::header::{Header, sample};

pub(crate) fn targets() -> Vec<Target> {
    let read = |bytes: &[u8]| Header::from_text(bytes).map(|header| header.to_text().into_bytes());
    let sample = sample().to_text().into_bytes();
    let one = Some(b"a/b".to_vec());
    vec![
        Target::new("resume/header.rs: from_text", vec![sample], read).holding(64).of_several_encodings(),
        fuzz_code!(
            "resume/recheck.rs: Rechecked",
            Rechecked,
            [
                Rechecked::default(),
                Rechecked { changed: 300, one: one.clone(), failed: 1, failed_one: one.zip(Some(Errno(5))) }
            ]
        ),
    ]
}
