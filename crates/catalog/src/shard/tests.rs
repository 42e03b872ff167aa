//! Shards read back with the Parquet crate's own reader and compared field by field; failing outputs.

use std::io;

use atta_entry::{Kind, Metadata, Timestamp};
use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

use super::*;

const FULL: Columns = Columns::Full { targets: true };

/// An entry that owns its data.
#[derive(Clone)]
struct Sample {
    name: Vec<u8>,
    depth: u32,
    inode: u64,
    metadata: Metadata,
    target: Option<Vec<u8>>,
}

impl Sample {
    fn new(number: u32, name: &[u8]) -> Self {
        let time = |seconds: i64, nanoseconds| Timestamp { seconds, nanoseconds };
        let seconds = i64::from(number) * 3_000_000_000 - 12_000_000_000;
        Self {
            name: name.to_vec(),
            depth: number,
            inode: u64::MAX - u64::from(number),
            metadata: Metadata {
                mode: if number.is_multiple_of(3) { 0o040_755 } else { 0o120_777 },
                uid: u32::MAX - number,
                gid: number * 7,
                nlink: number + 1,
                size: u64::MAX / 2 + u64::from(number),
                blocks: u64::from(number) << 40,
                inode: u64::MAX - u64::from(number),
                device: (8 << 32) | u64::from(number),
                atime: time(seconds, 999_999_999),
                mtime: time(-1, number),
                ctime: time(i64::MIN, 0),
                btime: number.is_multiple_of(2).then(|| time(seconds, 1)),
            },
            target: None,
        }
    }

    fn entry(&self) -> Entry<'_> {
        Entry {
            directory: b"r\xc3\xa4",
            name: &self.name,
            root_bytes: 3,
            depth: self.depth,
            kind: self.metadata.kind(),
            inode: self.inode,
            metadata: Some(&self.metadata),
            target: self.target.as_deref(),
        }
    }

    /// The digest of every second entry.
    fn digest(&self) -> Option<[u8; 32]> {
        self.depth.is_multiple_of(2).then(|| std::array::from_fn(|at| (at as u32 * 7 + self.depth) as u8))
    }

    /// The expected fields, computed without any of the shard's code.
    fn fields(&self, columns: Columns) -> Vec<Field> {
        let bytes = |bytes: &[u8]| Field::Bytes(bytes.to_vec().into());
        let text = |bytes: &[u8]| Field::Str(String::from_utf8_lossy(bytes).into_owned());
        let raw = |raw: &[u8]| {
            if str::from_utf8(raw).is_ok() { Field::Null } else { bytes(raw) }
        };
        let time = |time: Option<Timestamp>| {
            time.and_then(|time| i64::try_from(time.as_nanoseconds()).ok()).map_or(Field::Null, Field::Long)
        };
        let path = self.entry().path();
        let one = &self.metadata;
        let mut fields = vec![text(&path), raw(&path), text(one.kind().name().as_bytes())];
        fields.extend([Field::UInt(self.depth), Field::ULong(self.inode)]);
        if columns.metadata() {
            fields.push(Field::ULong(one.device));
            fields.extend([one.mode, one.nlink, one.uid, one.gid].map(Field::UInt));
            fields.extend([one.size, one.blocks].map(Field::ULong));
            fields.extend([Some(one.atime), Some(one.mtime), Some(one.ctime), one.btime].map(time));
        }
        if columns.targets() {
            let target = self.target.as_deref();
            fields.extend([target.map_or(Field::Null, text), target.map_or(Field::Null, raw)]);
        }
        if columns.digests() {
            let digits = |digest: [u8; 32]| Field::Str(digest.map(|byte| format!("{byte:02x}")).concat());
            fields.push(self.digest().map_or(Field::Null, digits));
        }
        fields
    }
}

fn samples(count: u32) -> Vec<Sample> {
    (0..count)
        .map(|number| {
            let mut sample = Sample::new(number, format!("file-{number}").as_bytes());
            match number % 5 {
                1 => sample.target = Some(b"to".to_vec()),
                2 => sample.target = Some(b"\xff\xfe".to_vec()),
                3 => sample.name = b"a\nb\xe9\xff".to_vec(),
                4 => sample.name = "\u{fffd}".into(),
                _ => {}
            }
            sample
        })
        .collect()
}

fn write(samples: &[Sample], columns: Columns, row_group_bytes: usize) -> (Bytes, ShardSummary) {
    let mut file = Vec::new();
    let mut shard = Shard::with_row_group_bytes(&mut file, columns, row_group_bytes).unwrap();
    for sample in samples {
        shard.push_digested(&sample.entry(), sample.digest().as_ref()).unwrap();
    }
    assert_eq!(shard.rows(), samples.len() as u64);
    let summary = shard.finish().unwrap();
    (Bytes::from(file), summary)
}

/// The fields alone: the record reader's display of instants does not matter, only the 64 bits and the column's logical type.
fn plain(row: Row) -> Vec<Field> {
    row.into_columns().into_iter().map(|(_, field)| field).collect()
}

#[test]
fn every_field_comes_back() {
    let samples = samples(2500);
    for columns in [
        FULL,
        Columns::Full { targets: false },
        Columns::Digests,
        Columns::Lite { targets: true },
        Columns::Lite { targets: false },
    ] {
        for row_group_bytes in [50_000, ROW_GROUP_BYTES] {
            let (file, summary) = write(&samples, columns, row_group_bytes);
            assert_eq!(summary.bytes, file.len() as u64);
            assert_eq!(summary.rows, samples.len() as u64);
            let reader = SerializedFileReader::new(file).unwrap();
            assert_eq!(reader.num_row_groups() > 1, row_group_bytes == 50_000);
            let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| plain(row.unwrap())).collect();
            let expected: Vec<_> = samples.iter().map(|sample| sample.fields(columns)).collect();
            assert_eq!(rows.len(), expected.len());
            for (row, expected) in rows.iter().zip(&expected) {
                assert_eq!(row, expected);
            }
        }
    }
}

