//! The place of a transaction in the one order of all.

use std::fmt;

/// A transaction id: the epoch in the high 32 bits, a counter in the low ones. Shown in
/// hexadecimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Zxid(pub i64);

impl Zxid {
    /// The zxid of a tree that no transaction has changed.
    pub const ZERO: Self = Self(0);

    /// The zxid after this one; a full counter goes on in the next epoch.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

impl fmt::Display for Zxid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_as_zookeeper_shows_it() {
        assert_eq!(Zxid(0x1_0000_002a).to_string(), "0x10000002a");
        assert_eq!(Zxid(-1).to_string(), "0xffffffffffffffff");
    }
}
