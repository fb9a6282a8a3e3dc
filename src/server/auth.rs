//! Who a client shows to be: auth packets (reference 8.3), what must be shown (8.7), and what an unconfigured SASL
//! answers (8.6).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jute::protocol::{AuthPacket, Response, SaslResponse};
use jute::{ErrorCode, OpCode};
use sha1::{Digest, Sha1};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use super::connection::Connection;
use crate::config::{Access, DigestAlgorithm, DigestScheme};
use crate::engine::acl::Identity;
use crate::message::MessageId;

/// Takes an auth packet.
///
/// # Errors
/// [`ErrorCode::AuthFailed`] for a scheme that is not here, and for what a scheme refuses. The connection is closed.
pub(super) fn authenticate(
    access: &Access,
    connection: &Connection,
    packet: &AuthPacket<'_>,
) -> Result<(), ErrorCode> {
    match (packet.scheme.as_deref(), &access.digest, packet.auth.as_deref()) {
        (Some("digest"), Some(digest), Some(token)) => {
            connection.add_identities(digest_identities(digest, token));
            Ok(())
        }
        // Every connection has its address as an identity from the beginning.
        (Some("ip"), ..) => Ok(()),
        (scheme, ..) => {
            tracing::warn!(
                id = %MessageId::AUTHENTICATION_FAILED,
                client = %connection.peer(),
                ?scheme,
                "authentication failed"
            );
            Err(ErrorCode::AuthFailed)
        }
    }
}

/// Whether a client has shown what a request of this operation needs: to show it, nothing.
pub(super) fn is_enough(access: &Access, connection: &Connection, op: i32) -> bool {
    let Some(schemes) = &access.enforced else { return true };
    matches!(OpCode::from_code(op), Some(OpCode::Auth | OpCode::Sasl))
        || connection.identities().iter().any(|identity| schemes.contains(&identity.scheme))
}

/// What a client is told that wants SASL where none is set up.
pub(super) const fn no_sasl() -> Response<'static> {
    Response::Sasl(SaslResponse { token: None })
}

/// The identity of a user and a password, and the super user beside it if they are the super user's.
pub(super) fn digest_identities(digest: &DigestScheme, token: &[u8]) -> Vec<Identity> {
    let id = digest_id(digest.algorithm, token);
    let is_super = digest.super_digest.as_ref() == Some(&id);
    let mut identities = vec![Identity { scheme: "digest".to_owned(), id }];
    if is_super {
        identities.insert(0, Identity { scheme: "super".to_owned(), id: String::new() });
    }
    identities
}

/// `user:base64(hash(user:password))`.
fn digest_id(algorithm: DigestAlgorithm, token: &[u8]) -> String {
    let text = String::from_utf8_lossy(token);
    let user = text.split(':').next().unwrap_or_default();
    let text = text.as_bytes();
    let hash = match algorithm {
        DigestAlgorithm::Sha1 => BASE64_STANDARD.encode(Sha1::digest(text)),
        DigestAlgorithm::Sha224 => BASE64_STANDARD.encode(Sha224::digest(text)),
        DigestAlgorithm::Sha256 => BASE64_STANDARD.encode(Sha256::digest(text)),
        DigestAlgorithm::Sha384 => BASE64_STANDARD.encode(Sha384::digest(text)),
        DigestAlgorithm::Sha512 => BASE64_STANDARD.encode(Sha512::digest(text)),
    };
    format!("{user}:{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ids_are_zookeepers() {
        // Reference 8.5; the second printed by DigestAuthenticationProvider of 3.9.5 with digestAlg=SHA-256.
        let ids = [
            (DigestAlgorithm::Sha1, "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),
            (DigestAlgorithm::Sha256, "u:/Y8xRBngpX5duYn15uUqIRaIaCviy5TEwSk419hCwuA="),
        ];
        for (algorithm, id) in ids {
            assert_eq!(digest_id(algorithm, b"u:p"), id);
        }
    }

    #[test]
    fn the_super_user_is_known_by_its_digest() {
        let digest = DigestScheme {
            algorithm: DigestAlgorithm::Sha1,
            super_digest: Some("u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=".to_owned()),
        };
        let schemes = |token| -> Vec<String> {
            digest_identities(&digest, token).into_iter().map(|identity| identity.scheme).collect()
        };
        assert_eq!(schemes(b"u:p"), ["super", "digest"]);
        assert_eq!(schemes(b"u:q"), ["digest"]);
    }
}
