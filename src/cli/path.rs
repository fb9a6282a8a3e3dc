//! What a path must look like before it is sent, with ZooKeeper's words for what is wrong.

/// Checks a path as `PathUtils.validatePath` does; positions count UTF-16 units, as Java's.
pub(super) fn validate(path: &str) -> Result<(), String> {
    let units: Vec<u16> = path.encode_utf16().collect();
    let unit = |index: usize| units.get(index).copied();
    const SLASH: u16 = b'/' as u16;
    const DOT: u16 = b'.' as u16;
    match units.as_slice() {
        [] => return Err("Path length must be > 0".to_owned()),
        [SLASH] => return Ok(()),
        [SLASH, .., SLASH] => return Err("Path must not end with / character".to_owned()),
        [SLASH, ..] => {}
        _ => return Err("Path must start with / character".to_owned()),
    }
    for (index, current) in units.iter().copied().enumerate().skip(1) {
        let before = unit(index - 1);
        let ends = matches!(unit(index + 1), None | Some(SLASH));
        let reason = match current {
            0 => "null character not allowed",
            SLASH if before == Some(SLASH) => "empty node name specified",
            DOT if before == Some(DOT) => {
                if index >= 2 && unit(index - 2) == Some(SLASH) && ends {
                    "relative paths not allowed"
                } else {
                    continue;
                }
            }
            DOT if before == Some(SLASH) && ends => "relative paths not allowed",
            0x1..=0x1f | 0x7f..=0x9f | 0xd800..=0xf8ff | 0xfff0..=0xffff => "invalid character",
            _ => continue,
        };
        return Err(format!("Invalid path string \"{path}\" caused by {reason} @{index}"));
    }
    Ok(())
}

/// The path of a child.
pub(super) fn child(parent: &str, name: &str) -> String {
    if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are those of ZooKeeper 3.9.5.
    #[test]
    fn what_is_wrong_with_a_path() {
        for (path, wrong) in [
            ("", "Path length must be > 0"),
            ("a", "Path must start with / character"),
            ("a/", "Path must start with / character"),
            ("/a/", "Path must not end with / character"),
            ("//", "Path must not end with / character"),
            ("/f//x", "Invalid path string \"/f//x\" caused by empty node name specified @3"),
            ("/f/./x", "Invalid path string \"/f/./x\" caused by relative paths not allowed @3"),
            ("/f/..", "Invalid path string \"/f/..\" caused by relative paths not allowed @4"),
            ("/.", "Invalid path string \"/.\" caused by relative paths not allowed @1"),
            ("/a\0", "Invalid path string \"/a\0\" caused by null character not allowed @2"),
            ("/a\u{1}", "Invalid path string \"/a\u{1}\" caused by invalid character @2"),
            ("/\u{1f600}", "Invalid path string \"/\u{1f600}\" caused by invalid character @1"),
        ] {
            assert_eq!(validate(path), Err(wrong.to_owned()), "{path:?}");
        }
        for path in ["/", "/a", "/...", "/a..", "/.a/b.", "/a..b/..c", "/snö-雪"] {
            assert_eq!(validate(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn a_child_of_the_root_has_one_slash() {
        assert_eq!(child("/", "a"), "/a");
        assert_eq!(child("/a", "b"), "/a/b");
    }
}
