//! A host of a list: a name, or an address in the form that Java gives it.
//!
//! Never looked up: what an address is, its text says.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A name as it was written, or an address as `InetSocketAddress.getHostString` prints it.
/// Printable ASCII without what separates the parts of a line or of a file.
#[derive(Debug, Clone, Eq)]
pub struct Host(String);

impl Host {
    /// The host that is written so, IPv6 without its brackets; `None` for what no file could hold.
    #[must_use]
    pub fn of(written: &str) -> Option<Self> {
        if written.is_empty() {
            return Some(Self("localhost".to_owned()));
        }
        if let Some(address) = ipv4(written) {
            return Some(Self(address.to_string()));
        }
        let (bare, zone) = match written.split_once('%') {
            Some((bare, _)) => (bare, &written[bare.len()..]),
            None => (written, ""),
        };
        let text = match bare.parse::<Ipv6Addr>() {
            Ok(address) => format!("{}{zone}", as_java_prints(address)),
            Err(_) => written.to_owned(),
        };
        let is_kept = |c: char| c.is_ascii_graphic() && !"\\,;|[]".contains(c);
        text.chars().all(is_kept).then_some(Self(text))
    }

    /// IPv6 without brackets.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it stands for every address of a machine.
    #[must_use]
    pub fn is_every_address(&self) -> bool {
        self.0.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
    }

    /// Whether it is another machine on each machine: every address, or loopback.
    #[must_use]
    pub fn is_of_this_machine(&self) -> bool {
        match self.0.parse::<IpAddr>() {
            Ok(address) => address.is_unspecified() || address.is_loopback(),
            Err(_) => self.0.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl PartialEq for Host {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

/// IPv6 in brackets.
impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.contains(':') {
            true => write!(f, "[{}]", self.0),
            false => f.write_str(&self.0),
        }
    }
}

/// As `IPAddressUtil.textToNumericFormatV4` of OpenJDK 17: one to four decimal numbers, the last of
/// which fills what is left.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    if text.len() > 15 {
        return None;
    }
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let number = |part: &str| is_number(part).then(|| part.parse::<u64>().ok()).flatten();
    let parts: Vec<u64> = text.split('.').map(number).collect::<Option<_>>()?;
    let (last, first) = parts.split_last()?;
    let left = 4_usize.checked_sub(first.len()).filter(|left| *left > 0)? * 8;
    if first.iter().any(|part| *part > 255) || *last >> left > 0 {
        return None;
    }
    let high = first.iter().fold(0, |high, part| high << 8 | part);
    u32::try_from(high << left | last).ok().map(Ipv4Addr::from_bits)
}

/// Without abbreviation, and what stands for IPv4 as that.
fn as_java_prints(address: Ipv6Addr) -> String {
    match address.to_ipv4_mapped() {
        Some(address) => address.to_string(),
        None => address.segments().map(|part| format!("{part:x}")).join(":"),
    }
}
