//! The authentication schemes of ACL entries: which ids exist, and which identity matches which id (reference 8.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jute::Acl;

use super::acl::Identity;

/// Whether an entry names an id that its scheme can have. `world` and `auth` are the caller's business.
pub(super) fn is_valid(acl: &Acl<'_>) -> bool {
    let (Some(scheme), Some(id)) = (acl.scheme.as_deref(), acl.id.as_deref()) else { return false };
    match scheme {
        "digest" => {
            // Java's split drops empty parts at the end.
            id.trim_end_matches(':').split(':').count() == 2
        }
        "ip" => IpPrefix::parse(id).is_some(),
        _ => false,
    }
}

/// Whether an identity is the one that an entry names.
pub(super) fn matches(acl: &Acl<'_>, identity: &Identity) -> bool {
    let (Some(scheme), Some(id)) = (acl.scheme.as_deref(), acl.id.as_deref()) else { return false };
    scheme == identity.scheme
        && match scheme {
            "digest" => id == identity.id,
            "ip" => match (IpPrefix::parse(id), parse_address(&identity.id)) {
                (Some(prefix), Some(address)) => prefix.contains(address),
                _ => false,
            },
            _ => false,
        }
}

/// Whether an identity was proven by its owner: those stand for the scheme `auth`.
pub(super) fn counts_for_auth(identity: &Identity) -> bool {
    identity.scheme == "digest"
}

/// The name that whoAmI shows for an identity.
pub(super) fn user_name(identity: &Identity) -> &str {
    match identity.scheme.as_str() {
        "digest" => identity.id.split_once(':').map_or(identity.id.as_str(), |(user, _)| user),
        "super" => "",
        _ => &identity.id,
    }
}

/// An address and how many of its leading bits count.
struct IpPrefix {
    address: IpAddr,
    bits: u32,
}

impl IpPrefix {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (parse_address(address)?, Some(bits.parse().ok()?)),
            None => (parse_address(text)?, None),
        };
        let width = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
        let bits = bits.unwrap_or(width);
        (bits <= width).then_some(Self { address, bits })
    }

    fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => {
                let differing = a.to_bits() ^ b.to_bits();
                differing.leading_zeros() >= self.bits
            }
            (IpAddr::V6(a), IpAddr::V6(b)) => {
                let differing = a.to_bits() ^ b.to_bits();
                differing.leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

/// Dotted quads as Java's `Integer.parseInt` reads them (leading zeros allowed), else IPv6.
fn parse_address(text: &str) -> Option<IpAddr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split('.');
    let quad = octets.iter_mut().all(|octet| {
        parts.next().and_then(|part| part.parse().ok()).map(|value| *octet = value).is_some()
    });
    if quad && parts.next().is_none() {
        return Some(IpAddr::from(octets));
    }
    text.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acl(scheme: &'static str, id: &'static str) -> Acl<'static> {
        Acl { perms: 31, scheme: Some(scheme.into()), id: Some(id.into()) }
    }

    fn identity(scheme: &str, id: &str) -> Identity {
        Identity { scheme: scheme.into(), id: id.into() }
    }

    #[test]
    fn ids_of_digest_have_two_parts() {
        for (id, valid) in
            [("u:h", true), ("u", false), ("u:", false), ("u:h:x", false), ("u:h:", true)]
        {
            assert_eq!(is_valid(&acl("digest", id)), valid, "{id}");
        }
    }

    #[test]
    fn ids_of_ip_are_addresses_with_an_optional_prefix() {
        let valid =
            ["10.0.0.1", "10.0.0.0/8", "10.0.0.0/0", "10.0.0.0/32", "::1", "fe80::/10", "::/128"];
        let invalid =
            ["10.0.0", "10.0.0.256", "10.0.0.0/33", "10.0.0.0/-1", "::/129", "host", "", "/8"];
        for id in valid {
            assert!(is_valid(&acl("ip", id)), "{id}");
        }
        for id in invalid {
            assert!(!is_valid(&acl("ip", id)), "{id}");
        }
    }

    #[test]
    fn ip_matches_by_prefix_and_family() {
        let matching = [
            ("127.0.0.0/8", "127.1.2.3", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("::1", "0:0:0:0:0:0:0:1", true),
            ("fe80::/10", "fe81::1", true),
            ("fe80::/10", "ff80::1", false),
        ];
        for (id, address, expected) in matching {
            assert_eq!(
                matches(&acl("ip", id), &identity("ip", address)),
                expected,
                "{id} {address}"
            );
        }
        assert!(!matches(&acl("digest", "u:h"), &identity("ip", "127.0.0.1")));
    }

    #[test]
    fn unknown_schemes_are_invalid() {
        for scheme in ["super", "x509", "ensemble", "nosuch"] {
            assert!(!is_valid(&acl(scheme, "a:b")), "{scheme}");
        }
    }

    #[test]
    fn names_are_shown_without_what_is_secret() {
        // Reference 8.8.
        for (scheme, id, name) in [
            ("digest", "u:h", "u"),
            ("digest", "u", "u"),
            ("ip", "::1", "::1"),
            ("super", "u:h", ""),
        ] {
            assert_eq!(user_name(&identity(scheme, id)), name, "{scheme}:{id}");
        }
    }
}
