//! A client with one write in flight, always, through one server: its acknowledgements show when
//! writes stand still.
//!
//! When its connection ends it comes back to the same server with the same session, every two
//! milliseconds until it is let in. Stock clients wait for longer, by their own rules: what is
//! measured is the servers.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::connection::{Connection, Session};
use crate::request;

const BEFORE_NEXT_TRY: Duration = Duration::from_millis(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// A write that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) sent: Instant,
    pub(crate) at: Instant,
}

#[derive(Debug, Default)]
struct Shared {
    acknowledged: Mutex<Vec<Acknowledged>>,
    cuts: AtomicU32,
    stopped: AtomicBool,
}

/// A writer at work; it stops with its value.
#[derive(Debug)]
pub(crate) struct SteadyWriter {
    path: String,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl SteadyWriter {
    /// Writes 1, 2, 3 and so on to a znode, which it makes.
    pub(crate) fn start(server: SocketAddr, path: &str) -> io::Result<Self> {
        let mut connection = Connection::open(server, 0)?;
        let head = connection.call(&request::create(path, b"0", 0))?;
        if head.error != 0 {
            return Err(io::Error::other(format!("create {path}: {}", head.error)));
        }
        let shared = Arc::new(Shared::default());
        let thread = thread::spawn({
            let (path, shared) = (path.to_owned(), Arc::clone(&shared));
            move || write(server, &path, connection, &shared)
        });
        Ok(Self { path: path.to_owned(), shared, thread: Some(thread) })
    }

    /// What was acknowledged so far.
    pub(crate) fn acknowledged(&self) -> Vec<Acknowledged> {
        self.shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How often its connection ended.
    pub(crate) fn cuts(&self) -> u32 {
        self.shared.cuts.load(Ordering::Relaxed)
    }

    /// Ends it; returns its znode and how many writes were acknowledged.
    pub(crate) fn stop(mut self) -> (String, usize) {
        self.end();
        (std::mem::take(&mut self.path), self.acknowledged().len())
    }

    fn end(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for SteadyWriter {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until a write that was sent later than `instant` is acknowledged, by any of the writers.
pub(crate) fn wait_for_one_sent_after(
    writers: &[SteadyWriter],
    instant: Instant,
    patience: Duration,
) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    let is_later = |done: &Acknowledged| done.sent >= instant;
    while !writers.iter().any(|writer| writer.acknowledged().last().is_some_and(is_later)) {
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("no write is acknowledged for {patience:?}")));
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    Ok(())
}

fn write(server: SocketAddr, path: &str, connection: Connection, shared: &Shared) {
    let mut session: Option<Session> = Some(connection.session().clone());
    let mut connection = Some(connection);
    let mut value = 0_u64;
    while !shared.stopped.load(Ordering::Relaxed) {
        let Some(open) = &mut connection else {
            let attached = match &session {
                Some(session) => Connection::attach(server, 0, session),
                None => Connection::open(server, 0),
            };
            match attached {
                Ok(open) => {
                    session = Some(open.session().clone());
                    connection = Some(open);
                }
                Err(error) => {
                    // The session is over.
                    if error.kind() == io::ErrorKind::PermissionDenied {
                        session = None;
                    }
                    thread::sleep(BEFORE_NEXT_TRY);
                }
            }
            continue;
        };
        let sent = Instant::now();
        // The next number only once this one is there: the znode shows how many were acknowledged.
        match open.call(&request::set(path, (value + 1).to_string().as_bytes())) {
            Ok(head) if head.error == 0 => {
                value += 1;
                let done = Acknowledged { sent, at: Instant::now() };
                shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(done);
            }
            _ => {
                connection = None;
                shared.cuts.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
