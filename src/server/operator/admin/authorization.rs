//! Who asks, and whether they may (`Commands.handleAuthentication` and `handleAuthorization`).

use std::fmt;
use std::net::SocketAddr;

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use jute::{Acl, perms};

use crate::config::Access;
use crate::engine::NodeId;
use crate::engine::access::acl::{AclList, Identities, Identity};
use crate::engine::database::Database;
use crate::planted;
use crate::server::client::auth;
use crate::server::client::connection::java_address;
use crate::server::shared::Server;

const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// Each bit is asked for by itself.
const ALL: [i32; 5] = [perms::READ, perms::WRITE, perms::CREATE, perms::DELETE, perms::ADMIN];

/// What an asker has to be for a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Somebody whom the root's ACL gives everything: by default whoever shows anything at all,
    /// which nobody checks.
    PassesRoot,
    /// Somebody whom an entry of it gives everything that is not for the world.
    NamedByRoot,
    /// The super user.
    Super,
}

/// Why a command is not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotRun {
    Missing,
    NotAuthenticated,
    NotAuthorized,
    /// ZooKeeper would have run it.
    NotOverLoopback(Needs),
}

impl fmt::Display for NotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "Auth info is missing for the command",
            Self::NotAuthenticated => "Not authenticated",
            Self::NotAuthorized => "Not authorized",
            Self::NotOverLoopback(Needs::Super) => {
                "Not authorized: a request that does not come over loopback, or comes through a \
                 proxy or from a web page of another site, requires the super user; with \
                 admin.remote.allowWorld=true, it requires no more than in ZooKeeper"
            }
            Self::NotOverLoopback(_) => {
                "Not authorized: a request that does not come over loopback, or comes through a \
                 proxy or from a web page of another site, requires the super user, or an identity \
                 other than world to which the ACL of / gives all permissions; with \
                 admin.remote.allowWorld=true, it requires no more than in ZooKeeper"
            }
        })
    }
}

impl Needs {
    fn is_met(self, database: &Database, identities: &Identities) -> bool {
        match self {
            Self::PassesRoot => {
                ALL.iter().all(|perm| database.check(NodeId::ROOT, *perm, identities).is_ok())
            }
            Self::NamedByRoot => {
                let list = database.tree().acls().list(database.tree().acl(NodeId::ROOT));
                identities.is_super() || is_named(list.map_or(&[], |list| list), identities)
            }
            Self::Super => identities.is_super(),
        }
    }
}

