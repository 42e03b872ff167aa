//! What the names of a slice of a walk come to. No I/O.

use atta_ops::walk::Totals;
use atta_runtime::{Counter, Results};

use super::parts::Gathered;

/// See the head of this file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Share {
    pub(crate) totals: Totals,
    pub(crate) gathered: Gathered,
}

atta_entry::record!(Share { totals, gathered });

impl Results for Share {
    fn add(&mut self, other: &Self) {
        self.totals += &other.totals;
        self.gathered.add(&other.gathered);
    }

    fn is_empty(&self) -> bool {
        self.totals.is_empty() && self.gathered.is_empty()
    }

    fn show(&self, show: &mut dyn FnMut(Counter)) {
        self.totals.show(show);
    }
}
