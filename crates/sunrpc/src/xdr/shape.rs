//! Structures and enumerations with both directions from one description.

/// A structure whose [`Encode`](super::Encode) and [`Decode`](super::Decode) take the fields in
/// order. `field: &'a [u8] = LIMIT` is opaque data of at most `LIMIT` bytes.
macro_rules! xdr_structure {
    (
        $(#[$meta:meta])*
        pub struct $name:ident<$life:lifetime> { $($fields:tt)* }
    ) => {
        $crate::xdr::xdr_structure! {
            @define $(#[$meta])* $name [<$life>] [<'_>] $life $($fields)*
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $($fields:tt)* }
    ) => {
        $crate::xdr::xdr_structure! { @define $(#[$meta])* $name [] [] 'a $($fields)* }
    };
    (
        @define $(#[$meta:meta])*
        $name:ident [$($generics:tt)*] [$($elided:tt)*] $life:lifetime
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty $(= $limit:expr)?),* $(,)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name $($generics)* {
            $($(#[$field_meta])* pub $field: $type),*
        }

        impl $crate::xdr::Encode for $name $($elided)* {
            #[inline]
            fn encode(&self, encoder: &mut $crate::xdr::Encoder<'_>) {
                $($crate::xdr::Encode::encode(&self.$field, encoder);)*
            }
        }

        impl<$life> $crate::xdr::Decode<$life> for $name $($generics)* {
            #[inline]
            fn decode(decoder: &mut $crate::xdr::Decoder<$life>) -> $crate::xdr::Result<Self> {
                Ok(Self {
                    $($field: $crate::xdr::xdr_structure!(@field decoder $($limit)?)),*
                })
            }
        }
    };
    (@field $decoder:ident) => {
        $crate::xdr::Decode::decode($decoder)?
    };
    (@field $decoder:ident $limit:expr) => {
        $decoder.opaque($limit)?
    };
}

/// An enumeration by its numbers; others are [`Error::BadValue`](super::Error::BadValue). All
/// variants or none have a lower-case name behind the number.
macro_rules! xdr_enumeration {
    (
        $(#[$meta:meta])*
        pub enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $number:literal $(=> $text:literal)?),*
            $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $number),*
        }

        impl $name {
            /// Every value, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The value with this number, if any.
            #[inline]
            #[must_use]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number on the wire.
            #[inline]
            #[must_use]
            pub const fn number(self) -> u32 {
                self as u32
            }
        }

        $crate::xdr::xdr_enumeration!(@names $name $($($variant $text)?)*);

        impl $crate::xdr::Encode for $name {
            #[inline]
            fn encode(&self, encoder: &mut $crate::xdr::Encoder<'_>) {
                encoder.u32(self.number());
            }
        }

        impl<'a> $crate::xdr::Decode<'a> for $name {
            #[inline]
            fn decode(decoder: &mut $crate::xdr::Decoder<'a>) -> $crate::xdr::Result<Self> {
                Self::from_number(decoder.u32()?).ok_or($crate::xdr::Error::BadValue)
            }
        }
    };
    (@names $name:ident) => {};
    (@names $name:ident $($variant:ident $text:literal)*) => {
        impl $name {
            /// Every name, by number.
            pub const NAMES: &'static [&'static str] = &[$($text),*];

            /// The name for people.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),*
                }
            }
        }
    };
}

pub(crate) use {xdr_enumeration, xdr_structure};
