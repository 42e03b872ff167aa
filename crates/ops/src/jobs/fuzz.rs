//! Decoders of what other runs left in a directory, for `atta_testkit::fuzz`: records, and names of temporary files.

use std::ffi::CStr;

use atta_testkit::fuzz::Target;

use super::names::{Namer, parse};
use super::record::{Makes, Record};

pub(crate) fn targets() -> Vec<Target> {
    let makes: [(&CStr, bool); 2] = [(c"new name", true), (c"b\xff\n", false)];
    let makes = makes.map(|(name, is_new)| Makes { name: name.to_owned(), is_new });
    let record = Record::of_this_process(7, (1, 2), true, makes.to_vec()).to_text().into_bytes();
    let read = |bytes: &[u8]| Record::from_text(bytes).map(|record| record.to_text().into_bytes());
    let name = Namer::new(7).of_file(3).into_bytes();
    let parsed = |bytes: &[u8]| parse(bytes).map(|_| bytes.to_vec());
    vec![
        Target::new("jobs/record.rs: from_text", vec![record], read).holding(64).of_several_encodings(),
        Target::new("jobs/names.rs: parse", vec![name], parsed),
    ]
}
