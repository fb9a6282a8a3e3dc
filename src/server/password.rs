//! Session passwords: a keyed MAC; ZooKeeper's formula for a directory that came from ZooKeeper.

use std::collections::HashSet;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::engine::session::SessionId;
use crate::storage::SessionKey;

/// Bytes of a password.
pub(super) const PASSWORD_LEN: usize = 16;

/// What ZooKeeper mixes into a session id (`ZooKeeperServer.superSecret`).
const SUPER_SECRET: i64 = 0xb341_5c00;

/// How a session's password is made and checked.
#[derive(Debug)]
pub(super) enum Passwords {
    /// A keyed MAC of the session id: nobody else can make it. Sessions that are older than the key have ZooKeeper's.
    Keyed(SessionKey, HashSet<SessionId>),
    /// `new Random(id ^ superSecret).nextBytes(16)`: what every ZooKeeper server gives, so that sessions survive the
    /// way from it and back to it.
    Zookeeper,
}

impl Passwords {
    /// The password of a session.
    pub(super) fn of(&self, session: SessionId) -> [u8; PASSWORD_LEN] {
        let mut password = [0; PASSWORD_LEN];
        match self {
            Self::Keyed(_, before) if before.contains(&session) => {
                password = Self::Zookeeper.of(session);
            }
            Self::Keyed(key, _) => {
                if let Some(mac) = mac(key, session) {
                    let tag = mac.finalize().into_bytes();
                    for (to, from) in password.iter_mut().zip(tag) {
                        *to = from;
                    }
                }
            }
            Self::Zookeeper => java_random_bytes(session.0 ^ SUPER_SECRET, &mut password),
        }
        password
    }

    /// Whether `shown` is the session's password. Session 0 has none.
    pub(super) fn is_right(&self, session: SessionId, shown: &[u8]) -> bool {
        if session == SessionId::NONE {
            return false;
        }
        match self {
            Self::Keyed(_, before) if before.contains(&session) => {
                Self::Zookeeper.is_right(session, shown)
            }
            Self::Keyed(key, _) => {
                shown.len() == PASSWORD_LEN
                    && mac(key, session).is_some_and(|mac| mac.verify_truncated_left(shown).is_ok())
            }
            Self::Zookeeper => shown == self.of(session),
        }
    }
}

fn mac(key: &SessionKey, session: SessionId) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).ok()?;
    mac.update(&session.0.to_be_bytes());
    Some(mac)
}

/// `java.util.Random.nextBytes`: a linear congruential generator of 48 bits, 32 of them at a time, low byte first.
fn java_random_bytes(seed: i64, out: &mut [u8]) {
    const MULTIPLIER: u64 = 0x5_deec_e66d;
    const MASK: u64 = (1 << 48) - 1;
    let mut state = (seed.cast_unsigned() ^ MULTIPLIER) & MASK;
    for four in out.chunks_mut(4) {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(0xb) & MASK;
        for (byte, shift) in four.iter_mut().zip([16, 24, 32, 40]) {
            *byte = u8::try_from(state >> shift & 0xff).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zookeepers_formula() {
        // Printed by Java 17 for new Random(0x10000156bad0000L ^ 0xB3415C00L).nextBytes(16).
        let expected = [
            0x49, 0x98, 0xae, 0x3a, 0xa2, 0x9e, 0x09, 0x57, 0xcf, 0xe2, 0xf6, 0x14, 0xbb, 0xd4,
            0x5a, 0xeb,
        ];
        assert_eq!(Passwords::Zookeeper.of(SessionId(0x0100_0015_6bad_0000)), expected);
    }

    #[test]
    fn session_zero_has_no_password() {
        let password = Passwords::Zookeeper.of(SessionId::NONE);
        assert!(!Passwords::Zookeeper.is_right(SessionId::NONE, &password));
    }
}
