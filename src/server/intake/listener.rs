//! Taking connections of the client port.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};

use super::drive;
use crate::message::MessageId;
use crate::planted;
use crate::server::client::connection::Connection;
use crate::server::descriptors::{self, Takers};
use crate::server::figures::series::Counter;
use crate::server::shared::Server;

/// How long accepting rests when the process has no descriptor left.
const REST: Duration = Duration::from_millis(50);

/// How many connections there may be: `maxCnxns`, and what the limit of descriptors leaves.
fn most(server: &Server) -> Option<u32> {
    let config = &server.config;
    let http_ports = u64::from(config.admin.is_some()) + u64::from(config.metrics_listen.is_some());
    let peers = |list: usize| descriptors::peers(list, config.reconfig_enabled);
    let peers = config.ensemble.as_ref().map(|its| peers(its.list.servers.iter().len()));
    let left = Takers { http_ports, peers }.clients_max();
    let max_cnxns = config.max_cnxns.filter(|_| !planted::is("max-cnxns-off"));
    left.into_iter().chain(max_cnxns.map(NonZeroU32::get)).min()
}

/// Takes connections until the server ends.
pub(in crate::server) async fn accept(listener: TcpListener, server: Arc<Server>) {
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
            "refusing a connection: too many, see maxClientCnxns, maxCnxns and the limit of open \
             files"
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
    tokio::spawn(drive::run(connection, Arc::clone(server)));
}
