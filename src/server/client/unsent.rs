//! Connections with something to send, and the thread that sends for the orderer while that has
//! better to do.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::connection::Connection;

/// Connections whose outboxes wait. Each is here once at most: it is marked as touched until it is
/// sent for.
#[derive(Debug, Default)]
pub(in crate::server) struct Unsent {
    waiting: Mutex<VecDeque<Arc<Connection>>>,
    arrived: Condvar,
}

impl Unsent {
    /// Leaves connections to the thread, and to whoever helps it.
    pub(in crate::server) fn put(&self, connections: &mut Vec<Arc<Connection>>) {
        self.waiting.lock().extend(connections.drain(..));
        self.arrived.notify_one();
    }

    /// Sends until nothing waits.
    pub(in crate::server) fn send(&self) {
        loop {
            let Some(connection) = self.waiting.lock().pop_front() else { return };
            connection.send_now();
        }
    }

    /// Sends until the process ends: the thread.
    pub(in crate::server) fn send_for_ever(&self) {
        loop {
            self.send();
            let mut waiting = self.waiting.lock();
            if waiting.is_empty() {
                self.arrived.wait(&mut waiting);
            }
        }
    }
}
