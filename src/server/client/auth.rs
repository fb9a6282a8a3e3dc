//! Who a client shows to be: auth packets, what must be shown, and what an unconfigured
//! SASL answers (`ZooKeeperServer.processPacket`).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jute::OpCode;
use jute::protocol::{AuthPacket, Response, SaslResponse};
use sha1::{Digest, Sha1};
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sha3::{Sha3_224, Sha3_256, Sha3_384, Sha3_512};

use super::connection::Connection;
use crate::config::{Access, DigestAlgorithm, DigestScheme, EnsembleScheme};
use crate::engine::access::acl::{Identity, TooMany};
use crate::message::MessageId;
use crate::planted;
use crate::server::figures::series::{Counter, Series};

/// Why an auth packet ends its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum NotTaken {
    /// With -115: of a scheme that is not here, what a scheme refuses, or more identities than a
    /// connection may have. Stock clients give up then.
    Failed,
    /// Without a word, so that the client tries another server: it means another ensemble.
    Elsewhere,
}

/// Takes an auth packet.
///
/// # Errors
/// [`NotTaken`]; the connection is to be closed.
pub(in crate::server) fn authenticate(
    access: &Access,
    series: &Series,
    connection: &Connection,
    packet: &AuthPacket<'_>,
) -> Result<(), NotTaken> {
    if let (Some("ensemble"), Some(scheme)) = (packet.scheme.as_deref(), &access.ensemble) {
        return is_meant(scheme, series, connection, packet.auth.as_deref().unwrap_or_default());
    }
    match (packet.scheme.as_deref(), &access.digest, packet.auth.as_deref()) {
        (Some("digest"), Some(digest), Some(token)) => {
            connection.add_identities(digest_identities(digest, token)).map_err(|TooMany| {
                tracing::warn!(
                    id = %MessageId::TOO_MANY_IDENTITIES,
                    client = %connection.peer(),
                    "closing a connection that has presented too many identities"
                );
                NotTaken::Failed
            })
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
            Err(NotTaken::Failed)
        }
    }
}

/// Whether a client means this ensemble (`EnsembleAuthenticationProvider`).
fn is_meant(
    scheme: &EnsembleScheme,
    series: &Series,
    connection: &Connection,
    name: &[u8],
) -> Result<(), NotTaken> {
    match &scheme.names {
        Some(names) if !name.is_empty() => {
            let said = jute::java_text(name);
            if names.iter().any(|name| *name == said) {
                series.count(Counter::EnsembleAuthSuccesses, 1);
                return Ok(());
            }
            series.count(Counter::EnsembleAuthFailures, 1);
            tracing::warn!(
                id = %MessageId::ANOTHER_ENSEMBLE,
                client = %connection.peer(),
                "closing a connection: the client expects another ensemble"
            );
            Err(NotTaken::Elsewhere)
        }
        _ => {
            series.count(Counter::EnsembleAuthSkips, 1);
            Ok(())
        }
    }
}

/// Whether a client has shown what a request of this operation needs: to show it, nothing.
#[inline]
pub(in crate::server) fn is_enough(access: &Access, connection: &Connection, op: i32) -> bool {
    planted::is("auth-not-enforced")
        || access.enforced.as_ref().is_none_or(|schemes| is_one_of(schemes, connection, op))
}

#[inline(never)]
fn is_one_of(schemes: &[String], connection: &Connection, op: i32) -> bool {
    matches!(OpCode::from_code(op), Some(OpCode::Auth | OpCode::Sasl))
        || connection.identities().all().iter().any(|identity| schemes.contains(&identity.scheme))
}

/// What a client is told that wants SASL where none is set up.
pub(in crate::server) const fn no_sasl() -> Response<'static> {
    Response::Sasl(SaslResponse { token: None })
}

/// The identity of a user and a password, and the super user beside it if they are the super
/// user's.
pub(in crate::server) fn digest_identities(digest: &DigestScheme, token: &[u8]) -> Vec<Identity> {
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
    let text = jute::java_text(token);
    let user = text.split(':').next().unwrap_or_default();
    let text = text.as_bytes();
    let hash = match algorithm {
        _ if planted::is("digest-sha1-only") => BASE64_STANDARD.encode(Sha1::digest(text)),
        DigestAlgorithm::Sha1 => BASE64_STANDARD.encode(Sha1::digest(text)),
        DigestAlgorithm::Sha224 => BASE64_STANDARD.encode(Sha224::digest(text)),
        DigestAlgorithm::Sha256 => BASE64_STANDARD.encode(Sha256::digest(text)),
        DigestAlgorithm::Sha384 => BASE64_STANDARD.encode(Sha384::digest(text)),
        DigestAlgorithm::Sha512 => BASE64_STANDARD.encode(Sha512::digest(text)),
        DigestAlgorithm::Sha512Cut224 => BASE64_STANDARD.encode(Sha512_224::digest(text)),
        DigestAlgorithm::Sha512Cut256 => BASE64_STANDARD.encode(Sha512_256::digest(text)),
        DigestAlgorithm::Sha3At224 => BASE64_STANDARD.encode(Sha3_224::digest(text)),
        DigestAlgorithm::Sha3At256 => BASE64_STANDARD.encode(Sha3_256::digest(text)),
        DigestAlgorithm::Sha3At384 => BASE64_STANDARD.encode(Sha3_384::digest(text)),
        DigestAlgorithm::Sha3At512 => BASE64_STANDARD.encode(Sha3_512::digest(text)),
    };
    format!("{user}:{hash}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ids_are_zookeepers() {
        // SHA-1 is that of `DigestAuthenticationProvider.generateDigest`; the others are shown by
        // 3.9.5 with digestAlg=SHA-256 and SHA3-256, and made by Python's hashlib.
        let ids = [
            (DigestAlgorithm::Sha1, "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="),
            (DigestAlgorithm::Sha256, "u:/Y8xRBngpX5duYn15uUqIRaIaCviy5TEwSk419hCwuA="),
            (DigestAlgorithm::Sha512Cut224, "u:uQhd9bjKXP6GHJndVVZ2qIjzcJFAYrjzPmzxOg=="),
            (DigestAlgorithm::Sha512Cut256, "u:GahcuEqKVDomB4u/ebwuUp9/SoZ9jjQVdblytNb5wPo="),
            (DigestAlgorithm::Sha3At224, "u:VetFxgqKhf3M+E8Pj5X4NLMXFF7lPCr+KjMt9g=="),
            (DigestAlgorithm::Sha3At256, "u:3+U94Pf1dSrKR/q5qu/huTFf1Fha6TtpdtpSdhWvIS0="),
            (
                DigestAlgorithm::Sha3At384,
                "u:d4zgobLcJSLRER2rxMYl64bQqLziPCVxzKEWJoX+pEfq/zm0wPI8ZyXDgZrO/jZl",
            ),
            (
                DigestAlgorithm::Sha3At512,
                "u:CxK7PYZe5JmbxbczQTl9zOaNZXrjA0kC+0x9tzWMsGKrpYRMUAdSUKhye+ylfkRhhXm3ReL68pT1mUct81OUyQ==",
            ),
        ];
        for (algorithm, id) in ids {
            assert_eq!(digest_id(algorithm, b"u:p"), id);
        }
        // By whoAmI of 3.9.5.
        let surrogates = "\u{fffd}\u{fffd}:CHAajMjCV+FUX0fRvRN/qglqzJ0=";
        assert_eq!(digest_id(DigestAlgorithm::Sha1, b"\xed\xa0\xbd\xed\xb8\x80:p"), surrogates);
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
