//! What threads and ranks count and add up. A counter is declared once, with [`counters!`](crate::counters): its field, its name in
//! JSON and its line in a summary; adding, sending as bytes and showing follow from that. It renders nothing: `Results::show`
//! gives each counter with its name and its words to whoever does.

use std::collections::BTreeMap;

use atta_entry::Errno;

/// Counts that several threads or ranks have, and that are added up. Adding does not depend on order or grouping.
pub trait Results: Clone + Default {
    /// Adds what another one counted. Sums saturate.
    fn add(&mut self, other: &Self);

    /// Writes it as bytes, for another rank.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads what [`encode`](Self::encode) wrote, and leaves the rest of the bytes; none if it is no such thing.
    fn decode(bytes: &mut &[u8]) -> Option<Self>;

    /// Shows each counter that has a name, in the order of the declaration.
    fn show(&self, show: &mut dyn FnMut(Counter));

    /// Reads it from bytes that hold nothing else.
    fn decode_all(mut bytes: &[u8]) -> Option<Self> {
        Self::decode(&mut bytes).filter(|_| bytes.is_empty())
    }
}

/// A counter and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The group that it is in, as JSON has it; empty: none.
    pub group: &'static str,
    /// Its name in JSON.
    pub name: &'static str,
    /// Its value.
    pub count: u64,
    /// What a summary says of it.
    pub text: Text,
}

/// What a summary says of a counter that is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// Nothing, or the command has words of its own for it.
    Own,
    /// One of the kinds of things that the first line lists: one of them, several.
    Kind(&'static str, &'static str),
    /// A line: what is before the number, the unit of one and of several (empty: none), what follows.
    Line(&'static str, [&'static str; 2], &'static str),
    /// A line: the bytes in binary units, and what follows.
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

            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::Results::encode(&self.$field, out);)*
                $($($crate::Results::encode(&self.$part, out);)*)?
            }

            fn decode(bytes: &mut &[u8]) -> Option<Self> {
                Some(Self {
                    $($field: $crate::Results::decode(bytes)?,)*
                    $($($part: $crate::Results::decode(bytes)?,)*)?
                })
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

        impl std::ops::AddAssign<&Self> for $struct {
            fn add_assign(&mut self, other: &Self) {
                $crate::Results::add(self, other);
            }
        }
    };
    (@text) => { $crate::Text::Own };
    (@text $text:ident $text_of:tt) => { $crate::Text::$text $text_of };
}

impl Results for u64 {
    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }

    /// As seven bits a byte, the lowest first; all but the last have the highest bit.
    fn encode(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = bytes.split_first()?;
            *bytes = rest;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
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

    fn encode(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|number| number.encode(out));
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut numbers = Self::default();
        for number in &mut numbers {
            *number = u64::decode(bytes)?;
        }
        Some(numbers)
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

/// Failures by error number: at most as many as there are error numbers.
impl Results for BTreeMap<Errno, u64> {
    fn add(&mut self, other: &Self) {
        other.iter().for_each(|(errno, more)| self.entry(*errno).or_default().add(more));
    }

    fn encode(&self, out: &mut Vec<u8>) {
        (self.len() as u64).encode(out);
        for (errno, count) in self {
            u64::from(errno.0.cast_unsigned()).encode(out);
            count.encode(out);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut failures = Self::new();
        for _ in 0..u64::decode(bytes)? {
            let errno = u32::try_from(u64::decode(bytes)?).ok()?.cast_signed();
            // Each once, so that no number of them takes more memory than their bytes do.
            if failures.insert(Errno(errno), u64::decode(bytes)?).is_some() {
                return None;
            }
        }
        Some(failures)
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

/// The largest of the numbers that were counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maximum(pub u64);

impl Results for Maximum {
    fn add(&mut self, other: &Self) {
        *self = (*self).max(*other);
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        u64::decode(bytes).map(Self)
    }

    fn show(&self, _show: &mut dyn FnMut(Counter)) {}
}

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
    fn bytes_are_read_back_and_nothing_else_is() {
        for sample in [sample(0), sample(300), Sample::default()] {
            let mut bytes = Vec::new();
            sample.encode(&mut bytes);
            assert_eq!(Sample::decode_all(&bytes), Some(sample));
            for length in 0..bytes.len() {
                assert_eq!(Sample::decode_all(&bytes[..length]), None, "{length} of {}", bytes.len());
            }
            bytes.push(0);
            assert_eq!(Sample::decode_all(&bytes), None);
        }
        // Bits that no number has, and a number that does not end.
        assert_eq!(u64::decode_all(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]), None);
        assert_eq!(u64::decode_all(&[0x80; 11]), None);
        // The same error twice, and more of them than there are bytes.
        assert_eq!(BTreeMap::decode_all(&[2, 1, 1, 1, 1]), None);
        assert_eq!(BTreeMap::decode_all(&[0xff, 0xff, 0xff, 0x7f, 1, 1]), None);
    }

    #[test]
    fn counters_are_shown_in_the_order_of_their_declaration() {
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
