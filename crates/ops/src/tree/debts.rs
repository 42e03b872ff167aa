//! Units that move between ranks. A rank that sends a task lends its units: it keeps the directory or slice with them (`anchors.rs`) and
//! writes a debt beside the task. The rank that gets the task makes a directory of its own, which owes them. It pays when the slices, or all
//! that is below, have ended there. No I/O.
//!
//! ```text
//!   rank 0: directory d, number 7, a batch of names of its slice 9          rank 1
//!     lend: a unit of slice 9, one of the children of d  ── N, debt 7, 9 ─▶ another d, which owes both
//!                                                        ◀─ pay 9, report ─ its slices have ended
//!                                                        ◀─ pay 7, report ─ all below it is closed
//! ```
//!
//! A payment can carry what the operation reports of the directory. The report is added before any unit of the payment is released. So it
//! may come with the payment of one slice: the directory is not done before all its slices are paid for.
//!
//! A task that moves on is lent again, so each rank knows only those that it took from. A rank that runs no tasks passes debts on.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which unit of its directory or slice a task holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    None,
    /// Of a directory's children.
    Child,
    /// Of a slice's names.
    Names,
    /// Of a slice's parts.
    Part,
}

/// What a task holds of the rank that lent it: units of a directory and of a slice, by their numbers there. 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Debt {
    pub(crate) rank: u32,
    /// Holds a unit of its children.
    pub(crate) directory: u64,
    /// Holds a unit of its parts.
    pub(crate) slice: u64,
}

/// Units that go back to the rank that lent them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) to: u32,
    pub(crate) number: u64,
    pub(crate) unit: Unit,
    pub(crate) count: u32,
    /// What the operation reports of the directory that pays: with the first of its slices, and with its children. Mostly empty.
    pub(crate) report: Vec<u8>,
    /// Something in the directory that pays, or below it, failed.
    pub(crate) has_failed: bool,
}

/// What a directory owes to the rank that lent its tasks.
#[derive(Debug, Default)]
pub(crate) struct Owed(Mutex<Units>);

#[derive(Debug, Default)]
struct Units {
    /// The rank, and the number of the directory there.
    to: Option<(u32, u64)>,
    children: u32,
    slices: Vec<u64>,
}

impl Owed {
    /// Adds the debt of one more task.
    ///
    /// # Errors
    /// The directory owes to another one already.
    pub(crate) fn add(&self, debt: Debt) -> Result<(), &'static str> {
        let mut units = lock(&self.0);
        let to = (debt.rank, debt.directory);
        if *units.to.get_or_insert(to) != to {
            return Err("a directory that owes to two");
        }
        units.children += u32::from(debt.directory != 0);
        if debt.slice != 0 {
            units.slices.push(debt.slice);
        }
        Ok(())
    }

    /// The debt of a task that is a part of the slice with this number.
    pub(crate) fn debt(&self, slice: u64) -> Option<Debt> {
        let (rank, directory) = lock(&self.0).to?;
        Some(Debt { rank, directory, slice })
    }

    /// Pays for the slices: all of them have ended here. The first payment carries the report, if there is a slice to pay for.
    pub(crate) fn pay_slices(&self, has_failed: bool, report: impl FnOnce() -> Vec<u8>) -> Vec<Payment> {
        let mut units = lock(&self.0);
        let Some((to, _)) = units.to else { return Vec::new() };
        let slices = std::mem::take(&mut units.slices);
        let pay = |number| Payment { to, number, unit: Unit::Part, count: 1, report: Vec::new(), has_failed };
        let mut payments: Vec<_> = slices.into_iter().map(pay).collect();
        if let Some(first) = payments.first_mut() {
            first.report = report();
        }
        payments
    }

    /// Pays for the children: all of them are closed here. `report`: see [`Payment`].
    pub(crate) fn pay_children(&self, has_failed: bool, report: impl FnOnce() -> Vec<u8>) -> Option<Payment> {
        let mut units = lock(&self.0);
        let (to, number) = units.to?;
        let count = std::mem::take(&mut units.children);
        (count > 0).then(|| Payment { to, number, unit: Unit::Child, count, report: report(), has_failed })
    }
}

/// Payments that wait to be sent, by rank. One task for each rank carries all that wait when it leaves.
#[derive(Debug, Default)]
pub(crate) struct Due(Mutex<HashMap<u32, Vec<Payment>>>);

impl Due {
    /// Adds a payment. Returns whether it is the only one, so that a task is needed that carries it.
    pub(crate) fn add(&self, payment: Payment) -> bool {
        let mut due = lock(&self.0);
        let of_rank = due.entry(payment.to).or_default();
        of_rank.push(payment);
        of_rank.len() == 1
    }

    /// Takes all payments to a rank.
    pub(crate) fn take(&self, to: u32) -> Vec<Payment> {
        lock(&self.0).remove(&to).unwrap_or_default()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_pays_what_it_owes_once() {
        let owed = Owed::default();
        let none = || panic!("it owes nothing, so nothing is reported");
        assert!(owed.pay_slices(false, none).is_empty() && owed.pay_children(false, none).is_none());
        let debt = |slice| Debt { rank: 2, directory: 7, slice };
        for slice in [9, 0, 8] {
            owed.add(debt(slice)).unwrap();
        }
        assert!(owed.add(Debt { rank: 2, directory: 5, slice: 1 }).is_err());
        assert_eq!(owed.debt(9), Some(debt(9)));
        let part =
            |number, report| Payment { to: 2, number, unit: Unit::Part, count: 1, report, has_failed: true };
        assert_eq!(owed.pay_slices(true, || vec![4]), [part(9, vec![4]), part(8, Vec::new())]);
        let children =
            Payment { to: 2, number: 7, unit: Unit::Child, count: 3, report: vec![5], has_failed: false };
        assert_eq!(owed.pay_children(false, || vec![5]), Some(children));
        assert!(owed.pay_slices(false, none).is_empty() && owed.pay_children(false, none).is_none());
    }

    #[test]
    fn payments_to_a_rank_wait_together() {
        let due = Due::default();
        let payment = |to, number| Payment {
            to,
            number,
            unit: Unit::Part,
            count: 1,
            report: Vec::new(),
            has_failed: false,
        };
        assert!(due.add(payment(1, 5)) && !due.add(payment(1, 6)) && due.add(payment(2, 5)));
        assert_eq!(due.take(1), [payment(1, 5), payment(1, 6)]);
        assert!(due.take(1).is_empty() && due.add(payment(1, 7)));
    }
}
