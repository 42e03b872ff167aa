//! The decoder of headers of jobs, for `atta_testkit::fuzz`.

use atta_testkit::fuzz::Target;

use super::header::{Header, sample};

pub(crate) fn targets() -> Vec<Target> {
    let read = |bytes: &[u8]| Header::from_text(bytes).map(|header| header.to_text().into_bytes());
    let sample = sample().to_text().into_bytes();
    vec![Target::new("resume/header.rs: from_text", vec![sample], read).holding(64).of_several_encodings()]
}
