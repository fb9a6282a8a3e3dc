//! The key of session passwords on its way from a member to one that becomes a member.
//!
//! It goes to servers that have proved who they are, and to nobody else. Where they do so by a
//! secret, what they say may be read by others: the key is veiled then by what only who knows the
//! secret can make.

use std::io;

use super::secret::nonce;
use super::secure::Security;
use crate::ensemble::founding::HandedSecret;
use crate::storage::{SessionKey, SessionSecret};

/// Makes a secret ready to be handed over.
pub(super) fn hand(security: &Security, secret: &SessionSecret) -> io::Result<Box<HandedSecret>> {
    let nonce = nonce()?;
    let veiled = veil(security, &nonce, secret.key.bytes());
    Ok(Box::new(HandedSecret { nonce, veiled, before: secret.before.clone() }))
}

/// Takes what was handed over.
pub(super) fn take(security: &Security, handed: HandedSecret) -> SessionSecret {
    let HandedSecret { nonce, veiled, before } = handed;
    SessionSecret { key: SessionKey::new(veil(security, &nonce, &veiled)), before }
}

/// Veils a key, or lifts the veil.
fn veil(
    security: &Security,
    nonce: &[u8; SessionKey::LEN],
    key: &[u8; SessionKey::LEN],
) -> [u8; SessionKey::LEN] {
    let veil = security.secret.as_ref().map_or([0; SessionKey::LEN], |secret| secret.veil(nonce));
    let mut out = *key;
    out.iter_mut().zip(veil).for_each(|(byte, veil)| *byte ^= veil);
    out
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::config::QuorumSecurity;

    fn security(secret: Option<&str>) -> Security {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        fs::write(&path, secret.unwrap_or_default()).expect("written");
        let secret_file = secret.map(|_| path);
        Security::load(&QuorumSecurity { secret_file, ..Default::default() }).expect("loads")
    }

    #[test]
    fn a_key_is_veiled_on_its_way_where_there_is_a_secret() {
        let secret = SessionSecret { key: SessionKey::new([7; 32]), before: vec![1, -2] };
        let knows = security(Some("0123456789abcdef0123456789abcdef"));
        let handed = hand(&knows, &secret).expect("random bytes");
        assert_ne!(handed.veiled, [7; 32]);
        assert_eq!(take(&knows, (*handed).clone()), secret);
        // Never the same twice: two keys on their way tell nothing of each other.
        assert_ne!(hand(&knows, &secret).expect("random bytes").veiled, handed.veiled);
        let guesses = security(Some("0123456789abcdef0123456789abcdeg"));
        assert_ne!(take(&guesses, (*handed).clone()), secret);
        assert_ne!(take(&security(None), *handed), secret);
        // TLS is a veil already.
        let plain = hand(&security(None), &secret).expect("random bytes");
        assert_eq!((plain.veiled, take(&security(None), *plain)), ([7; 32], secret));
    }
}
