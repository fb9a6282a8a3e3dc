//! Those who ask too much, and what became of them.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use jute::protocol::{Request, WatchRequest};

use super::{CONNECTIONS, Kind, Target};
use crate::connection::Connection;
use crate::request::{self, ROOT};

/// Who opens connections.
const OPENERS: u32 = 16;
/// Some need a million watches, or thousands of connections, before they do anything.
const BEGIN_DEADLINE: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A storm that goes on until it is told to stop.
pub(super) struct Storm {
    pub(super) target: Target,
    is_over: AtomicBool,
    /// What it has done: connections opened, listings read, shapes sent, requests offered, and
    /// looks at a client that is held.
    done: AtomicU64,
    /// Of the next connection of those that come and go.
    next: AtomicU32,
    /// How many of those who open connections have all that they want open.
    filled: AtomicU32,
    /// Why one of its clients could not go on: then it is no storm that was measured.
    fallen: Mutex<Option<io::Error>>,
    /// Why a client that may be cut or turned away was, the last time.
    cut: Mutex<Option<io::Error>>,
}

fn put(place: &Mutex<Option<io::Error>>, error: io::Error) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
}

fn taken(place: &Mutex<Option<io::Error>>) -> Option<io::Error> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Storm {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            is_over: AtomicBool::new(false),
            done: AtomicU64::new(0),
            next: AtomicU32::new(CONNECTIONS),
            filled: AtomicU32::new(0),
            fallen: Mutex::new(None),
            cut: Mutex::new(None),
        }
    }

    /// Lets its clients begin, and waits until they do something.
    pub(super) fn begin<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, kind: Kind) {
        match kind {
            Kind::Connections { most } => {
                for _ in 0..OPENERS {
                    scope.spawn(move || self.come_and_go(most / OPENERS));
                }
                let deadline = Instant::now() + BEGIN_DEADLINE;
                while self.filled.load(Ordering::Relaxed) < OPENERS && Instant::now() < deadline {
                    thread::sleep(BETWEEN_LOOKS);
                }
            }
            Kind::Unread => {
                scope.spawn(move || self.must(self.again(true, || self.never_read())));
            }
            Kind::Shape(shape) => {
                for client in 0..shape.clients {
                    let act = move || (shape.act)(self, client);
                    scope.spawn(move || self.must(self.again(shape.may_be_cut, act)));
                }
            }
            Kind::Listings { listers } => {
                for number in 0..listers {
                    scope.spawn(move || self.must(self.again(true, || self.list(number))));
                }
            }
        }
        let deadline = Instant::now() + BEGIN_DEADLINE;
        while self.done() == 0 && self.goes_on() && Instant::now() < deadline {
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// What it has done so far.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(super) fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// What it did while the victim was measured, unless there was no storm.
    pub(super) fn outcome(&self, done: u64) -> io::Result<u64> {
        if let Some(error) = taken(&self.fallen) {
            return Err(error);
        }
        if done > 0 {
            return Ok(done);
        }
        let cut = taken(&self.cut).map(|error| format!("; it was last cut off by: {error}"));
        let cut = cut.unwrap_or_default();
        Err(io::Error::other(format!("it did nothing while the victim was measured{cut}")))
    }

    /// Keeps `share` connections open: for each new one the oldest goes, without a closeSession.
    /// Whom the server turns away tries again.
    fn come_and_go(&self, share: u32) {
        let mut open = VecDeque::new();
        let mut is_full = false;
        while self.goes_on() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let turned_away = match Connection::open(self.target.server, number) {
                Ok(connection) => {
                    open.push_back(connection);
                    self.count();
                    false
                }
                Err(error) => {
                    put(&self.cut, error);
                    true
                }
            };
            if turned_away || open.len() > share as usize {
                open.pop_front();
                if !std::mem::replace(&mut is_full, true) {
                    self.filled.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }

    /// Ends the storm if a client of it could not do what it is there for.
    fn must(&self, done: io::Result<()>) {
        if let Err(error) = done
            && self.goes_on()
        {
            self.end();
            put(&self.fallen, error);
        }
    }

    /// Asks without end, and reads nothing.
    fn never_read(&self) -> io::Result<()> {
        let mut connection = Connection::open(self.target.server, 0)?;
        connection.unblock()?;
        let frame = request::frame(1, &request::get(ROOT, false));
        while self.goes_on() {
            if self.offer(&mut connection, &frame)? {
                thread::sleep(BETWEEN_LOOKS);
            }
        }
        Ok(())
    }

    /// Offers the next request, or the rest of the one before; whether the client is held: the
    /// server takes nothing more of one who reads nothing. It may, and keeps what it has for this
    /// client all the same, so a client that is held counts too.
    fn offer(&self, connection: &mut Connection, frame: &[u8]) -> io::Result<bool> {
        if connection.out().is_empty() {
            connection.out().extend_from_slice(frame);
        }
        let is_held = !connection.flush()?;
        if is_held && connection.is_over()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.count();
        Ok(is_held)
    }

    /// Does it again where the server may end the connection, and has.
    fn again(&self, may_be_cut: bool, act: impl Fn() -> io::Result<()>) -> io::Result<()> {
        while self.goes_on() {
            match act() {
                Err(error) if !(may_be_cut && is_cut(&error)) => return Err(error),
                Err(error) => {
                    put(&self.cut, error);
                    thread::sleep(BETWEEN_LOOKS);
                }
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn list(&self, number: u32) -> io::Result<()> {
        let mut connection = Connection::open(self.target.server, number)?;
        let list = Request::GetChildren(WatchRequest { path: ROOT.into(), watch: false });
        while self.goes_on() {
            connection.pass_over(&list)?;
            self.count();
        }
        Ok(())
    }
}

/// Whether it says that the server has ended a connection, or itself.
fn is_cut(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionRefused | BrokenPipe)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    use socket2::{Domain, Socket, Type};

    use super::*;

    const LOCAL: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

    fn at(server: SocketAddr) -> Storm {
        Storm::new(Target { server, metrics: server })
    }

    /// Lets one client in, and reads nothing more of it.
    fn let_in(listener: &TcpListener) -> TcpStream {
        let (mut stream, _) = listener.accept().expect("a client");
        let mut length = [0; 4];
        stream.read_exact(&mut length).expect("a length");
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut request).expect("a connect request");
        // Protocol version, timeout, session id, and a password of 16 bytes.
        let mut answer = [0; 4 + 4 + 4 + 8 + 4 + 16];
        answer[3] = 36;
        answer[10..12].copy_from_slice(&30_000_u16.to_be_bytes());
        answer[23] = 16;
        stream.write_all(&answer).expect("answered");
        stream
    }

    #[test]
    fn a_client_that_is_held_is_a_storm_until_the_server_ends_it() {
        let listener = TcpListener::bind(LOCAL).expect("a port");
        let storm = at(listener.local_addr().expect("an address"));
        thread::scope(|scope| {
            let server = scope.spawn(|| let_in(&listener));
            let mut connection = Connection::open(storm.target.server, 0).expect("a session");
            let stream = server.join().expect("let in");
            connection.unblock().expect("it does not block");
            let frame = request::frame(1, &request::get(ROOT, false));
            while !storm.offer(&mut connection, &frame).expect("offered") {}
            let before = storm.done();
            assert!(storm.offer(&mut connection, &frame).expect("offered"));
            assert_eq!(storm.outcome(storm.done() - before).expect("a storm"), 1);
            drop(stream);
            let error = storm.offer(&mut connection, &frame).expect_err("it is cut");
            assert!(is_cut(&error), "{error}");
        });
    }

    #[test]
    fn a_storm_that_meets_nobody_is_none() {
        // Bound, so that nobody else is there, and nobody listens.
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(LOCAL).into()).expect("bound");
        let nobody = socket.local_addr().expect("an address").as_socket().expect("of TCP");
        let storm = at(nobody);
        let act = || {
            let met = storm.never_read();
            storm.end();
            met
        };
        storm.must(storm.again(true, act));
        assert_eq!(storm.done(), 0);
        let error = storm.outcome(storm.done()).expect_err("no storm").to_string();
        assert!(error.starts_with("it did nothing while the victim was measured; "), "{error}");
        assert!(error.contains("refused"), "{error}");
    }
}
