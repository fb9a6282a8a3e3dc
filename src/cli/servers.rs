//! The servers to connect to, and the part of the tree that is shown: `host:port,host:port/chroot`.

use std::fmt;

use super::path;

const DEFAULT_PORT: u16 = 2181;

/// One server of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// A name or an IP address, IPv6 without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// A connect string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Servers {
    pub(super) addresses: Vec<Address>,
    /// What stands before every path on the server; empty for none.
    pub(super) chroot: String,
}

impl Servers {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (hosts, chroot) = text.split_at(text.find('/').unwrap_or(text.len()));
        let chroot = if chroot == "/" { "" } else { chroot };
        if !chroot.is_empty() {
            path::validate(chroot)?;
        }
        let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
        let addresses = hosts.map(address).collect::<Result<Vec<_>, _>>()?;
        if addresses.is_empty() {
            return Err(format!("{text:?} names no server; expected host:port,host:port/chroot"));
        }
        Ok(Self { addresses, chroot: chroot.to_owned() })
    }

    /// The path as the server knows it.
    pub(super) fn on_server(&self, path: &str) -> String {
        match (self.chroot.as_str(), path) {
            ("", _) => path.to_owned(),
            (chroot, "/") => chroot.to_owned(),
            (chroot, _) => format!("{chroot}{path}"),
        }
    }

    /// The path as it is shown; one from elsewhere stays as it is.
    pub(super) fn shown(&self, path: &str) -> String {
        match path.strip_prefix(self.chroot.as_str()) {
            Some("") => "/".to_owned(),
            Some(rest) => rest.to_owned(),
            None => path.to_owned(),
        }
    }
}

fn address(text: &str) -> Result<Address, String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None | Some("") => DEFAULT_PORT,
        Some(port) => port.parse().map_err(|_| format!("{port:?} in {text:?} is not a port"))?,
    };
    Ok(Address { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connect_string_is_a_list_and_a_chroot() {
        for (text, shown, chroot) in [
            ("localhost:2181", &["localhost:2181"][..], ""),
            ("a", &["a:2181"], ""),
            ("a:", &["a:2181"], ""),
            (" a:1 ,, b:2/", &["a:1", "b:2"], ""),
            ("[::1]:2182,[::2]/x/y", &["[::1]:2182", "[::2]:2181"], "/x/y"),
        ] {
            let servers = Servers::parse(text).expect("a connect string");
            let addresses: Vec<String> = servers.addresses.iter().map(Address::to_string).collect();
            assert_eq!(
                (addresses, servers.chroot.as_str()),
                (shown.iter().map(ToString::to_string).collect(), chroot),
                "{text}"
            );
        }
        for text in ["", "/a", "a:b", "a:70000", "a/x/", "a//x"] {
            assert!(Servers::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_stand_below_the_chroot() {
        let servers = Servers::parse("a/x").expect("a connect string");
        assert_eq!(servers.on_server("/"), "/x");
        assert_eq!(servers.on_server("/y"), "/x/y");
        assert_eq!(servers.shown("/x"), "/");
        assert_eq!(servers.shown("/x/y"), "/y");
        assert_eq!(servers.shown("/zookeeper/config"), "/zookeeper/config");
        let servers = Servers::parse("a").expect("a connect string");
        assert_eq!((servers.on_server("/").as_str(), servers.shown("/").as_str()), ("/", "/"));
    }
}
