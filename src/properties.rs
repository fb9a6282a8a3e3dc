//! Java's `.properties` syntax: bytes in, keys and values with their line numbers out.
//!
//! Owns what `java.util.Properties.load(InputStream)` does to a file: Latin-1, comments, the three
//! separators, escapes, continuation lines. Never knows what a key means, and never drops a
//! duplicate: which one counts is decided by whoever merges the sources.

use std::ops::Range;

/// One logical line with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Property {
    /// Line on which the logical line begins, from 1.
    pub(crate) line: usize,
    pub(crate) key: String,
    pub(crate) value: String,
    /// Where the logical line stands in the file: whole lines, with the end of the last one.
    pub(crate) bytes: Range<usize>,
}

/// A `\u` that is not followed by four hexadecimal digits; Java refuses the file too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedEscape {
    /// Line on which the logical line begins, from 1.
    pub(crate) line: usize,
}

/// All properties of a file in its order, duplicates included.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<Property>, MalformedEscape> {
    let mut lines = LogicalLines { rest: bytes, line: 1 };
    let mut properties = Vec::new();
    while let Some(LogicalLine { line, length, text }) = lines.next_line() {
        let (key, value) = split(&text);
        let unescape = |part| unescape(part).ok_or(MalformedEscape { line });
        let (key, value) = (unescape(key)?, unescape(value)?);
        let end = bytes.len() - lines.rest.len();
        properties.push(Property { line, key, value, bytes: end - length..end });
    }
    Ok(properties)
}

struct LogicalLine {
    /// Line on which it begins, from 1.
    line: usize,
    /// Bytes of the file, with the end of its last line.
    length: usize,
    /// Continuations joined.
    text: Vec<u8>,
}

struct LogicalLines<'a> {
    rest: &'a [u8],
    /// Number of the line that `rest` begins in.
    line: usize,
}

impl<'a> LogicalLines<'a> {
    /// The next line that is neither blank nor a comment.
    fn next_line(&mut self) -> Option<LogicalLine> {
        let mut joined = LogicalLine { line: self.line, length: 0, text: Vec::new() };
        loop {
            let continues = !joined.text.is_empty();
            let before = self.rest.len();
            let (number, natural) = match self.natural_line() {
                Some(natural) => natural,
                None if continues => return Some(joined),
                None => return None,
            };
            let text = skip_blanks(natural);
            if !continues {
                // A backslash alone joins nothing to nothing: the next line may be a comment again.
                if text.is_empty() || matches!(text[0], b'#' | b'!') {
                    continue;
                }
                (joined.line, joined.length) = (number, 0);
            }
            joined.length += before - self.rest.len();
            let backslashes = text.iter().rev().take_while(|&&byte| byte == b'\\').count();
            if backslashes % 2 == 0 {
                joined.text.extend_from_slice(text);
                return Some(joined);
            }
            joined.text.extend_from_slice(&text[..text.len() - 1]);
            if self.rest.is_empty() {
                return Some(joined);
            }
        }
    }

    /// The bytes up to the next CR, LF or CR LF, which is consumed.
    fn natural_line(&mut self) -> Option<(usize, &'a [u8])> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let (text, rest) = match end {
            None => (self.rest, &[][..]),
            Some(end) => {
                let newline = if self.rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
                (&self.rest[..end], &self.rest[end + newline..])
            }
        };
        self.rest = rest;
        self.line += 1;
        Some((self.line - 1, text))
    }
}

/// Without leading blanks as Java counts them: vertical tab and NBSP are none.
fn skip_blanks(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| !is_blank(byte)).unwrap_or(text.len());
    &text[start..]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\x0c')
}

/// Key and value, still escaped, at the first unescaped `=`, `:` or blank.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let key_end = text
        .iter()
        .position(|&byte| {
            let ends = !escaped && (matches!(byte, b'=' | b':') || is_blank(byte));
            escaped = byte == b'\\' && !escaped;
            ends
        })
        .unwrap_or(text.len());
    let (key, mut value) = text.split_at(key_end);
    value = skip_blanks(value);
    if let [b'=' | b':', after @ ..] = value {
        value = skip_blanks(after);
    }
    (key, value)
}

