//! Counters of threads and ranks, and their sums. A counter is declared once, with [`counters!`](crate::counters): its field, its
//! name in JSON and its line in a summary. Adding, encoding and showing follow from that. This module renders nothing:
//! `Results::show` passes each counter with its name and text to the caller.

use std::collections::BTreeMap;

use atta_entry::{Code, Errno};

/// Counts of a thread or rank that are added up and sent as bytes. The sum does not depend on order or grouping.
pub trait Results: Clone + Default + PartialEq + Code {
    /// Adds the counts of another thread or rank. Sums saturate.
    fn add(&mut self, other: &Self);

    /// Shows each counter that has a name, in the order of the declaration.
    fn show(&self, show: &mut dyn FnMut(Counter));

    /// Whether nothing was counted: it is the default. Asked for each slice of a tree, so a type with many fields should not build one to compare with.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Bytes of it that grow with what was found, beside counts.
    fn bytes(&self) -> usize {
        0
    }
}

/// A counter and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its group in JSON. Empty: none.
    pub group: &'static str,
    /// Its name in JSON.
    pub name: &'static str,
    /// Its value.
    pub count: u64,
    /// Its text in a summary.
    pub text: Text,
}

/// The text of a counter in a summary, if it is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// None, or the command formats it itself.
    Own,
    /// One of the kinds of objects listed in the first line: singular, plural.
    Kind(&'static str, &'static str),
    /// A line: the text before the number, the unit in singular and plural (empty: none), the text after it.
    Line(&'static str, [&'static str; 2], &'static str),
    /// A line: the bytes in binary units, and the text after them.
    Bytes(&'static str),
}

/// Declares a struct of counters, and how they are added, sent and shown.
///
/// A field is a `u64`: its name in JSON and, after a comma, its [`Text`] follow. One without a name is not shown. After `parts` come
/// fields of other types that are [`Results`] themselves; one with a name is a group.
///
/// ```
/// atta_runtime::counters! {
///     /// What a demonstration counts.
///     pub struct Demo {
///         /// Regular files.
///         pub files: u64 = "files", Kind("file", "files");
///         /// Names that were left alone.
///         pub left: u64 = "left_alone", Line("left alone: ", ["name", "names"], "");
///     }
/// }
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$outer:meta])*
        $vis:vis struct $struct:ident {
            $($(#[$doc:meta])* $field_vis:vis $field:ident: u64 $(= $name:literal $(, $text:ident $text_of:tt)?)?;)*
        }
        $(parts {
            $($(#[$part_doc:meta])* $part_vis:vis $part:ident: $part_type:ty $(= $group:literal)?;)*
        })?
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $vis struct $struct {
            $($(#[$doc])* $field_vis $field: u64,)*
            $($($(#[$part_doc])* $part_vis $part: $part_type,)*)?
        }

        impl $crate::Results for $struct {
            fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
                $($($crate::Results::add(&mut self.$part, &other.$part);)*)?
            }

            fn is_empty(&self) -> bool {
                0 $(| self.$field)* == 0 $($(&& $crate::Results::is_empty(&self.$part))*)?
            }

            fn show(&self, show: &mut dyn FnMut($crate::Counter)) {
                $($(
                    let text = $crate::counters!(@text $($text $text_of)?);
                    show($crate::Counter { group: "", name: $name, count: self.$field, text });
                )?)*
                $($($(
                    $crate::Results::show(&self.$part, &mut |counter| {
                        show($crate::Counter { group: $group, ..counter });
                    });
                )?)*)?
            }
        }

        $crate::record!($struct { $($field,)* $($($part,)*)? });

        impl std::ops::AddAssign<&Self> for $struct {
            fn add_assign(&mut self, other: &Self) {
                $crate::Results::add(self, other);
            }
        }
    };
    (@text) => { $crate::Text::Own };
    (@text $text:ident $text_of:tt) => { $crate::Text::$text $text_of };
}

/// Nothing is counted.
impl Results for () {
    fn add(&mut self, (): &Self) {}

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

impl Results for u64 {
    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

/// As many as there are of some kind.
impl<const N: usize> Results for [u64; N]
where
    Self: Default,
{
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, more)| sum.add(more));
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

/// Failures by error number. There are at most as many entries as error numbers.
impl Results for BTreeMap<Errno, u64> {
    fn add(&mut self, other: &Self) {
        other.iter().for_each(|(errno, more)| self.entry(*errno).or_default().add(more));
    }

    fn is_empty(&self) -> bool {
        Self::is_empty(self)
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

/// The maximum of the numbers counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maximum(pub u64);

impl Results for Maximum {
    fn add(&mut self, other: &Self) {
        *self = (*self).max(*other);
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

atta_entry::record!(Maximum { 0 });

#[cfg(test)]
mod tests {
    use super::*;

    counters! {
        /// A group.
        struct Inner {
            /// One of its counters.
            lost: u64 = "lost", Line("", ["thing", "things"], " lost");
        }
    }

    counters! {
        /// One of each kind.
        struct Sample {
            /// Shown.
            files: u64 = "files", Kind("file", "files");
            /// Without words.
            bytes: u64 = "bytes";
            /// Not shown.
            hidden: u64;
        }
        parts {
            /// A group.
            inner: Inner = "inner";
            /// By error number.
            failures: BTreeMap<Errno, u64>;
            /// Levels.
            depth: Maximum;
            /// Of each kind.
            kinds: [u64; 3];
        }
    }

    fn sample(by: u64) -> Sample {
        let failures = [(Errno(13), by), (Errno(by as i32), 1)].into();
        let inner = Inner { lost: by * 3 };
        Sample {
            files: by,
            bytes: u64::MAX,
            hidden: 7,
            inner,
            failures,
            depth: Maximum(by),
            kinds: [by, 0, 1],
        }
    }

    #[test]
    fn what_is_added_is_in_the_sum() {
        let mut sum = sample(2);
        sum += &sample(5);
        let failures = [(Errno(2), 1), (Errno(5), 1), (Errno(13), 7)].into();
        let expected = Sample {
            files: 7,
            bytes: u64::MAX,
            hidden: 14,
            inner: Inner { lost: 21 },
            failures,
            depth: Maximum(5),
            kinds: [7, 0, 2],
        };
        assert_eq!(sum, expected);
    }

    #[test]
    fn counters_and_parts_are_sent() {
        for sample in [sample(0), sample(300), Sample::default()] {
            assert_eq!(Sample::decode_all(&sample.encoded()), Some(sample));
        }
        let mut cut = sample(300).encoded();
        cut.pop();
        assert_eq!(Sample::decode_all(&cut), None);
    }

    #[test]
    fn counters_keep_the_order_of_their_declaration() {
        let mut shown = Vec::new();
        sample(4).show(&mut |counter| shown.push(counter));
        let lost = Text::Line("", ["thing", "things"], " lost");
        let expected = [
            Counter { group: "", name: "files", count: 4, text: Text::Kind("file", "files") },
            Counter { group: "", name: "bytes", count: u64::MAX, text: Text::Own },
            Counter { group: "inner", name: "lost", count: 12, text: lost },
        ];
        assert_eq!(shown, expected);
    }
}
