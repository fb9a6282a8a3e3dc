//! Where a server is reached, as its line in a list says it.

use std::fmt;

use crate::list::Server;
use crate::list::host::Host;

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
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}
