//! Who keeps a znode alive, and how one stored number says it (`EphemeralType`).

use super::session::SessionId;

/// The longest time to live, in milliseconds.
pub(super) const MAX_TTL_MS: i64 = 0xff_ffff_ffff;

/// Marks a container.
const CONTAINER: i64 = i64::MIN;
/// The top byte of a time to live, and of nothing else while extended types are on.
const EXTENDED: u64 = 0xff << 56;
/// The 16 bits below: which extended type it is. 0 is a time to live.
const FEATURE: u64 = 0xffff << 40;

/// Who keeps a znode alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// It lives until it is deleted.
    None,
    /// A session: the znode is ephemeral.
    Session(SessionId),
    /// Its children: the server removes it some time after the last one.
    Container,
    /// Its children and this many milliseconds since its data changed.
    Ttl(i64),
}

impl Owner {
    /// What is stored: `ephemeralOwner` of the snapshot and of the digest.
    #[must_use]
    pub const fn stored(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Session(session) => session.0,
            Self::Container => CONTAINER,
            Self::Ttl(ms) => (EXTENDED | ms.cast_unsigned()).cast_signed(),
        }
    }

    /// What clients see: container and time to live are hidden.
    #[must_use]
    pub const fn shown(self) -> i64 {
        match self {
            Self::Session(session) => session.0,
            Self::None | Self::Container | Self::Ttl(_) => 0,
        }
    }

    /// Reads what is stored. Without extended types a mark of theirs is a session like any other.
    /// `None` for an extended type that does not exist.
    #[must_use]
    pub const fn from_stored(stored: i64, extended_types: bool) -> Option<Self> {
        Some(match stored {
            0 => Self::None,
            CONTAINER => Self::Container,
            _ if extended_types && stored.cast_unsigned() & EXTENDED == EXTENDED => {
                if stored.cast_unsigned() & FEATURE != 0 {
                    return None;
                }
                Self::Ttl(stored & MAX_TTL_MS)
            }
            _ => Self::Session(SessionId(stored)),
        })
    }

    /// What a transaction makes of a time to live. Only ZooKeeper's log has one that cannot be, of
    /// a createTTL whose mode has none: ZooKeeper ends when it applies it, and so nobody was told
    /// of the znode. Here it lives until it is deleted.
    #[must_use]
    pub fn of_ttl(ttl: i64, extended_types: bool) -> Self {
        let stored = Self::Ttl(ttl).stored();
        let owner = Self::from_stored(stored, extended_types);
        owner.filter(|_| (1..=MAX_TTL_MS).contains(&ttl)).unwrap_or(Self::None)
    }

    /// Whether the znode belongs to a session.
    #[must_use]
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Session(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_numbers_are_zookeepers() {
        // `EphemeralType`: `CONTAINER_EPHEMERAL_OWNER`, and `TTL.toEphemeralOwner`.
        assert_eq!(Owner::Container.stored().cast_unsigned(), 0x8000_0000_0000_0000);
        assert_eq!(Owner::Ttl(MAX_TTL_MS).stored().cast_unsigned(), 0xff00_00ff_ffff_ffff);
        for owner in [Owner::None, Owner::Session(SessionId(7)), Owner::Container, Owner::Ttl(1)] {
            assert_eq!(Owner::from_stored(owner.stored(), true), Some(owner));
        }
    }

    #[test]
    fn a_time_to_live_that_cannot_be_is_none() {
        for ttl in [0, -1, i64::MIN, MAX_TTL_MS + 1, i64::MAX] {
            assert_eq!(Owner::of_ttl(ttl, true), Owner::None, "{ttl}");
            assert_eq!(Owner::of_ttl(ttl, false), Owner::None, "{ttl}");
        }
        for ttl in [1, MAX_TTL_MS] {
            assert_eq!(Owner::of_ttl(ttl, true), Owner::Ttl(ttl));
            let stored = SessionId(Owner::Ttl(ttl).stored());
            assert_eq!(Owner::of_ttl(ttl, false), Owner::Session(stored));
        }
    }

    #[test]
    fn marks_are_sessions_while_extended_types_are_off() {
        let stored = Owner::Ttl(5).stored();
        assert_eq!(Owner::from_stored(stored, false), Some(Owner::Session(SessionId(stored))));
        assert_eq!(Owner::from_stored(0xff00_0100_0000_0000_u64.cast_signed(), true), None);
    }
}