#[test]
fn a_row_group_of_one_row_and_a_shard_of_none() {
    let (file, summary) = write(&samples(3), FULL, 0);
    assert_eq!(SerializedFileReader::new(file).unwrap().num_row_groups(), 3);
    assert_eq!(summary.rows, 3);
    let (file, summary) = write(&[], FULL, ROW_GROUP_BYTES);
    let reader = SerializedFileReader::new(file).unwrap();
    assert_eq!((reader.num_row_groups(), summary.rows), (0, 0));
    let version = &reader.metadata().file_metadata().key_value_metadata().unwrap()[0];
    assert_eq!((version.key.as_str(), version.value.as_deref()), ("atta.schema_version", Some("1")));
}

#[test]
fn times_at_the_ends_of_64_bits() {
    let mut samples = samples(4);
    let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    samples[0].metadata.mtime = time(-9_223_372_037, 145_224_192);
    samples[1].metadata.mtime = time(-9_223_372_037, 145_224_191);
    samples[2].metadata.mtime = time(9_223_372_036, 854_775_807);
    samples[3].metadata.mtime = time(9_223_372_036, 854_775_808);
    let (file, _) = write(&samples, FULL, ROW_GROUP_BYTES);
    let reader = SerializedFileReader::new(file).unwrap();
    let times: Vec<_> =
        reader.get_row_iter(None).unwrap().map(|row| plain(row.unwrap())[13].clone()).collect();
    assert_eq!(times, [Field::Long(i64::MIN), Field::Null, Field::Long(i64::MAX), Field::Null]);
}

#[test]
fn full_columns_need_metadata_and_stay_even_without() {
    let mut file = Vec::new();
    let mut shard = Shard::create(&mut file, FULL).unwrap();
    let sample = Sample::new(0, b"x");
    let bare = Entry { metadata: None, ..sample.entry() };
    assert!(matches!(shard.push(&bare), Err(Error::ShardNoMetadata { .. })));
    shard.push(&sample.entry()).unwrap();
    assert_eq!(shard.finish().unwrap().rows, 1);
}

/// An output with room for this many bytes.
struct FullDisk(usize);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(28));
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn full_disk_is_reported_wherever_it_fills() {
    let samples = samples(300);
    let (file, _) = write(&samples, FULL, 20_000);
    let fill = |room| -> Result<ShardSummary> {
        let mut shard = Shard::with_row_group_bytes(FullDisk(room), FULL, 20_000)?;
        for sample in &samples {
            shard.push(&sample.entry())?;
        }
        shard.finish()
    };
    for room in (0..file.len()).step_by(97).chain([file.len() - 1]) {
        let error = fill(room).unwrap_err();
        assert_eq!(error.errno(), Some(atta_entry::Errno(28)), "room for {room}: {error}");
    }
    fill(file.len()).unwrap();
}

#[test]
fn after_a_failure_nothing_more_goes_in() {
    let mut shard = Shard::with_row_group_bytes(FullDisk(0), FULL, 0).unwrap();
    let big = Sample::new(0, &vec![b'x'; 100_000]);
    while shard.push(&big.entry()).is_ok() {}
    assert!(matches!(shard.push(&big.entry()), Err(Error::ShardBroken)));
    assert!(matches!(shard.finish(), Err(Error::ShardBroken)));
}

#[test]
fn every_kind_has_its_word() {
    let mut file = Vec::new();
    let columns = Columns::Lite { targets: false };
    let mut shard = Shard::create(&mut file, columns).unwrap();
    for kind in Kind::ALL {
        let sample = Sample::new(0, b"x");
        shard.push(&Entry { kind, ..sample.entry() }).unwrap();
    }
    shard.finish().unwrap();
    let reader = SerializedFileReader::new(Bytes::from(file)).unwrap();
    for (row, kind) in reader.get_row_iter(None).unwrap().zip(Kind::ALL) {
        assert_eq!(plain(row.unwrap())[2], Field::Str(kind.name().to_owned()));
    }
}

#[test]
fn rows_that_are_split_and_joined_are_the_same() {
    let names: [&[u8]; 5] = [b"a", b"not \xff text", b"", b"\xfe", b"b"];
    let samples: Vec<_> = (0..10_u32)
        .map(|number| {
            let target = [None, Some(b"t".to_vec()), Some(b"\xff".to_vec())][number as usize % 3].clone();
            Sample { target, ..Sample::new(number, names[number as usize % 5]) }
        })
        .collect();
    for columns in [FULL, Columns::Lite { targets: false }, Columns::Lite { targets: true }, Columns::Digests]
    {
        let rows_of = |samples: &[Sample]| {
            let mut rows = RowGroup::new(columns);
            samples.iter().for_each(|sample| rows.push(&sample.entry(), sample.digest().as_ref()).unwrap());
            rows
        };
        let whole = rows_of(&samples);
        for at in 0..=samples.len() {
            let mut first = whole.clone();
            let mut second = first.split_off(at);
            assert_eq!(first, rows_of(&samples[..at]), "{columns:?} {at}");
            assert_eq!(second, rows_of(&samples[at..]), "{columns:?} {at}");
            first.append(&mut second);
            assert_eq!((first, second.rows()), (whole.clone(), 0), "{columns:?} {at}");
        }
    }
}
