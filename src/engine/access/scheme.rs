//! The authentication schemes of ACL entries: which ids exist, and which identity matches which id
//! (`AuthenticationProvider`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use jute::Acl;

use super::identity::Identity;

/// Whether an entry names an id that its scheme can have. `world` and `auth` are the caller's
/// business.
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

#[cfg(test)]
thread_local! {
    /// Ids that were looked at to find one, and their bytes.
    pub(in crate::engine) static LOOKED_AT: std::cell::Cell<usize> =
        const { std::cell::Cell::new(0) };
    pub(super) static BYTES_LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Bytes of an id that take about as long as to look at a short one.
const LOOK_BYTES: usize = 128;

/// What it costs to look at an id, in looks at short ones: a client chooses how long it is.
pub(in crate::engine) const fn looks(id: &str) -> usize {
    1 + id.len() / LOOK_BYTES
}

/// Counts an id that is looked at.
pub(in crate::engine) fn look_at(id: &str) {
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + 1);
    hash(id);
}

/// Counts the bytes of an id that is hashed to be looked for.
#[cfg_attr(not(test), expect(clippy::missing_const_for_fn, reason = "in tests it counts"))]
pub(in crate::engine) fn hash(id: &str) {
    #[cfg(test)]
    BYTES_LOOKED_AT.set(BYTES_LOOKED_AT.get() + id.len());
    #[cfg(not(test))]
    let _ = id;
}

/// Whether an identity is the one that an entry names.
pub(in crate::engine) fn matches(acl: &Acl<'_>, identity: &Identity) -> bool {
    let (Some(scheme), Some(id)) = (acl.scheme.as_deref(), acl.id.as_deref()) else { return false };
    look_at(id);
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
pub(in crate::engine) fn user_name(identity: &Identity) -> &str {
    match identity.scheme.as_str() {
        "digest" => identity.id.split_once(':').map_or(identity.id.as_str(), |(user, _)| user),
        "super" => "",
        _ => &identity.id,
    }
}

/// An address of which only so many leading bits count; the others are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct IpPrefix {
    address: IpAddr,
    bits: u32,
}

impl IpPrefix {
    pub(in crate::engine) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (parse_address(address)?, Some(java_int(bits, 10)?)),
            None => (parse_address(text)?, None),
        };
        let width = if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS };
        let bits = bits.map_or(Some(width), |bits| u32::try_from(bits).ok())?;
        (bits <= width).then(|| Self::of(address, bits))
    }

    /// The one of this length that an address is in.
    pub(in crate::engine) fn of(address: IpAddr, bits: u32) -> Self {
        let address = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(Ipv4Addr::BITS - bits).unwrap_or_default();
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - bits).unwrap_or_default();
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Self { address, bits }
    }

    /// Whether it is one of IPv4, and its length.
    pub(in crate::engine) const fn length(&self) -> (bool, u32) {
        (self.address.is_ipv4(), self.bits)
    }

    fn contains(&self, other: IpAddr) -> bool {
        self.address.is_ipv4() == other.is_ipv4() && Self::of(other, self.bits) == *self
    }
}

/// An address as `IPAuthenticationProvider` reads it: with a colon eight segments or fewer around
/// one `::`, and no dotted quad among them; else four numbers.
pub(super) fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') { parse_v6(text).map(IpAddr::V6) } else { parse_v4(text).map(IpAddr::V4) }
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.');
    let mut octets = [0_u8; 4];
    for octet in &mut octets {
        *octet = u8::try_from(java_int(parts.next()?, 10)?).ok()?;
    }
    parts.next().is_none().then(|| octets.into())
}

fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    let mut segments = [0_u16; 8];
    let (head, tail) = match text.split_once("::") {
        Some((_, tail)) if tail.contains("::") => return None,
        Some((head, tail)) => (segments_of(head)?, segments_of(tail)?),
        None => (segments_of(text)?, Vec::new()),
    };
    let is_whole = head.len() == segments.len();
    let is_short = text.contains("::") && head.len() + tail.len() < segments.len();
    if !is_whole && !is_short || is_whole && text.contains("::") {
        return None;
    }
    segments.get_mut(..head.len())?.copy_from_slice(&head);
    let from = segments.len() - tail.len();
    segments.get_mut(from..)?.copy_from_slice(&tail);
    Some(segments.into())
}

/// Segments between single colons; none in an empty text.
fn segments_of(text: &str) -> Option<Vec<u16>> {
    let one = |text: &str| {
        let segment = java_int(text, 16).filter(|_| text.len() <= 4)?;
        // Of a number below zero, which can have three digits here, ZooKeeper takes the two low
        // bytes.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as it says")]
        Some(segment as u16)
    };
    if text.is_empty() { Some(Vec::new()) } else { text.split(':').map(one).collect() }
}

/// Java's `Integer.parseInt`, but for digits beyond ASCII.
fn java_int(text: &str, radix: u32) -> Option<i32> {
    i32::from_str_radix(text, radix).ok()
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
        // More of them, and what 3.9.5 says: compat-tests/tests/handshake/acls.rs.
        let as_zookeeper =
            [("::ffff:102:304", true), ("::ffff:1.2.3.4", false), ("::1.2.3.4", false)];
        for (id, expected) in as_zookeeper {
            assert_eq!(is_valid(&acl("ip", id)), expected, "{id}");
        }
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
            ("fe80::1/127", "fe80::", true),
            ("fe80::1/128", "fe80::", false),
            ("::/0", "ff80::1", true),
            // Two low bytes of -15.
            ("-f::", "fff1:0:0:0:0:0:0:0", true),
            ("-0.0.0.0/+1", "127.0.0.1", true),
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
        // `AuthUtil.getClientInfos`; for `super` there is no provider that could name anyone.
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
