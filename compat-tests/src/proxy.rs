//! Stands between a client and a server, so that the client's own program can cut its connection.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Both addresses serve until the test program ends.
///
/// Whoever connects to `control` writes one line and is answered `done`:
/// - `cut` ends all connections that go through,
/// - `hold` does too, and ends those that come from now on,
/// - `release` lets them through again.
#[derive(Clone, Copy, Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    pub control: SocketAddr,
}

#[derive(Debug, Default)]
struct Connections {
    open: Vec<TcpStream>,
    held: bool,
}

impl Connections {
    fn end(&mut self) {
        for stream in self.open.drain(..) {
            // It may have ended by itself.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Proxy {
    /// # Panics
    /// If there is no port left.
    pub fn before(server: SocketAddr) -> Self {
        let connections = Arc::new(Mutex::new(Connections::default()));
        let shared = Arc::clone(&connections);
        let address = listen(move |client| forward(&client, server, &shared));
        let control = listen(move |orders| obey(orders, &connections));
        Self { address, control }
    }

    /// Gives an order as `control` takes it; returns when it is carried out.
    ///
    /// # Panics
    /// If it is none.
    pub fn order(self, order: &str) {
        let mut control = TcpStream::connect(self.control).expect("the proxy listens");
        writeln!(control, "{order}").expect("the order is sent");
        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer).expect("an answer");
        assert_eq!(answer, "done\n", "{order}");
    }
}

/// Accepts on a free port; what `each` cannot do ends that connection only.
fn listen(each: impl Fn(TcpStream) -> io::Result<()> + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = listener.local_addr().expect("a bound port has an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = each(stream);
        }
    });
    address
}

fn forward(
    client: &TcpStream,
    server: SocketAddr,
    connections: &Mutex<Connections>,
) -> io::Result<()> {
    let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
    if connections.held {
        return Ok(());
    }
    let server = TcpStream::connect(server)?;
    for (from, to) in [(client, &server), (&server, client)] {
        let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
        connections.open.push(from.try_clone()?);
        from.set_nodelay(true)?;
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}

fn obey(orders: TcpStream, connections: &Mutex<Connections>) -> io::Result<()> {
    let mut order = String::new();
    BufReader::new(&orders).read_line(&mut order)?;
    {
        let mut connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.held = match order.trim_end() {
            "cut" => connections.held,
            "hold" => true,
            "release" => false,
            other => panic!("no such order: {other}"),
        };
        if order.trim_end() != "release" {
            connections.end();
        }
    }
    (&orders).write_all(b"done\n")
}
