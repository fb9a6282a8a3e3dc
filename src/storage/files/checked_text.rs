//! Lines of text whose last one is their checksum, so that no digit in them changes unseen.

/// Before the checksum: nothing that such a file holds otherwise begins so.
const PREFIX: &str = "crc32 0x";

/// Bytes of the line.
pub(crate) const LINE_LEN: u64 = PREFIX.len() as u64 + 8 + 1;

/// The lines of a file, each with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines<'a> {
    /// As they were written, or from before there was a checksum.
    Good(&'a str),
    /// They are not what was written.
    Wrong,
}

/// These lines, and their checksum after them.
pub(crate) fn with_checksum(mut lines: String) -> String {
    let line = line_of(&lines);
    lines.push_str(&line);
    lines
}

/// The lines before the checksum; of a file that has none, all of them.
pub(crate) fn checked(text: &str) -> Lines<'_> {
    let at = text.trim_end_matches('\n').rfind('\n').map_or(0, |end| end + 1);
    match text.split_at_checked(at) {
        Some((lines, last)) if last.starts_with(PREFIX) => {
            if last == line_of(lines) {
                Lines::Good(lines)
            } else {
                Lines::Wrong
            }
        }
        _ => Lines::Good(text),
    }
}

fn line_of(lines: &str) -> String {
    format!("{PREFIX}{:08x}\n", crc32fast::hash(lines.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_with_and_without_a_checksum() {
        // The check value of CRC-32.
        assert_eq!(with_checksum("123456789".to_owned()), "123456789crc32 0xcbf43926\n");
        for lines in ["", "0x5\n", "0x5\n0x6\n"] {
            let whole = with_checksum(lines.to_owned());
            assert_eq!(whole.len() - lines.len(), usize::try_from(LINE_LEN).expect("small"));
            assert_eq!(checked(&whole), Lines::Good(lines));
            assert_eq!(checked(lines), Lines::Good(lines));
        }
    }

    #[test]
    fn lines_that_were_not_written_so_are_wrong() {
        let whole = with_checksum("0x5\n0x6\n".to_owned());
        for other in [
            whole.replace("0x5", "0x7"),
            whole.replace("0x6\n", ""),
            whole.replace("0x6\n", "0x6\n\n"),
            whole.trim_end().to_owned(),
            whole.to_uppercase().replace("CRC32 0X", PREFIX),
            format!("{whole}\n"),
        ] {
            assert_eq!(checked(&other), Lines::Wrong, "{other:?}");
        }
    }
}
