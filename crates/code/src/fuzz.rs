//! The decoders of this crate, for `atta_testkit::fuzz`.

use alloc::borrow::{Cow, ToOwned};
use alloc::collections::BTreeMap;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::time::Duration;

use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use crate::Code;

fn targets() -> Vec<Target> {
    let byte_string = || b"a\xff".to_vec();
    vec![
        fuzz_code!("numbers.rs: bool", bool, [true]),
        fuzz_code!("numbers.rs: u8", u8, [200]),
        fuzz_code!("numbers.rs: u64", u64, [0, 300, u64::MAX]),
        fuzz_code!("numbers.rs: u32", u32, [u32::MAX]),
        fuzz_code!("numbers.rs: usize", usize, [usize::MAX]),
        fuzz_code!("numbers.rs: i64", i64, [i64::MIN, -1]),
        fuzz_code!("numbers.rs: f64", f64, [0.5]),
        fuzz_code!("numbers.rs: Duration", Duration, [Duration::from_millis(1)]),
        fuzz_code!("text.rs: String", String, ["a word \u{e4}".to_owned()]),
        fuzz_code!("text.rs: CString", CString, [c"a name".to_owned()]),
        fuzz_code!("text.rs: Arc<[u8]>", Arc<[u8]>, [Arc::from(byte_string())]),
        fuzz_code!("text.rs: Cow<[u8]>", Cow<'_, [u8]>, [Cow::Owned(byte_string())]),
        fuzz_code!("text.rs: Cow<CStr>", Cow<'_, CStr>, [Cow::Owned(c"a name".to_owned())]),
        fuzz_code!("containers.rs: ()", (), [()]),
        fuzz_code!("containers.rs: Result", Result<u32, String>, [Ok(5), Err("why".to_owned())]),
        fuzz_code!("containers.rs: Option", Option<u64>, [None, Some(300)]),
        fuzz_code!("containers.rs: Vec", Vec<Vec<u8>>, [vec![byte_string(), vec![]]]).holding(64),
        fuzz_code!("containers.rs: [T; N]", [u64; 3], [[0, 300, u64::MAX]]),
        fuzz_code!("containers.rs: BTreeMap", BTreeMap<u32, u64>, [[(1, 2), (300, 4)].into()]).holding(64),
        fuzz_code!("containers.rs: Cow", Cow<'_, u64>, [Cow::Owned(7)]),
        fuzz_code!("containers.rs: tuple", (u8, u32, bool, u64), [(1, 300, true, 5)]),
    ]
}

atta_testkit::fuzz_tests!(targets);
