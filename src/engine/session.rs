//! Sessions: the table that transactions change and snapshots keep.

use std::collections::BTreeMap;
use std::fmt;

/// A session id; never 0, which stands for no session. Shown in hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub i64);

impl SessionId {
    /// No session: the server itself.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Every living session and the timeout it was created with, in milliseconds.
pub type Sessions = BTreeMap<SessionId, i32>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_as_zookeeper_shows_it() {
        assert_eq!(SessionId(0x1_0000_002a).to_string(), "0x10000002a");
        assert_eq!(SessionId(-1).to_string(), "0xffffffffffffffff");
    }
}
