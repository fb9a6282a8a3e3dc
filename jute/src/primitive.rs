//! Jute's primitives (`BinaryOutputArchive`). Integers are big-endian; strings, buffers and
//! vectors carry a 4-byte count, -1 for null.

use std::borrow::Cow;

use bytes::BufMut;
use nom::Parser as _;
use nom::bytes::complete::take;
use nom::combinator::map;
use nom::number::complete::{be_i32, be_i64, be_u8};

use crate::DecodeError;
use crate::record::{IntoStatic, Parsed, Record, reject};

/// The count that stands for null.
const NULL: i32 = -1;

/// Counts of the protocol are 4 bytes: a length beyond `i32` cannot be written, and no frame can
/// hold one.
pub(crate) fn put_len(out: &mut impl BufMut, len: usize) {
    out.put_i32(i32::try_from(len).unwrap_or(i32::MAX));
}

/// A length-prefixed run of bytes, borrowed; `None` for null.
fn run(input: &[u8]) -> Parsed<'_, Option<&[u8]>> {
    let (rest, len) = be_i32(input)?;
    match usize::try_from(len) {
        Ok(len) => map(take(len), Some).parse(rest),
        Err(_) if len == NULL => Ok((rest, None)),
        Err(_) => reject(DecodeError::NegativeLength(len)),
    }
}

macro_rules! integer {
    ($type:ty, $read:expr, $put:ident) => {
        impl<'a> Record<'a> for $type {
            fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
                $read(input)
            }

            fn encode<B: BufMut>(&self, out: &mut B) {
                out.$put(*self);
            }
        }

        impl IntoStatic for $type {
            type Static = Self;

            fn into_static(self) -> Self {
                self
            }
        }
    };
}

integer!(i32, be_i32, put_i32);
integer!(i64, be_i64, put_i64);
integer!(u8, be_u8, put_u8);

/// Any non-zero byte reads as true, as in Java's `DataInput.readBoolean`.
impl<'a> Record<'a> for bool {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        map(be_u8, |byte| byte != 0).parse(input)
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        out.put_u8(u8::from(*self));
    }
}

impl IntoStatic for bool {
    type Static = Self;

    fn into_static(self) -> Self {
        self
    }
}

/// A nullable buffer. Null and empty are two different values.
impl<'a> Record<'a> for Option<Cow<'a, [u8]>> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        map(run, |bytes| bytes.map(Cow::Borrowed)).parse(input)
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        match self {
            None => out.put_i32(NULL),
            Some(bytes) => {
                put_len(out, bytes.len());
                out.put_slice(bytes);
            }
        }
    }
}

/// A text as jute has it. Java's writer makes two surrogates of three bytes each of a character
/// beyond U+FFFF: here they are that character again, where Java's reader makes U+FFFD of each.
/// Whatever else is not UTF-8 reads as U+FFFD, as with Java; path checks then refuse it.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Most are valid, and this is the quicker check.
    str::from_utf8(bytes).map_or_else(|_| Cow::Owned(mended(bytes, true)), Cow::Borrowed)
}

/// Bytes as `new String(bytes, UTF_8)` has them: where they are not UTF-8, as many U+FFFD as Java
/// makes. That is one of a surrogate, where the standard library makes one of each of its bytes.
#[must_use]
pub fn java_text(bytes: &[u8]) -> Cow<'_, str> {
    str::from_utf8(bytes).map_or_else(|_| Cow::Owned(mended(bytes, false)), Cow::Borrowed)
}

/// With `joins` two surrogates are the character that they stand for.
fn mended(mut bytes: &[u8], joins: bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    loop {
        let error = match str::from_utf8(bytes) {
            Ok(valid) => {
                text.push_str(valid);
                return text;
            }
            Err(error) => error,
        };
        let (valid, broken) = bytes.split_at(error.valid_up_to());
        text.push_str(str::from_utf8(valid).unwrap_or_default());
        let (char, len) = match surrogate(broken) {
            Some(unit) => {
                let low = broken.get(SURROGATE_LEN..).filter(|_| joins).and_then(surrogate);
                let pair = [Some(unit), low].into_iter().flatten();
                match char::decode_utf16(pair).next() {
                    Some(Ok(char)) => (char, 2 * SURROGATE_LEN),
                    _ => (char::REPLACEMENT_CHARACTER, SURROGATE_LEN),
                }
            }
            None => {
                let len = match broken {
                    // Java takes what begins a surrogate as one.
                    [0xed, 0xa0..=0xbf, ..] => 2,
                    _ => error.error_len().unwrap_or(broken.len()),
                };
                (char::REPLACEMENT_CHARACTER, len)
            }
        };
        text.push(char);
        bytes = broken.get(len..).unwrap_or_default();
    }
}

/// Bytes of a surrogate, which UTF-8 does not have.
const SURROGATE_LEN: usize = 3;

/// The surrogate that the bytes begin with.
fn surrogate(bytes: &[u8]) -> Option<u16> {
    match *bytes.first_chunk::<SURROGATE_LEN>()? {
        [0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf] => {
            Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
        }
        _ => None,
    }
}

/// A nullable string, read as [`text`].
impl<'a> Record<'a> for Option<Cow<'a, str>> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        map(run, |bytes| bytes.map(text)).parse(input)
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        match self {
            None => out.put_i32(NULL),
            Some(text) => text.encode(out),
        }
    }
}

/// A string that must not be null.
impl<'a> Record<'a> for Cow<'a, str> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (rest, text) = Option::<Self>::decode(input)?;
        text.map_or_else(|| reject(DecodeError::Null), |text| Ok((rest, text)))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        put_len(out, self.len());
        out.put_slice(self.as_bytes());
    }
}

