//! Connections that have ended, and the thread that takes them out.
//!
//! To close a socket takes the kernel several times as long as a request takes. Thousands of
//! clients that go at once would keep the workers busy with that, and every other client would wait
//! after them.

use std::collections::VecDeque;
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use socket2::SockRef;

use super::connection::Connection;
use crate::server::shared::Server;

/// Watches of a connection that are taken away under one hold, fewer if their paths are long.
const FORGOTTEN_A_HOLD: usize = 256;
/// Places that the queue keeps while nothing waits.
const KEPT: usize = 64;

/// Connections that have ended and still have everything that an open one has. So there are never
/// more of them than there may be connections.
#[derive(Debug, Default)]
pub(in crate::server) struct Ended {
    waiting: Mutex<VecDeque<Arc<Connection>>>,
    arrived: Condvar,
}

impl Ended {
    /// Leaves a connection, whose task is over, to the thread.
    pub(in crate::server) fn put(&self, connection: Arc<Connection>) {
        self.waiting.lock().push_back(connection);
        self.arrived.notify_one();
    }

    /// Takes out the one that has waited longest; false if there is none.
    fn take_out_one(&self, server: &Server) -> bool {
        let Some(connection) = self.waiting.lock().pop_front() else { return false };
        take_out(server, &connection);
        true
    }

    /// Takes out those that wait. A defect costs one connection, and not each that ends from then
    /// on; it is logged where it panics.
    fn take_out_all(&self, server: &Server) {
        while catch_unwind(AssertUnwindSafe(|| self.take_out_one(server))).unwrap_or(true) {}
    }

    /// Takes them out until the process ends: the thread.
    pub(in crate::server) fn take_out_for_ever(&self, server: &Server) {
        loop {
            self.take_out_all(server);
            let mut waiting = self.waiting.lock();
            if waiting.is_empty() {
                // What many that went at once took is given back.
                waiting.shrink_to(KEPT);
                self.arrived.wait(&mut waiting);
            }
        }
    }
}

/// Gives back what a connection has. Its socket is closed with the last that refers to it, most
/// often by the caller.
fn take_out(server: &Server, connection: &Connection) {
    // In this order: the orderer leaves no watch for a connection that is not open, and whoever
    // hears of the end is not counted any more.
    server.connections.remove(connection.id());
    server.connections.leave(connection.peer().ip());
    // Whoever still sends reads an end first, as from ZooKeeper, and not only the reset. The client
    // may have ended the connection before.
    if !connection.is_half_told() {
        let _ = SockRef::from(connection.socket()).shutdown(Shutdown::Write);
    }
    // A few at a time: everybody waits for the hold meanwhile.
    while server.replica.shared().watches().lock().forget_some(connection.id(), FORGOTTEN_A_HOLD) {}
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::task::{Context, Wake};
    use std::time::{Duration, Instant};

    use tokio::io::{AsyncReadExt as _, ReadBuf};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::server::intake::drive;
    use crate::server::without_orderer;

    const COUNT: usize = 50;
    const MAX: Option<u32> = Some(50);

    /// A connection with a watch that has its place among the others, and its client.
    async fn connection(server: &Server, listener: &TcpListener) -> (Arc<Connection>, TcpStream) {
        let address = listener.local_addr().expect("it is known");
        let client = TcpStream::connect(address).await.expect("a connection");
        let (socket, peer) = listener.accept().await.expect("a connection");
        assert!(server.connections.admit(peer.ip(), MAX, None));
        let (id, unread) = (server.connections.next_id(), server.connections.unread());
        let unread = Arc::clone(unread);
        let connection = Arc::new(Connection::new(id, peer, socket, server.clock, unread));
        server.connections.add(&connection);
        server.replica.shared().watches().lock().watch_data("/x", id).expect("there is room");
        (connection, client)
    }

    /// Who waits for something and panics when there is nothing to wait for any more.
    struct Defect;

    impl Wake for Defect {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Defect {
        fn drop(&mut self) {
            panic!("a defect");
        }
    }

    #[tokio::test]
    async fn a_panic_over_one_leaves_no_other_behind() {
        let (_dir, server) = without_orderer("");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let (first, mut its_client) = connection(&server, &listener).await;
        let (other, mut others_client) = connection(&server, &listener).await;
        let waker = Arc::new(Defect).into();
        let (mut waits, mut byte) = (Context::from_waker(&waker), [0]);
        let read = first.socket().poll_peek(&mut waits, &mut ReadBuf::new(&mut byte));
        assert!(read.is_pending());
        drop(waker);
        server.ended.put(first);
        server.ended.put(other);
        server.ended.take_out_all(&server);
        assert_eq!(server.connections.count(), 0);
        assert_eq!(server.replica.shared().watches().lock().count(), 0);
        for client in [&mut its_client, &mut others_client] {
            assert_eq!(client.read(&mut byte).await.expect("an end"), 0);
        }
    }

    /// Nobody sees less of them than of open ones before they are taken out, and nothing after
    /// that.
    #[tokio::test]
    async fn those_that_ended_are_there_until_they_are_taken_out() {
        let (_dir, server) = without_orderer("");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
        let mut clients = Vec::new();
        for _ in 0..COUNT {
            let (connection, client) = connection(&server, &listener).await;
            tokio::spawn(drive::run(connection, Arc::clone(&server)));
            clients.push(client);
        }
        for client in &clients {
            SockRef::from(client).shutdown(Shutdown::Write).expect("it is open");
        }
        let began = Instant::now();
        while server.ended.waiting.lock().len() < COUNT {
            assert!(began.elapsed() < Duration::from_secs(20), "they end");
            tokio::task::yield_now().await;
        }
        let ip = Ipv4Addr::LOCALHOST.into();
        assert!(!server.connections.admit(ip, MAX, None), "each has its place");
        assert_eq!(server.connections.count(), COUNT);
        assert_eq!(server.replica.shared().watches().lock().count(), COUNT);
        let mut byte = [0];
        for client in &clients {
            let read = client.try_read(&mut byte).map_err(|error| error.kind());
            assert_eq!(read, Err(std::io::ErrorKind::WouldBlock), "it is not closed");
        }
        for left in (0..COUNT).rev() {
            assert!(server.ended.take_out_one(&server));
            assert_eq!(server.connections.count(), left);
            assert_eq!(server.replica.shared().watches().lock().count(), left);
        }
        assert!(!server.ended.take_out_one(&server));
        assert!(server.connections.admit(ip, Some(1), None), "no place is taken");
        for client in &mut clients {
            assert_eq!(client.read(&mut byte).await.expect("an end"), 0);
        }
    }
}
