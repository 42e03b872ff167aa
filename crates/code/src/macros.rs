//! Macros that encode a type of the program as its fields. The order of the fields is that of the macro.

/// Sends a struct as its fields, one after another. Fields of a tuple struct are named by their numbers. With `if` and a method, values for
/// which the method is false are refused.
///
/// ```
/// use atta_code::Code;
///
/// #[derive(Debug, PartialEq)]
/// struct Found {
///     name: String,
///     sizes: Vec<u64>,
/// }
/// atta_code::record!(Found { name, sizes });
///
/// #[derive(Debug, PartialEq)]
/// struct Pair<T>(T, T);
/// atta_code::record!(<T> Pair<T> { 0, 1 });
///
/// let found = Found { name: "a".to_owned(), sizes: vec![1, 300] };
/// assert_eq!(Found::decode_all(&found.encoded()), Some(found));
/// assert_eq!(Pair::decode_all(&[1, 2]), Some(Pair(1_u8, 2)));
/// ```
#[macro_export]
macro_rules! record {
    (<$($parameter:ident),+> $type:ty { $($field:tt),* $(,)? } $(if $is_valid:ident)?) => {
        impl<$($parameter: $crate::Code),+> $crate::Code for $type {
            $crate::record!(@methods [$($field),*] $($is_valid)?);
        }
    };
    ($type:ty { $($field:tt),* $(,)? } $(if $is_valid:ident)?) => {
        impl $crate::Code for $type {
            $crate::record!(@methods [$($field),*] $($is_valid)?);
        }
    };
    (@methods [$($field:tt),*] $($is_valid:ident)?) => {
        fn encode(&self, out: &mut $crate::Bytes) {
            $($crate::Code::encode(&self.$field, out);)*
        }

        fn decode(bytes: &mut &[u8]) -> Option<Self> {
            Some(Self { $($field: $crate::Code::decode(bytes)?,)* })$(.filter(Self::$is_valid))?
        }
    };
}

/// Sends an enum as a byte for its variant, and the variant's fields.
///
/// ```
/// use atta_code::Code;
///
/// #[derive(Debug, PartialEq)]
/// enum Shape {
///     Point,
///     Circle(u32),
///     Box { width: u32, height: u32 },
/// }
/// atta_code::choice!(Shape {
///     0 => Point,
///     1 => Circle(radius),
///     2 => Box { width, height },
/// });
///
/// assert_eq!(Shape::Circle(5).encoded(), [1, 5]);
/// assert_eq!(Shape::decode_all(&[2, 3, 4]), Some(Shape::Box { width: 3, height: 4 }));
/// assert_eq!(Shape::decode_all(&[3]), None);
/// ```
#[macro_export]
macro_rules! choice {
    (<$($parameter:ident),+> $type:ty { $($variants:tt)* }) => {
        impl<$($parameter: $crate::Code),+> $crate::Code for $type {
            $crate::choice!(@methods $($variants)*);
        }
    };
    ($type:ty { $($variants:tt)* }) => {
        impl $crate::Code for $type {
            $crate::choice!(@methods $($variants)*);
        }
    };
    (@methods $($tag:literal => $variant:ident $(($($value:ident),+))? $({$($field:ident),+})?),+ $(,)?) => {
        fn encode(&self, out: &mut $crate::Bytes) {
            match self {
                $(Self::$variant $(($($value),+))? $({$($field),+})? => {
                    out.push($tag);
                    $($($crate::Code::encode($value, out);)+)?
                    $($($crate::Code::encode($field, out);)+)?
                })+
            }
        }

        fn decode(bytes: &mut &[u8]) -> Option<Self> {
            match <u8 as $crate::Code>::decode(bytes)? {
                $($tag => {
                    $($(let $value = $crate::Code::decode(bytes)?;)+)?
                    $($(let $field = $crate::Code::decode(bytes)?;)+)?
                    Some(Self::$variant $(($($value),+))? $({$($field),+})?)
                })+
                _ => None,
            }
        }
    };
}
