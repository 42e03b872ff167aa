//! The decoders of `sum`, for `atta_testkit::fuzz`.

use atta_entry::{Code, Kind};
use atta_testkit::fuzz::Target;
use atta_testkit::fuzz_code;

use super::item::Item;
use super::totals::{Sums, Totals};

pub(crate) fn targets() -> Vec<Target> {
    let file =
        Item { path: b"a".to_vec(), kind: Kind::File, size: Some(1), digest: Some([7; 32]), target: None };
    let link = Item { kind: Kind::Symlink, digest: None, target: Some(b"to".to_vec()), ..file.clone() };
    vec![
        fuzz_code!("sum/totals.rs: Totals", Totals, [Totals::default()]),
        fuzz_code!("sum/totals.rs: Sums", Sums<()>, [Sums::default()]),
        fuzz_code!("sum/item.rs: Item", Item, [file, link]),
    ]
}
