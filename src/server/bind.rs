//! Binding a port of clients or of the AdminServer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::config::ListenAddress;

/// For `listen(2)`, unless the system takes fewer. ZooKeeper leaves it at Java's 50, and of many
/// clients that come at once most wait a second and more then.
const BACKLOG: u32 = 4096;
/// Binds a port. Without an address it takes IPv4 and IPv6 alike, or IPv4 alone where there is no
/// IPv6.
///
/// # Errors
/// Those of the system calls.
pub(super) fn bind(listen: &ListenAddress, backlog: Option<NonZeroU32>) -> io::Result<TcpListener> {
    let backlog = backlog.map_or(BACKLOG, NonZeroU32::get);
    match listen.address {
        Some(address) => bind_one(SocketAddr::new(address, listen.port), backlog),
        None => bind_one((IpAddr::from(Ipv6Addr::UNSPECIFIED), listen.port).into(), backlog)
            .or_else(|error| match error.kind() {
                io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
                _ => bind_one((IpAddr::from(Ipv4Addr::UNSPECIFIED), listen.port).into(), backlog),
            }),
    }
}

fn bind_one(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    TcpListener::from_std(socket.into())
}
