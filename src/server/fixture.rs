//! For tests: a client's connection with a server that nobody runs.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use super::client::connection::Connection;
use super::client::password::PASSWORD_LEN;
use crate::engine::decide::tracker::Attached;
use crate::engine::session::SessionId;
use crate::server::shared::Server;

/// A client and its connection.
pub(super) async fn connected(server: &Server) -> (TcpStream, Connection) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = listener.local_addr().expect("it is known");
    let socket = TcpStream::connect(address).await.expect("a connection");
    let (client, peer) = listener.accept().await.expect("a connection");
    let (id, unread) = (server.connections.next_id(), server.connections.unread());
    let connection = Connection::new(id, peer, socket, server.clock, Arc::clone(unread));
    (client, connection)
}

/// The connection has session 1.
pub(super) fn attach(connection: &Connection) {
    connection.submitted();
    let session = Attached {
        session: SessionId(1),
        timeout_ms: 10_000,
        heard: Arc::default(),
        previous: None,
        reads_only: false,
    };
    connection.attached(&session, [0; PASSWORD_LEN]);
}
