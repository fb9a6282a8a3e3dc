//! Very many watches of one session.

use std::io;
use std::net::SocketAddr;

use jute::protocol::Request;

use crate::connection::Connection;
use crate::request::{self, ROOT, key_path};

/// Requests in flight while watches are left.
const BATCH: u32 = 1_000;
/// The answer of exists where there is nothing; the watch is left all the same.
const NO_NODE: i32 = -101;

/// A watch on the data of each key. They go with the connection.
pub(crate) fn on_keys(server: SocketAddr, keys: u32) -> io::Result<Connection> {
    leave(server, keys, 0, key_path, |path| request::get(path, true))
}

/// As many watches on znodes that nobody makes.
pub(crate) fn on_absent(server: SocketAddr, count: u32) -> io::Result<Connection> {
    let path = |number| format!("{ROOT}/absent-{number:09}");
    leave(server, count, NO_NODE, path, |path| request::exists(path, true))
}

fn leave(
    server: SocketAddr,
    count: u32,
    answer: i32,
    path: impl Fn(u32) -> String,
    ask: impl for<'a> Fn(&'a str) -> Request<'a>,
) -> io::Result<Connection> {
    let mut connection = Connection::open(server, 0)?;
    for first in (0..count).step_by(BATCH as usize) {
        let numbers = first..count.min(first + BATCH);
        let mut frames = Vec::new();
        for number in numbers.clone() {
            frames.extend(request::frame(1, &ask(&path(number))));
        }
        connection.call_each(&frames, numbers.len(), answer)?;
    }
    Ok(connection)
}
