//! A fold that needs more memory than it may have: it reads the logs in parts, and finds the same. It measures no memory.

use atta_ledger::{At, Fact, Fold, FrameAt, Key, LogName, Logs, Records, SliceNumber};

/// Frames with one section each.
struct Frames {
    frames: Vec<Vec<u8>>,
    readings: usize,
}

impl Logs for Frames {
    type Error = std::convert::Infallible;

    fn each(&mut self, each: &mut dyn FnMut(FrameAt, &[u8]) -> bool) -> Result<(), Self::Error> {
        self.readings += 1;
        let log = LogName { run: 1, rank: 0, part: 0 };
        let at = |offset| FrameAt { log, offset, voided_by: None };
        assert!((0..).zip(&self.frames).all(|(offset, frame)| each(at(offset), frame)), "valid frames");
        Ok(())
    }
}

/// Makes frames.
#[derive(Default)]
struct Maker {
    frames: Vec<Vec<u8>>,
    records: Records,
}

impl Maker {
    fn add(&mut self, path: &str, fact: &Fact<'_>) {
        self.records.add_fact(At { root: 0, path: path.as_bytes() }, fact);
    }

    fn end_frame(&mut self) {
        let mut frame = Vec::new();
        atta_code::encode_bytes(&self.records.take(), &mut frame);
        self.frames.push(frame);
    }

    /// What the frames say, and in how many readings.
    fn fold(&self, memory: usize) -> (Vec<String>, usize) {
        let fold = Fold { key: Key::of_job(&[3; 16]), closes: false, memory };
        let mut frames = Frames { frames: self.frames.clone(), readings: 0 };
        let mut left = Vec::new();
        fold.run(&mut frames, &mut |found| left.push(format!("{found:?}"))).unwrap();
        (left, frames.readings)
    }

    /// The fold finds the same in little memory, by parts.
    fn check(mut self, memory: usize, least: usize) {
        self.end_frame();
        let (left, readings) = self.fold(usize::MAX);
        assert_eq!(readings, 2);
        assert!(left.len() >= least, "{} are left", left.len());
        let (same, readings) = self.fold(memory);
        assert!(same == left, "{} instead of {} in {readings} readings", same.len(), left.len());
        // Not in one part, and not in the most that there are.
        assert!((6..1000).contains(&readings), "{readings} readings");
    }
}

const DONE: Fact<'_> = Fact::Done { slice: None, seen: None };

fn slice(number: u64) -> SliceNumber {
    SliceNumber { run: 1, rank: 0, number }
}

#[test]
fn directories_of_one_frame_are_read_by_parts() {
    let mut made = Maker::default();
    for number in 0..200_000 {
        made.add("", &Fact::Found { name: format!("d{number}").as_bytes(), mark: 0 });
    }
    made.add("", &DONE);
    // Few are left at the end of the frame.
    (100..200_000).for_each(|number| made.add(&format!("d{number}"), &DONE));
    made.check(4 << 20, 100);
}

#[test]
fn directories_that_are_forgotten_need_no_parts() {
    let mut made = Maker::default();
    let names: Vec<_> = (0..50).map(|number| format!("d{number}")).collect();
    let find = |made: &mut Maker, path: &str| {
        names.iter().for_each(|name| made.add(path, &Fact::Found { name: name.as_bytes(), mark: 0 }));
        made.add(path, &DONE);
    };
    find(&mut made, "");
    let mut number = 0;
    for above in &names {
        find(&mut made, above);
        for path in names.iter().map(|name| format!("{above}/{name}")) {
            number += 1;
            made.add(&path, &Fact::Listed { slice: slice(number), names: vec![b"f"] });
            made.add(&path, &DONE);
            if number % 100 > 0 {
                made.add(&path, &Fact::Done { slice: Some(slice(number)), seen: None });
            }
        }
        made.end_frame();
    }
    let (left, _) = made.fold(usize::MAX);
    // 25 directories and a slice of each, and that the root is complete.
    assert_eq!(left.len(), 51);
    assert_eq!(made.fold(100 << 10), (left, 2));
}

#[test]
fn slices_of_one_directory_are_read_by_parts() {
    for is_read in [false, true] {
        let mut made = Maker::default();
        made.add("a", &Fact::Found { name: b"below", mark: 0 });
        for number in 0..5000 {
            let name = format!("f{number}");
            made.add("a", &Fact::Listed { slice: slice(number), names: vec![name.as_bytes()] });
            if number % 3 > 0 {
                made.add("a", &Fact::Done { slice: Some(slice(number)), seen: None });
            }
            if number % 100 == 0 {
                made.end_frame();
            }
        }
        if is_read {
            made.add("a", &DONE);
        }
        made.check(32 << 10, 1600);
    }
}

#[test]
fn failures_are_read_by_parts() {
    let mut made = Maker::default();
    for row in [b"first", b"again"] {
        for number in 0..5000 {
            let name = format!("f{number}");
            made.add("a", &Fact::Failed { name: name.as_bytes(), row });
            if number % 3 == 0 {
                made.add("a", &Fact::Mended { name: name.as_bytes() });
            }
            if number % 100 == 0 {
                made.end_frame();
            }
        }
    }
    made.check(32 << 10, 3300);
}
