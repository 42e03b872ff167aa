//! The records that tasks are encoded as. `packer.rs` says which records a task needs, `reader.rs` what a reader makes of them. No I/O.

use std::borrow::Cow;
use std::ffi::CStr;

use atta_entry::Code;
use atta_ledger::SliceNumber;

use crate::tree::debts::{Debt, Payment, Unit};
use crate::tree::listing::names::Names;
use crate::tree::start::Differs;

/// One record. Fields are borrowed when it is written and owned when it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record<'a> {
    /// The root of the directory that follows, by its path: each rank numbers roots for itself.
    /// With its inode there, or 0.
    Root { path: Cow<'a, [u8]>, inode: u64 },
    /// The directory of the tasks that follow: the number of levels that it shares with the last one, and its other levels.
    Directory { shared: u32, levels: Vec<Level<'a>> },
    /// The next task holds this unit of the directory or slice with this number, which is in memory.
    Anchor { number: u64, unit: Unit },
    /// The next task holds units of another rank.
    Lent(Debt),
    /// The names of the next task are a slice with this number in the logs of the job.
    Listed(SliceNumber),
    /// Units that go back to the rank that lent them.
    Paid(Vec<Payment>),
    /// The last root, or a name below it, is to be looked at.
    Start { below: Option<Cow<'a, [u8]>>, differs: Option<Differs> },
    /// A directory is to be entered.
    Enter { name: Cow<'a, CStr>, target: Option<Cow<'a, [u8]>> },
    /// Names are to be looked at.
    Look(Cow<'a, Names>),
    /// A task of the operation, for one rank or for any.
    Own { to: Option<u32>, of: OwnOf, bytes: Cow<'a, [u8]> },
}

/// One directory below another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Level<'a> {
    pub(crate) name: Cow<'a, CStr>,
    /// Device, inode and mount, if known. Device and mount numbers differ between hosts, so another rank uses the inode alone.
    pub(crate) place: Option<(u64, u64, u64)>,
    /// The real place of the directory, if a followed link leads to it.
    pub(crate) target: Option<Cow<'a, [u8]>>,
}

/// What a task of the operation belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnOf {
    Nothing,
    /// The directory of the last record.
    Directory,
    /// A part of a slice of it, and whether the names of the slice wait for the part.
    Part(bool),
}

atta_entry::choice!(Record<'_> {
    b'R' => Root { path, inode },
    b'D' => Directory { shared, levels },
    b'K' => Anchor { number, unit },
    b'B' => Lent(debt),
    b'L' => Listed(number),
    b'Y' => Paid(payments),
    b'S' => Start { below, differs },
    b'E' => Enter { name, target },
    b'N' => Look(names),
    b'O' => Own { to, of, bytes },
});

atta_entry::record!(Level<'_> { name, place, target });

atta_entry::choice!(OwnOf {
    0 => Nothing,
    1 => Directory,
    2 => Part(holds_names),
});

atta_entry::record!(Differs { is_missing, content, links });

atta_entry::choice!(Unit {
    0 => None,
    1 => Child,
    2 => Names,
    3 => Part,
});

atta_entry::record!(Debt { rank, directory, slice });

/// The receiver knows that it goes to itself, so `to` is not sent. No payment is of no units.
impl Code for Payment {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.number, self.unit, self.count, self.has_failed).encode(out);
        self.report.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let (number, unit, count, has_failed) = Code::decode(bytes)?;
        (count > 0).then_some(Self { to: 0, number, unit, count, report: Code::decode(bytes)?, has_failed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payment_of_no_units_is_refused() {
        let payment = Payment {
            to: 0,
            number: 1 << 40,
            unit: Unit::Part,
            count: 1,
            report: vec![1, 2],
            has_failed: true,
        };
        assert_eq!(Payment::decode_all(&payment.encoded()), Some(payment.clone()));
        assert_eq!(Payment::decode_all(&Payment { count: 0, ..payment }.encoded()), None);
    }
}
