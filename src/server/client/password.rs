//! Session passwords: a keyed MAC; ZooKeeper's formula for a directory that came from ZooKeeper.

use std::collections::HashSet;
use std::sync::OnceLock;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::engine::session::SessionId;
use crate::storage::{SessionKey, SessionSecret};

/// Bytes of a password.
pub(in crate::server) const PASSWORD_LEN: usize = 16;

/// What ZooKeeper mixes into a session id (`ZooKeeperServer.superSecret`).
const SUPER_SECRET: i64 = 0xb341_5c00;

/// How a session's password is made and checked. `new Random(id ^ superSecret).nextBytes(16)` is
/// what every ZooKeeper server gives, so sessions survive the way from it and back to it; where
/// there is a key, it is a keyed MAC of the session id, which nobody else can make.
#[derive(Debug, Default)]
pub(in crate::server) struct Passwords(OnceLock<Keyed>);

#[derive(Debug)]
struct Keyed {
    key: SessionKey,
    /// Sessions that are older than the key: theirs are ZooKeeper's.
    before: HashSet<SessionId>,
}

impl Passwords {
    /// From here on there is a key. It comes late, out of the data directory, but before there are
    /// clients.
    pub(in crate::server) fn set(&self, secret: SessionSecret) {
        let SessionSecret { key, before } = secret;
        let before = before.into_iter().map(SessionId).collect();
        let _ = self.0.set(Keyed { key, before });
    }

    fn key_of(&self, session: SessionId) -> Option<&SessionKey> {
        let keyed = self.0.get()?;
        (!keyed.before.contains(&session)).then_some(&keyed.key)
    }

    /// The password of a session.
    pub(in crate::server) fn of(&self, session: SessionId) -> [u8; PASSWORD_LEN] {
        let mut password = [0; PASSWORD_LEN];
        match self.key_of(session) {
            Some(key) => {
                if let Some(mac) = mac(key, session) {
                    let tag = mac.finalize().into_bytes();
                    for (to, from) in password.iter_mut().zip(tag) {
                        *to = from;
                    }
                }
            }
            None => java_random_bytes(session.0 ^ SUPER_SECRET, &mut password),
        }
        password
    }

    /// Whether `shown` is the session's password. Session 0 has none.
    pub(in crate::server) fn is_right(&self, session: SessionId, shown: &[u8]) -> bool {
        if session == SessionId::NONE {
            return false;
        }
        match self.key_of(session) {
            Some(key) => {
                shown.len() == PASSWORD_LEN
                    && mac(key, session).is_some_and(|mac| mac.verify_truncated_left(shown).is_ok())
            }
            None => shown == self.of(session),
        }
    }
}

fn mac(key: &SessionKey, session: SessionId) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.bytes()).ok()?;
    mac.update(&session.0.to_be_bytes());
    Some(mac)
}

/// `java.util.Random.nextBytes`: a linear congruential generator of 48 bits, 32 of them at a time,
/// low byte first.
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
        assert_eq!(Passwords::default().of(SessionId(0x0100_0015_6bad_0000)), expected);
    }

    #[test]
    fn session_zero_has_no_password() {
        let password = Passwords::default().of(SessionId::NONE);
        assert!(!Passwords::default().is_right(SessionId::NONE, &password));
    }
}
