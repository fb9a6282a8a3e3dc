//! Who asks, and whether they may (`Commands.handleAuthentication` and `handleAuthorization`).

use std::fmt;
use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderValue};
use jute::perms;

use crate::config::Access;
use crate::engine::NodeId;
use crate::engine::acl::Identity;
use crate::server::auth;
use crate::server::connection::java_address;
use crate::server::shared::Server;

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Each bit is asked for by itself.
const ALL: [i32; 5] = [perms::READ, perms::WRITE, perms::CREATE, perms::DELETE, perms::ADMIN];

/// Why a command is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    Missing,
    NotAuthenticated,
    NotAuthorized,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "Auth info is missing for the command",
            Self::NotAuthenticated => "Not authenticated",
            Self::NotAuthorized => "Not authorized",
        })
    }
}

/// Who asks.
#[derive(Debug)]
pub(super) struct Asker {
    address: String,
    is_on_this_machine: bool,
}

impl Asker {
    /// Whoever sends the request, or where that is `trusted` the one that a proxy sends it for.
    pub(super) fn new(peer: SocketAddr, headers: &HeaderMap, trusted: bool) -> Self {
        let of_proxy = headers.get(X_FORWARDED_FOR);
        let ip = peer.ip().to_canonical();
        let first = |value: &HeaderValue| {
            let list = String::from_utf8_lossy(value.as_bytes()).into_owned();
            list.split(',').map(str::trim).find(|address| !address.is_empty()).map(str::to_owned)
        };
        let forwarded = of_proxy.filter(|_| trusted).and_then(first);
        Self {
            address: forwarded.unwrap_or_else(|| java_address(ip)),
            // A proxy on this machine speaks for others.
            is_on_this_machine: ip.is_loopback()
                && of_proxy.is_none()
                && !headers.contains_key("forwarded"),
        }
    }

    pub(super) const fn is_on_this_machine(&self) -> bool {
        self.is_on_this_machine
    }

    /// Whether the asker may do everything with the root.
    pub(super) fn authorize(
        &self,
        server: &Server,
        shown: Option<&HeaderValue>,
    ) -> Result<(), Refused> {
        let shown = shown.ok_or(Refused::Missing)?;
        let shown = String::from_utf8_lossy(shown.as_bytes());
        let identities =
            self.identities(&server.config.access, &shown).ok_or(Refused::NotAuthenticated)?;
        let database = server.replica.shared();
        let may = ALL.iter().all(|perm| database.check(NodeId::ROOT, *perm, &identities).is_ok());
        if may { Ok(()) } else { Err(Refused::NotAuthorized) }
    }

    /// Whom `SCHEME DATA` shows; `None` for what no scheme takes.
    fn identities(&self, access: &Access, shown: &str) -> Option<Vec<Identity>> {
        // Java's split leaves out what is empty at the end.
        let words: Vec<&str> = shown.trim_end_matches(' ').split(' ').collect();
        match (words.as_slice(), &access.digest) {
            (["digest", token], Some(digest)) => {
                Some(auth::digest_identities(digest, token.as_bytes()))
            }
            (["ip"] | ["ip", _], _) => {
                Some(vec![Identity { scheme: "ip".to_owned(), id: self.address.clone() }])
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DigestAlgorithm, DigestScheme};

    fn asker(peer: &str, headers: &[(&'static str, &'static str)], trusted: bool) -> Asker {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)));
        Asker::new(peer.parse().expect("an address"), &headers.collect(), trusted)
    }

    #[test]
    fn only_who_connects_from_here_by_himself_is_on_this_machine() {
        for (peer, headers, expected) in [
            ("127.0.0.1:1", &[][..], true),
            ("127.8.0.1:1", &[], true),
            ("[::1]:1", &[], true),
            ("[::ffff:127.0.0.1]:1", &[], true),
            ("10.0.0.1:1", &[], false),
            ("[::ffff:10.0.0.1]:1", &[], false),
            ("127.0.0.1:1", &[("x-forwarded-for", "127.0.0.1")], false),
            ("127.0.0.1:1", &[("forwarded", "for=127.0.0.1")], false),
            ("10.0.0.1:1", &[("x-forwarded-for", "127.0.0.1")], false),
        ] {
            for trusted in [false, true] {
                let asker = asker(peer, headers, trusted);
                assert_eq!(asker.is_on_this_machine(), expected, "{peer} {headers:?}");
            }
        }
    }

    #[test]
    fn an_address_is_that_of_the_peer_unless_a_proxy_is_trusted() {
        let forwarded = [("x-forwarded-for", " 10.0.0.7 ,10.0.0.8")];
        assert_eq!(asker("10.0.0.1:1", &forwarded, false).address, "10.0.0.1");
        assert_eq!(asker("10.0.0.1:1", &forwarded, true).address, "10.0.0.7");
        assert_eq!(asker("10.0.0.1:1", &[("x-forwarded-for", " ,")], true).address, "10.0.0.1");
        assert_eq!(asker("[::1]:1", &[], true).address, "0:0:0:0:0:0:0:1");
    }

    #[test]
    fn identities_are_those_of_zookeepers_schemes() {
        let digest = DigestScheme {
            algorithm: DigestAlgorithm::Sha1,
            super_digest: Some("u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=".to_owned()),
        };
        let with = Access { skip_acl: false, digest: Some(digest), enforced: None };
        let without = Access { digest: None, ..with.clone() };
        let here = asker("10.0.0.1:1", &[], false);
        let schemes = |access: &Access, shown: &str| {
            here.identities(access, shown).map(|identities| {
                let schemes = identities.into_iter().map(|identity| identity.scheme);
                schemes.collect::<Vec<String>>().join(" ")
            })
        };
        for (shown, expected) in [
            ("digest u:p", Some("super digest")),
            ("digest u:q", Some("digest")),
            ("digest u:p  ", Some("super digest")),
            ("digest  u:p", None),
            ("digest u p", None),
            ("digest", None),
            ("DIGEST u:p", None),
            ("ip", Some("ip")),
            ("ip 10.0.0.9", Some("ip")),
            ("ip 1 2", None),
            ("x509", None),
            ("world anyone", None),
            ("super", None),
            ("", None),
        ] {
            assert_eq!(schemes(&with, shown).as_deref(), expected, "{shown}");
        }
        assert_eq!(schemes(&without, "digest u:p"), None);
        let address = here.identities(&with, "ip 10.0.0.9").expect("an identity");
        assert_eq!(address[0].id, "10.0.0.1", "it is not what the asker says");
    }
}