/// Text of Latin-1 bytes with escapes; `None` on a malformed `\u`.
fn unescape(text: &[u8]) -> Option<String> {
    // Java's chars are UTF-16: a character beyond the first plane is written as two escapes.
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            units.push(byte.into());
            continue;
        }
        let unit = match bytes.next() {
            Some(b'u') => hex4(&mut bytes)?,
            Some(b't') => b'\t'.into(),
            Some(b'n') => b'\n'.into(),
            Some(b'r') => b'\r'.into(),
            Some(b'f') => 0x0c,
            Some(other) => other.into(),
            None => break,
        };
        units.push(unit);
    }
    Some(String::from_utf16_lossy(&units))
}

fn hex4(bytes: &mut impl Iterator<Item = u8>) -> Option<u16> {
    (0..4).try_fold(0, |value: u16, _| {
        let digit = char::from(bytes.next()?).to_digit(16)?;
        Some(value << 4 | u16::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties(text: &[u8]) -> Vec<(usize, String, String)> {
        let list = parse(text).expect("no malformed escape");
        list.into_iter().map(|property| (property.line, property.key, property.value)).collect()
    }

    /// Expected values: `java.util.Properties.load` of OpenJDK 17 on the same bytes.
    #[test]
    fn one_line_splits_as_in_java() {
        for (text, key, value) in [
            (&b"a=b"[..], "a", "b"),
            (b"a:b", "a", "b"),
            (b"a b", "a", "b"),
            (b"a \t=\x0c b ", "a", "b "),
            (b"a = = b", "a", "= b"),
            (b" \ta", "a", ""),
            (b"a\\ b\\=c=d", "a b=c", "d"),
            (b"a=\\u00e9\\t\\q\\\\", "a", "\u{e9}\tq\\"),
            (b"a=\\ud83d\\ude00", "a", "\u{1f600}"),
            (b"a=\xe9\xa0\x80", "a", "\u{e9}\u{a0}\u{80}"),
            (b"a\x0b=b", "a\u{b}", "b"),
            (b"a=b\r\n", "a", "b"),
            (b"a=b#c", "a", "b#c"),
        ] {
            assert_eq!(properties(text), [(1, key.to_owned(), value.to_owned())], "{text:?}");
        }
    }

    #[test]
    fn lines_keep_their_number_of_the_file() {
        let text = b"# C:\\users\n\n! x \\\r\na=1\r\n  # y\rb=2 \\\n\t3\\\\\nc\\\n\nd=4";
        let expected = [(4, "a", "1"), (6, "b", "2 3\\"), (8, "c", ""), (10, "d", "4")];
        let expected = expected.map(|(line, key, value)| (line, key.into(), value.into()));
        assert_eq!(properties(text), expected);
    }

    #[test]
    fn a_property_knows_its_bytes() {
        let text = b"# c\n\\\n a=1 \\\r\n\t 2\r\n\nb\r! d\nc=\\";
        let found = parse(text).expect("no malformed escape");
        let bytes: Vec<&[u8]> = found.iter().map(|found| &text[found.bytes.clone()]).collect();
        assert_eq!(bytes, [&b" a=1 \\\r\n\t 2\r\n"[..], b"b\r", b"c=\\"]);
    }

    #[test]
    fn a_backslash_alone_does_not_hide_the_comment_behind_it() {
        assert_eq!(properties(b"\\\n#a=1\nb=2"), [(3, "b".to_owned(), "2".to_owned())]);
    }

    #[test]
    fn a_malformed_escape_is_refused_with_its_line() {
        for text in [&b"a=1\nb=\\u12"[..], b"a=1\nb=\\u12g4\n", b"a=1\nb=\\u+123"] {
            assert_eq!(parse(text), Err(MalformedEscape { line: 2 }), "{text:?}");
        }
    }
}
