//! What every record can do, and the macro that declares one from its fields.

use bytes::BufMut;
use nom::{Err, IResult};

use crate::DecodeError;

/// What a parser gives: the input after the record, and the record.
pub type Parsed<'a, T> = IResult<&'a [u8], T, DecodeError>;

/// A value with one byte layout. Fields follow each other without tags, lengths or padding.
pub trait Record<'a>: Sized {
    /// Reads the value from the front of `input`.
    ///
    /// # Errors
    /// [`DecodeError`] when `input` is not such a value or ends inside it.
    fn decode(input: &'a [u8]) -> Parsed<'a, Self>;

    /// Appends the value to `out`.
    fn encode<B: BufMut>(&self, out: &mut B);
}

/// Turns a record that borrows from a frame into one that can outlive it.
pub trait IntoStatic {
    /// The same record without a borrow.
    type Static: 'static;

    /// Copies whatever is still borrowed.
    fn into_static(self) -> Self::Static;
}

/// Reads one value from the front of `input` and returns it with the bytes after it.
///
/// # Errors
/// [`DecodeError`] when `input` is not such a value or ends inside it.
pub fn decode<'a, T: Record<'a>>(input: &'a [u8]) -> Result<(T, &'a [u8]), DecodeError> {
    finish(T::decode(input))
}

pub(crate) fn finish<'a, T>(parsed: Parsed<'a, T>) -> Result<(T, &'a [u8]), DecodeError> {
    match parsed {
        Ok((rest, value)) => Ok((value, rest)),
        Err(Err::Error(error) | Err::Failure(error)) => Err(error),
        Err(Err::Incomplete(_)) => Err(DecodeError::Truncated),
    }
}

/// The parser result that says why.
pub(crate) fn reject<'a, T>(error: DecodeError) -> Parsed<'a, T> {
    Err(Err::Failure(error))
}

/// Declares a record: its fields in wire order, with [`Record`] and [`IntoStatic`]. One without a
/// lifetime has integers only.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident<'a> { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name<'a> { $($(#[$field_meta])* pub $field: $type,)* }

        impl<'a> $crate::Record<'a> for $name<'a> {
            fn decode(input: &'a [u8]) -> $crate::Parsed<'a, Self> {
                $(let (input, $field) = <$type as $crate::Record<'a>>::decode(input)?;)*
                Ok((input, Self { $($field,)* }))
            }

            fn encode<B: bytes::BufMut>(&self, out: &mut B) {
                $($crate::Record::encode(&self.$field, out);)*
            }
        }

        impl $crate::IntoStatic for $name<'_> {
            type Static = $name<'static>;

            fn into_static(self) -> Self::Static {
                $name { $($field: $crate::IntoStatic::into_static(self.$field),)* }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)* }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl<'a> $crate::Record<'a> for $name {
            fn decode(input: &'a [u8]) -> $crate::Parsed<'a, Self> {
                $(let (input, $field) = <$type as $crate::Record<'a>>::decode(input)?;)*
                Ok((input, Self { $($field,)* }))
            }

            // Built whole and appended once: a growing buffer is asked for room once a record, not
            // once a field.
            fn encode<B: bytes::BufMut>(&self, out: &mut B) {
                let mut bytes = [0; 0 $(+ size_of::<$type>())*];
                let mut rest = &mut bytes[..];
                $($crate::Record::encode(&self.$field, &mut rest);)*
                debug_assert!(rest.is_empty(), "a field is not as wide on the wire as in memory");
                out.put_slice(&bytes);
            }
        }

        impl $crate::IntoStatic for $name {
            type Static = Self;

            fn into_static(self) -> Self {
                self
            }
        }
    };
}
pub(crate) use record;
