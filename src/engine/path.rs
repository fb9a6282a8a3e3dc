//! Paths: which are legal, and what lies above one (`PathUtils`).

use std::hash::Hasher;

use jute::ErrorCode;

/// The root, as clients write it. An empty string means the root, too.
pub const ROOT: &str = "/";
/// The server's own znodes live below this one.
pub const ZOOKEEPER: &str = "/zookeeper";
/// Quotas live below this one.
pub const QUOTA: &str = "/zookeeper/quota";
/// The membership of an ensemble.
pub const CONFIG: &str = "/zookeeper/config";

/// Whether a path is one that a znode can have (`PathUtils.validatePath`).
///
/// # Errors
/// [`ErrorCode::BadArguments`] when it is not.
pub fn validate(path: &str) -> Result<(), ErrorCode> {
    if path == ROOT {
        return Ok(());
    }
    let below = path.strip_prefix('/').ok_or(ErrorCode::BadArguments)?;
    let legal = names(below).all(|name| !matches!(name.as_bytes(), [] | [b'.'] | [b'.', b'.']))
        && if path.is_ascii() {
            path.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        } else {
            path.chars().all(is_legal)
        };
    if legal { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

#[cfg(test)]
thread_local! {
    /// Bytes of paths and names that were hashed or copied.
    pub(crate) static WORK: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Tells tests that so many bytes of a path were hashed or copied.
#[cfg_attr(not(test), expect(unused_variables, reason = "only tests count"))]
pub(super) fn count_work(bytes: usize) {
    #[cfg(test)]
    WORK.set(WORK.get() + bytes);
}

/// What stands between slashes. Names are short: `str::split` costs more to set up than the look at
/// each byte.
pub(super) fn names(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(path);
    std::iter::from_fn(move || {
        let path = rest?;
        let (name, behind) = match path.bytes().position(|byte| byte == b'/') {
            Some(slash) => (path.get(..slash), path.get(slash + 1..)),
            None => (Some(path), None),
        };
        rest = behind;
        name
    })
}

/// Of a path: name by name, so that on the way those of all paths above it are known.
pub(super) fn hash(mut hasher: impl Hasher, path: &str) -> u64 {
    count_work(path.len());
    names(path).for_each(|name| add_name(&mut hasher, name));
    hasher.finish()
}

/// Goes on by a name.
pub(super) fn add_name(hasher: &mut impl Hasher, name: &str) {
    hasher.write(name.as_bytes());
    hasher.write_u8(b'/');
}

/// ZooKeeper looks at UTF-16 units, so that every character beyond the first plane counts as a
/// surrogate.
const fn is_legal(character: char) -> bool {
    !matches!(
        character,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..
    )
}

/// What stands before the last slash: the parent of a path that need not be legal. Empty for a
/// child of the root.
///
/// # Errors
/// [`ErrorCode::BadArguments`] for a path without a slash, or with a NUL.
pub fn parent(path: &str) -> Result<&str, ErrorCode> {
    match path.rsplit_once('/') {
        Some((parent, _)) if !path.contains('\0') => Ok(parent),
        _ => Err(ErrorCode::BadArguments),
    }
}

/// Whether a znode may never be deleted.
#[must_use]
pub fn is_reserved(path: &str) -> bool {
    matches!(path, ROOT | ZOOKEEPER | QUOTA | CONFIG)
}

/// Bytes of a path that cost about as much as one more path.
const BYTES_A_PATH: usize = 64;

/// What it costs to find, hash or copy a path, in short ones: what is done at once is bounded by
/// the sum of it.
#[must_use]
pub const fn cost(path: &str) -> usize {
    1 + path.len() / BYTES_A_PATH
}

/// The one spelling of a path under which changes in flight are kept.
#[must_use]
pub fn canonical(path: &str) -> &str {
    if path.is_empty() { ROOT } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_paths() {
        for path in
            ["/", "/a", "/a/b", "/...", "/a b", "/\u{a0}", "/\u{d7ff}", "/\u{f900}", "/\u{ffef}"]
        {
            assert_eq!(validate(path), Ok(()), "{path:?}");
        }
    }

    #[test]
    fn illegal_paths() {
        let illegal = [
            "",
            "a",
            "a/b",
            "//",
            "/a/",
            "/a//b",
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/a\0",
            "/\u{1}",
            "/\u{1f}",
            "/\u{7f}",
            "/\u{9f}",
            "/\u{e000}",
            "/\u{f8ff}",
            "/\u{fff0}",
            "/\u{fffd}",
            "/\u{ffff}",
            "/\u{1f600}",
        ];
        for path in illegal {
            assert_eq!(validate(path), Err(ErrorCode::BadArguments), "{path:?}");
        }
    }

    #[test]
    fn names_are_what_split_gives() {
        for path in ["", "/", "a", "a/b", "/a//b/", "\u{e9}/\u{20ac}x/\u{1f600}", "//"] {
            assert!(names(path).eq(path.split('/')), "{path:?}");
        }
    }

    #[test]
    fn parents() {
        assert_eq!(parent("/a"), Ok(""));
        assert_eq!(parent("/a/b"), Ok("/a"));
        assert_eq!(parent("/a/"), Ok("/a"));
        assert_eq!(parent("a/b"), Ok("a"));
        assert_eq!(parent("a"), Err(ErrorCode::BadArguments));
        assert_eq!(parent("/a\0"), Err(ErrorCode::BadArguments));
    }
}
