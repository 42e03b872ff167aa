//! What the codec promises, on a struct with a field of each type.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::ffi::CString;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;

#[derive(Clone, Debug, Default, PartialEq)]
struct Sample {
    flag: bool,
    byte: u8,
    small: u32,
    count: usize,
    share: f64,
    time: Duration,
    text: String,
    paths: Vec<Vec<u8>>,
    perhaps: Option<(u32, String)>,
    numbers: [u64; 3],
    failures: BTreeMap<u32, u64>,
    signed: [i64; 4],
    name: CString,
    outcomes: Vec<Result<u32, String>>,
}

record!(Sample {
    flag,
    byte,
    small,
    count,
    share,
    time,
    text,
    paths,
    perhaps,
    numbers,
    failures,
    signed,
    name,
    outcomes
});

fn sample() -> Sample {
    Sample {
        flag: true,
        byte: 255,
        small: u32::MAX,
        count: 300,
        share: 0.25,
        time: Duration::from_nanos(1_234_567_890_123),
        text: "ä".to_owned(),
        paths: vec![b"\xff/".to_vec(), Vec::new()],
        perhaps: Some((7, "why".to_owned())),
        numbers: [0, 127, u64::MAX],
        failures: [(5, 2), (2, 300)].into(),
        signed: [i64::MIN, -1, 64, i64::MAX],
        name: c"a name\xff".into(),
        outcomes: vec![Ok(7), Err("no".to_owned())],
    }
}

#[test]
fn bytes_are_read_back_and_nothing_else_is() {
    for sample in [sample(), Sample::default()] {
        let mut bytes = sample.encoded();
        assert_eq!(Sample::decode_all(&bytes), Some(sample));
        for length in 0..bytes.len() {
            assert_eq!(Sample::decode_all(&bytes[..length]), None, "{length} of {}", bytes.len());
        }
        bytes.push(0);
        assert_eq!(Sample::decode_all(&bytes), None);
    }
}

#[test]
fn any_other_byte_gives_a_value_or_none() {
    let bytes = sample().encoded();
    for at in 0..bytes.len() {
        for byte in 0..=255 {
            let mut other = bytes.clone();
            other[at] = byte;
            if let Some(read) = Sample::decode_all(&other) {
                assert!(read.paths.len() <= bytes.len());
            }
        }
    }
}

#[test]
fn impossible_values_are_refused() {
    // Bits that no number has, and a number that does not end.
    assert_eq!(u64::decode_all(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
    assert_eq!(u64::decode_all(&[0x80; 11]), None);
    // A needless byte.
    assert_eq!(u64::decode_all(&[0x80, 0]), None);
    assert_eq!(u64::decode_all(&[0]), Some(0));
    assert_eq!(u32::decode_all(&(u64::from(u32::MAX) + 1).encoded()), None);
    assert_eq!(bool::decode_all(&[2]), None);
    assert_eq!(CString::decode_all(&[2, b'a', 0]), None);
    assert_eq!(String::decode_all(&[1, 0xff]), None);
    // More elements than bytes.
    assert_eq!(Vec::<()>::decode_all(&u64::MAX.encoded()), None);
    assert_eq!(Vec::<u64>::decode_all(&[0xff, 0xff, 0xff, 0x7f, 1, 1]), None);
    // The same key twice, keys that descend, and more keys than bytes.
    assert_eq!(BTreeMap::<u32, u64>::decode_all(&[2, 2, 1, 1, 1]), None);
    assert_eq!(BTreeMap::<u32, u64>::decode_all(&[2, 1, 1, 1, 1]), None);
    assert_eq!(BTreeMap::<u32, u64>::decode_all(&[0xff, 0xff, 0xff, 0x7f, 1, 1]), None);
}
