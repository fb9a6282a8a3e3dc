//! A secret that all servers share: each proves over both sides' fresh numbers that it knows it,
//! and shows nothing of it.

use std::fmt;
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::secure::{SecurityError, read, warn_if_open};

/// Bytes of a number that is used once, and of a proof.
pub(super) const NONCE_LEN: usize = 32;
pub(super) const PROOF_LEN: usize = 32;
/// The least that nobody guesses.
const SECRET_MIN: usize = 32;

/// Who proves: what the one has sent is no proof of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Caller,
    Called,
    /// The same two of what they say of themselves.
    CallerItself,
    CalledItself,
}

/// What every server of the ensemble knows.
pub(super) struct Secret(Hmac<Sha256>);

impl Secret {
    /// Reads it from a file. Blanks and line ends around it do not count.
    pub(super) fn load(path: &Path) -> Result<Self, SecurityError> {
        warn_if_open(path);
        let bytes = read(path)?;
        let secret = bytes.trim_ascii();
        Self::new(secret).ok_or_else(|| SecurityError::ShortSecret {
            path: path.to_owned(),
            len: secret.len(),
            min: SECRET_MIN,
        })
    }

    fn new(secret: &[u8]) -> Option<Self> {
        if secret.len() < SECRET_MIN {
            return None;
        }
        Hmac::new_from_slice(secret).ok().map(Self)
    }

    /// What shows that `side` knows the secret and means this very conversation.
    pub(super) fn proof(&self, side: Side, hello: &[u8], answer: &[u8]) -> [u8; PROOF_LEN] {
        self.mac(side, hello, answer).finalize().into_bytes().into()
    }

    /// Whether `shown` is that proof.
    pub(super) fn is_proof(&self, shown: &[u8], side: Side, hello: &[u8], answer: &[u8]) -> bool {
        self.mac(side, hello, answer).verify_slice(shown).is_ok()
    }

    /// What veils as many bytes as a number that is used once has.
    pub(super) fn veil(&self, nonce: &[u8; NONCE_LEN]) -> [u8; NONCE_LEN] {
        let mut mac = self.0.clone();
        mac.update(b"ferrokeeper veil");
        mac.update(nonce);
        mac.finalize().into_bytes().into()
    }

    fn mac(&self, side: Side, hello: &[u8], answer: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(match side {
            Side::Caller => b"ferrokeeper caller",
            Side::Called => b"ferrokeeper called",
            Side::CallerItself => b"ferrokeeper caller itself",
            Side::CalledItself => b"ferrokeeper called itself",
        });
        // Their lengths are told: nothing can move from one to the other.
        mac.update(&(hello.len() as u64).to_be_bytes());
        mac.update(hello);
        mac.update(answer);
        mac
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

/// A number that nobody has used before.
pub(super) fn nonce() -> std::io::Result<[u8; NONCE_LEN]> {
    let mut nonce = [0; NONCE_LEN];
    getrandom::fill(&mut nonce).map_err(std::io::Error::other)?;
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_secret_side_and_conversation() {
        let secret = Secret::new(&[7; 32]).expect("long enough");
        let proof = secret.proof(Side::Caller, b"hello", b"answer");
        assert!(secret.is_proof(&proof, Side::Caller, b"hello", b"answer"));
        let other = Secret::new(&[8; 32]).expect("long enough");
        assert!(!other.is_proof(&proof, Side::Caller, b"hello", b"answer"));
        // Sent back to who made it.
        assert!(!secret.is_proof(&proof, Side::Called, b"hello", b"answer"));
        assert!(!secret.is_proof(&proof, Side::Caller, b"hallo", b"answer"));
        assert!(!secret.is_proof(&proof, Side::Caller, b"hello", b"another"));
        assert!(!secret.is_proof(&proof, Side::Caller, b"helloa", b"nswer"));
        assert!(!secret.is_proof(&proof[..31], Side::Caller, b"hello", b"answer"));
        assert!(!secret.is_proof(b"", Side::Caller, b"hello", b"answer"));
    }

    /// The value is that of Python's `hmac`.
    #[test]
    fn the_proof_is_hmac_sha_256() {
        let secret = Secret::new(b"0123456789abcdef0123456789abcdef").expect("long enough");
        let proof = secret.proof(Side::Called, b"hello", b"answer");
        let hex: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "adf976cf67214587ddedd187712f14e1752ca547d94190cb26226d4ca2adcee2");
    }

    #[test]
    fn a_short_secret_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("secret");
        std::fs::write(&path, format!("  {}\n", "x".repeat(31))).expect("written");
        let error = Secret::load(&path).expect_err("too short");
        assert!(
            error.to_string().contains("a secret of 31 bytes is too short, the minimum is 32"),
            "{error}"
        );
        std::fs::write(&path, format!("  {}\n", "x".repeat(32))).expect("written");
        let secret = Secret::load(&path).expect("long enough");
        assert!(!format!("{secret:?}").contains('x'));
    }
}
