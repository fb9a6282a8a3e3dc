//! Where a server is reached, as lists have it and as servers say it of themselves.

use std::fmt;
use std::net::IpAddr;

use bytes::{Buf as _, BufMut};

use crate::list::Server;
use crate::list::host::Host;

/// Bytes of a host that a server says of itself, at most.
const HOST_MAX: usize = 255;

/// Where the others reach a server. A name is looked up at each dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Address {
    pub(super) fn of(server: &Server) -> Self {
        Self { host: server.host.clone(), port: server.quorum_port }
    }

    /// Whether others could reach a server there: every address and no port are nowhere.
    fn is_somewhere(&self) -> bool {
        let every = |ip: IpAddr| ip.is_unspecified();
        self.port != 0 && !self.host.as_str().parse().is_ok_and(every)
    }

    /// Says where this server is reached, if that is somewhere: length of the host u16, the host,
    /// port u16.
    pub(super) fn put(address: Option<&Self>, out: &mut impl BufMut) {
        let can_be_said =
            |address: &&Self| address.is_somewhere() && address.host.as_str().len() <= HOST_MAX;
        let (host, port) = match address.filter(can_be_said) {
            Some(address) => (address.host.as_str(), address.port),
            None => ("", 0),
        };
        out.put_u16(u16::try_from(host.len()).unwrap_or_default());
        out.put_slice(host.as_bytes());
        out.put_u16(port);
    }

    /// What a server says of itself; `None` for what is malformed, and within for nothing. What
    /// comes after it is not looked at.
    pub(super) fn parse(mut bytes: &[u8]) -> Option<Option<Self>> {
        let len = usize::from(bytes.try_get_u16().ok()?);
        if len > HOST_MAX {
            return None;
        }
        let (host, mut port) = bytes.split_at_checked(len)?;
        let port = port.try_get_u16().ok()?;
        if host.is_empty() {
            return Some(None);
        }
        let host = Host::of(std::str::from_utf8(host).ok()?)?;
        Some(Some(Self { host, port }).filter(Self::is_somewhere))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address { host: Host::of(host).expect("a host"), port }
    }

    fn bytes(address: &Address) -> Vec<u8> {
        let mut out = Vec::new();
        Address::put(Some(address), &mut out);
        out
    }

    #[test]
    fn an_address_is_read_as_it_was_said() {
        assert_eq!(bytes(&address("zk4", 2888)), b"\0\x03zk4\x0b\x48");
        let longest = "h".repeat(255);
        for said in [address("10.0.0.7", 1), address("::1", 2888), address(&longest, 65535)] {
            let more = [bytes(&said), vec![9; 20]].concat();
            assert_eq!(Address::parse(&more), Some(Some(said.clone())));
            for cut in 0..bytes(&said).len() {
                assert_eq!(Address::parse(&more[..cut]), None, "{said} cut at {cut}");
            }
        }
    }

    /// What many lines have for this server itself would lead everybody else to itself.
    #[test]
    fn an_address_that_leads_nowhere_is_none() {
        let nothing = b"\0\0\0\0";
        let too_long = "h".repeat(256);
        for nowhere in [
            address("0.0.0.0", 2888),
            address("::", 2888),
            address("zk4", 0),
            address(&too_long, 2888),
        ] {
            assert_eq!(bytes(&nowhere), nothing, "{nowhere}");
        }
        assert_eq!(Address::parse(nothing), Some(None));
        assert_eq!(Address::parse(b"\0\x070.0.0.0\x0b\x48"), Some(None));
        assert_eq!(Address::parse(b"\0\x03zk4\0\0"), Some(None));
    }

    #[test]
    fn what_no_list_could_hold_is_malformed() {
        for host in [&b"a b"[..], b"a;b", b"\xff\xfe", b"a\nb"] {
            let said = [&[0, u8::try_from(host.len()).expect("few")][..], host, &[11, 72]].concat();
            assert_eq!(Address::parse(&said), None, "{}", host.escape_ascii());
        }
        assert_eq!(Address::parse(&[&[1, 0][..], &[b'h'; 256], &[11, 72]].concat()), None);
    }
}
