//! Who a client shows to be: auth packets (reference 8.3) and what an unconfigured SASL answers (8.6).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jute::ErrorCode;
use jute::protocol::{AuthPacket, Response, SaslResponse};
use sha1::{Digest as _, Sha1};

use super::connection::Connection;
use super::shared::Server;
use crate::engine::acl::Identity;

/// Takes an auth packet.
///
/// # Errors
/// [`ErrorCode::AuthFailed`] for a scheme that is not here, and for what a scheme refuses. The connection is closed.
pub(super) fn authenticate(
    _server: &Server,
    connection: &Connection,
    packet: &AuthPacket<'_>,
) -> Result<(), ErrorCode> {
    match packet.scheme.as_deref() {
        Some("digest") => {
            let token = packet.auth.as_deref().ok_or(ErrorCode::AuthFailed)?;
            connection
                .add_identities([Identity { scheme: "digest".to_owned(), id: digest_id(token) }]);
            Ok(())
        }
        // Every connection has its address as an identity from the beginning.
        Some("ip") => Ok(()),
        scheme => {
            tracing::warn!(peer = %connection.peer(), ?scheme, "authentication failed");
            Err(ErrorCode::AuthFailed)
        }
    }
}

/// What a client is told that wants SASL where none is set up.
pub(super) const fn no_sasl() -> Response<'static> {
    Response::Sasl(SaslResponse { token: None })
}

/// `user:base64(hash(user:password))`.
fn digest_id(token: &[u8]) -> String {
    let text = String::from_utf8_lossy(token);
    let user = text.split(':').next().unwrap_or_default();
    format!("{user}:{}", BASE64_STANDARD.encode(Sha1::digest(text.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_ids_are_zookeepers() {
        // Reference 8.5.
        assert_eq!(digest_id(b"u:p"), "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=");
    }
}