/// Whether a list gives everything to one of these identities, and not for being for everybody.
fn is_named(list: &[Acl<'_>], identities: &Identities) -> bool {
    let is_world = |acl: &Acl<'_>| acl.scheme.as_deref() == Some("world");
    let named: Vec<Acl<'_>> = list.iter().filter(|acl| !is_world(acl)).cloned().collect();
    let named = AclList::new(&named);
    // A list without entries lets everybody in.
    !named.is_empty() && ALL.iter().all(|perm| identities.may(&named, *perm))
}

/// A value as Jetty reads it: in ISO 8859-1, whatever it was sent in.
fn text(value: &HeaderValue) -> String {
    value.as_bytes().iter().copied().map(char::from).collect()
}

/// Who asks.
#[derive(Debug)]
pub(super) struct Asker {
    address: String,
    is_over_loopback: bool,
}

impl Asker {
    /// Whoever sends the request over a connection with these ends, the other one first, or where
    /// that is `trusted` the one that a proxy sends it for.
    pub(super) fn new(
        (peer, own): (SocketAddr, Option<SocketAddr>),
        headers: &HeaderMap,
        trusted: bool,
    ) -> Self {
        let of_proxy = headers.get(X_FORWARDED_FOR);
        let ip = peer.ip().to_canonical();
        let first = |value: &HeaderValue| {
            let list = text(value);
            list.split(',').map(str::trim).find(|address| !address.is_empty()).map(str::to_owned)
        };
        let forwarded = of_proxy.filter(|_| trusted).and_then(first);
        Self {
            address: forwarded.unwrap_or_else(|| java_address(ip)),
            // A proxy on this machine speaks for others; one that says nothing of it may connect
            // from loopback to the address that others connect to.
            is_over_loopback: ip.is_loopback()
                && own.is_some_and(|own| own.ip().to_canonical().is_loopback())
                && of_proxy.is_none()
                && !headers.contains_key("forwarded")
                && !is_of_another_site(headers),
        }
    }

    pub(super) const fn is_over_loopback(&self) -> bool {
        self.is_over_loopback
    }

    /// Whether the asker is what a command needs.
    pub(super) fn authorize(
        &self,
        server: &Server,
        shown: Option<&HeaderValue>,
        needs: Needs,
    ) -> Result<(), NotRun> {
        let shown = shown.ok_or(NotRun::Missing)?;
        let identities =
            self.identities(&server.config.access, &text(shown)).ok_or(NotRun::NotAuthenticated)?;
        let identities = Identities::from(identities);
        let database = server.replica.shared();
        if !needs.is_met(&database, &identities) && !planted::is("admin-not-authorized") {
            return Err(match Needs::PassesRoot.is_met(&database, &identities) {
                true => NotRun::NotOverLoopback(needs),
                false => NotRun::NotAuthorized,
            });
        }
        Ok(())
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

/// Whether a browser on this machine sends the request because a page from elsewhere has it do so.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site").map(text);
    let origin = headers.get(ORIGIN).map(text);
    let host = headers.get(HOST).map(text).unwrap_or_default();
    let is_own = |origin: &String| origin.split_once("://").is_some_and(|(_, its)| its == host);
    !site.is_none_or(|site| matches!(site.as_str(), "same-origin" | "none"))
        || !origin.as_ref().is_none_or(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DigestAlgorithm, DigestScheme};

    fn asker(peer: &str, headers: &[(&'static str, &'static str)], trusted: bool) -> Asker {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), HeaderValue::from_static(value)));
        let own = if trusted { "127.0.0.1:8080" } else { "[::ffff:127.0.0.1]:8080" };
        let ends = [peer, own].map(|end| end.parse().expect("an address"));
        Asker::new((ends[0], Some(ends[1])), &headers.collect(), trusted)
    }

    /// As a proxy of a mesh connects, which adds no header where it does not know the protocol.
    #[test]
    fn who_comes_from_loopback_to_an_address_of_others_is_not_over_loopback() {
        let peer = "127.0.0.6:1".parse().expect("an address");
        for own in ["192.0.2.2:8080", "[2001:db8::1]:8080", "[::ffff:192.0.2.2]:8080"] {
            let own = Some(own.parse().expect("an address"));
            assert!(!Asker::new((peer, own), &HeaderMap::new(), false).is_over_loopback());
        }
        assert!(!Asker::new((peer, None), &HeaderMap::new(), false).is_over_loopback());
    }

    #[test]
    fn only_who_connects_from_here_by_himself_is_over_loopback() {
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
            // As browsers say whose page it is that has them ask.
            ("127.0.0.1:1", &[("sec-fetch-site", "none")], true),
            ("127.0.0.1:1", &[("sec-fetch-site", "same-origin")], true),
            ("127.0.0.1:1", &[("sec-fetch-site", "cross-site")], false),
            ("127.0.0.1:1", &[("sec-fetch-site", "same-site")], false),
            ("127.0.0.1:1", &[("origin", "http://a:8080"), ("host", "a:8080")], true),
            ("127.0.0.1:1", &[("origin", "http://b:8080"), ("host", "a:8080")], false),
            ("127.0.0.1:1", &[("origin", "null"), ("host", "a:8080")], false),
        ] {
            for trusted in [false, true] {
                let asker = asker(peer, headers, trusted);
                assert_eq!(asker.is_over_loopback(), expected, "{peer} {headers:?}");
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
    fn who_is_let_in_as_anybody_is_named_by_no_list() {
        let entry = |perms, scheme: &'static str, id: &'static str| Acl {
            perms,
            scheme: Some(scheme.into()),
            id: Some(id.into()),
        };
        let shown = |scheme: &str, id: &str| Identity { scheme: scheme.into(), id: id.into() };
        let (anybody, u) = (shown("digest", "any:hash"), shown("digest", "u:hash"));
        let (near, far) = (shown("ip", "10.0.0.1"), shown("ip", "10.1.0.1"));
        let world = entry(perms::ALL, "world", "anyone");
        let of_u = entry(perms::ALL, "digest", "u:hash");
        let none: [bool; 4] = [false; 4];
        for (list, expected) in [
            (vec![], none),
            (vec![world.clone()], none),
            (vec![world.clone(), of_u.clone()], [false, true, false, false]),
            (vec![entry(perms::ALL - 1, "digest", "u:hash"), world.clone()], none),
            (
                vec![entry(perms::ALL - 1, "digest", "u:hash"), entry(1, "digest", "u:hash")],
                [false, true, false, false],
            ),
            (vec![entry(perms::ALL, "ip", "10.0.0.0/16")], [false, false, true, false]),
        ] {
            let found = [&anybody, &u, &near, &far]
                .map(|identity| is_named(&list, &vec![identity.clone()].into()));
            assert_eq!(found, expected, "{list:?}");
        }
    }

    #[test]
    fn identities_are_those_of_zookeepers_schemes() {
        let digest = DigestScheme {
            algorithm: DigestAlgorithm::Sha1,
            super_digest: Some("u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=".to_owned()),
        };
        let with = Access { skip_acl: false, digest: Some(digest), ensemble: None, enforced: None };
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

    #[test]
    fn a_header_is_read_in_iso_8859_1() {
        for (bytes, expected) in [(&b"u:p"[..], "u:p"), (b"\xc3\xbc", "Ã¼"), (b"\xfc", "ü")] {
            assert_eq!(text(&HeaderValue::from_bytes(bytes).expect("a value")), expected);
        }
    }
}
