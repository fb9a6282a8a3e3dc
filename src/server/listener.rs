//! The client port: binding it, and taking connections.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::connection::Connection;
use super::descriptors::Takers;
use super::figures::series::Counter;
use super::shared::Server;

use crate::config::ListenAddress;
use crate::message::MessageId;

/// For `listen(2)`, unless the system takes fewer. ZooKeeper leaves it at Java's 50, and of many
/// clients that come at once most wait a second and more then.
const BACKLOG: u32 = 4096;
/// How long accepting rests when the process has no descriptor left.
const REST: Duration = Duration::from_millis(50);

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

/// How many connections there may be: `maxCnxns`, and what the limit of descriptors leaves.
fn most(server: &Server) -> Option<u32> {
    let config = &server.config;
    let http_ports = u64::from(config.admin.is_some()) + u64::from(config.metrics_listen.is_some());
    let peers = config.ensemble.as_ref().map(|its| its.servers.len().saturating_sub(1) as u64);
    let left = Takers { http_ports, peers }.clients_max();
    left.into_iter().chain(config.max_cnxns.map(NonZeroU32::get)).min()
}

/// Takes connections until the server ends.
pub(super) async fn accept(listener: TcpListener, server: Arc<Server>) {
    let most = most(&server);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.ending.cancelled() => return,
        };
        match accepted {
            Ok((socket, peer)) => take(&server, socket, peer, most),
            Err(error) => {
                tracing::warn!(
                    id = %MessageId::CLIENT_NOT_ACCEPTED,
                    %error,
                    "cannot accept a connection"
                );
                tokio::time::sleep(REST).await;
            }
        }
    }
}

fn take(server: &Arc<Server>, socket: TcpStream, peer: SocketAddr, most: Option<u32>) {
    // A mapped IPv4 address is an IPv4 address: in limits, ACLs and logs.
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let config = &server.config;
    let max = config.max_client_cnxns.map(NonZeroU32::get);
    if !server.connections.admit(peer.ip(), max, most) {
        server.stats.series.count(Counter::ConnectionsRejected, 1);
        tracing::warn!(
            id = %MessageId::TOO_MANY_CONNECTIONS,
            client = %peer,
            "refusing a connection: too many, see maxClientCnxns, maxCnxns and the limit of open files"
        );
        return;
    }
    let options = SockRef::from(&socket);
    let set = options.set_tcp_nodelay(true).and_then(|()| {
        if config.client_tcp_keep_alive { options.set_keepalive(true) } else { Ok(()) }
    });
    if let Err(error) = set {
        tracing::debug!(%peer, %error, "cannot set socket options");
    }
    let id = server.connections.next_id();
    let unread = Arc::clone(server.connections.unread());
    let connection = Arc::new(Connection::new(id, peer, socket, server.clock, unread));
    server.connections.add(&connection);
    tokio::spawn(connection.run(Arc::clone(server)));
}