impl IntoStatic for Cow<'_, str> {
    type Static = Cow<'static, str>;

    fn into_static(self) -> Self::Static {
        Cow::Owned(self.into_owned())
    }
}

impl IntoStatic for Cow<'_, [u8]> {
    type Static = Cow<'static, [u8]>;

    fn into_static(self) -> Self::Static {
        Cow::Owned(self.into_owned())
    }
}

impl<T: IntoStatic> IntoStatic for Option<T> {
    type Static = Option<T::Static>;

    fn into_static(self) -> Self::Static {
        self.map(T::into_static)
    }
}

/// A nullable vector. The count is not trusted: elements are read until it is reached or the input
/// ends. A negative count other than -1 reads as empty, as in Java.
impl<'a, T: Record<'a>> Record<'a> for Option<Vec<T>> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (mut rest, count) = be_i32(input)?;
        if count == NULL {
            return Ok((rest, None));
        }
        let mut elements = Vec::new();
        for _ in 0..count {
            let (behind, element) = T::decode(rest)?;
            elements.push(element);
            rest = behind;
        }
        Ok((rest, Some(elements)))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        match self {
            None => out.put_i32(NULL),
            Some(elements) => elements.encode(out),
        }
    }
}

/// A vector that must not be null.
impl<'a, T: Record<'a>> Record<'a> for Vec<T> {
    fn decode(input: &'a [u8]) -> Parsed<'a, Self> {
        let (rest, elements) = Option::<Self>::decode(input)?;
        elements.map_or_else(|| reject(DecodeError::Null), |elements| Ok((rest, elements)))
    }

    fn encode<B: BufMut>(&self, out: &mut B) {
        put_len(out, self.len());
        for element in self {
            element.encode(out);
        }
    }
}

impl<T: IntoStatic> IntoStatic for Vec<T> {
    type Static = Vec<T::Static>;

    fn into_static(self) -> Self::Static {
        self.into_iter().map(T::into_static).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surrogates_are_the_character_that_they_were() {
        // U+1F600, U+10000 and U+10FFFF by Java's encoder; what is left of a pair, Java's decoder.
        let cases: [(&[u8], &str); 15] = [
            (b"\xed\xa0\xbd\xed\xb8\x80", "\u{1f600}"),
            (b"a\xed\xa0\xbd\xed\xb8\x80b\xed\xa0\xbd\xed\xb8\x80", "a\u{1f600}b\u{1f600}"),
            (b"\xed\xa0\x80\xed\xb0\x80", "\u{10000}"),
            (b"\xed\xaf\xbf\xed\xbf\xbf", "\u{10ffff}"),
            ("\u{1f600}".as_bytes(), "\u{1f600}"),
            (b"\xed\xa0\xbd", "\u{fffd}"),
            (b"\xed\xa0\xbdx", "\u{fffd}x"),
            (b"\xed\xb8\x80\xed\xa0\xbd", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0\xbd\xed\xa0\xbd\xed\xb8\x80", "\u{fffd}\u{1f600}"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xed\xa0x", "\u{fffd}x"),
            (b"\xed", "\u{fffd}"),
            (b"\xe2\x82", "\u{fffd}"),
            (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf0\x28\x8c\xbc", "\u{fffd}(\u{fffd}\u{fffd}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(text(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_not_utf8_is_what_java_makes_of_it() {
        // Each by `new String(bytes, StandardCharsets.UTF_8)` of OpenJDK 17.
        let cases: [(&[u8], &str); 44] = [
            (b"\x80", "\u{fffd}"),
            (b"\xbf\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xc3", "\u{fffd}"),
            (b"\xc3:", "\u{fffd}:"),
            (b"\xe2", "\u{fffd}"),
            (b"\xe2\x82", "\u{fffd}"),
            (b"\xe2\x82:", "\u{fffd}:"),
            (b"\xf0", "\u{fffd}"),
            (b"\xf0\x9f", "\u{fffd}"),
            (b"\xf0\x9f\x98", "\u{fffd}"),
            (b"\xf0\x9f\x98:", "\u{fffd}:"),
            (b"\xf0\x9f\x98\x80", "\u{1f600}"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
            (b"\xc1\xbf", "\u{fffd}\u{fffd}"),
            (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xe0\x9f\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf0\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf0\x8f\xbf\xbf", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xed\xa0\x80", "\u{fffd}"),
            (b"\xed\xb8\x80", "\u{fffd}"),
            (b"\xed\xa0\xbd\xed\xb8\x80", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xed", "\u{fffd}"),
            (b"\xed\xbf:", "\u{fffd}:"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf5\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf8\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf8\x88\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xfc\x84\x80\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xfe", "\u{fffd}"),
            (b"\xff", "\u{fffd}"),
            (b"\xe0", "\u{fffd}"),
            (b"\xe0\x80", "\u{fffd}\u{fffd}"),
            (b"\xe0\xa0", "\u{fffd}"),
            (b"\xf0\x80", "\u{fffd}\u{fffd}"),
            (b"\xf0\x90", "\u{fffd}"),
            (b"\xf0\x90\xc3\xa9", "\u{fffd}\u{e9}"),
            (b"\xe2\x82\xe2\x82\xac", "\u{fffd}\u{20ac}"),
            (b"\xc3\xc3\xa9", "\u{fffd}\u{e9}"),
            (b"\xf4", "\u{fffd}"),
            (b"\xf4\x8f", "\u{fffd}"),
            (b"\xf4\x90", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0:", "\u{fffd}:"),
            (b"a\xed\x9f\xbf", "a\u{d7ff}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(java_text(bytes), expected, "{bytes:x?}");
        }
    }
}
