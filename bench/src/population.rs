//! What is in the tree before a load begins.

use std::io;
use std::net::SocketAddr;

use crate::connection::Connection;
use crate::request::{self, LIST, LISTED, ROOT};

/// Requests in flight while znodes are made.
const BATCH: u32 = 500;

/// The parents and `keys` znodes below them, each with `value_len` bytes.
pub(crate) fn create(server: SocketAddr, keys: u32, value_len: usize) -> io::Result<()> {
    let mut connection = Connection::open(server, 0)?;
    let value = vec![b'v'; value_len];
    let mut frames = request::frame(1, &request::create(ROOT, &[], 0));
    frames.extend(request::frame(2, &request::create(LIST, &[], 0)));
    connection.call_all(&frames, 2)?;
    children(&mut connection, LISTED, |number| format!("{LIST}/child-{number:05}"), &[])?;
    children(&mut connection, keys, request::key_path, &value)
}

/// Creates `count` znodes, pipelined.
pub(crate) fn children(
    connection: &mut Connection,
    count: u32,
    path: impl Fn(u32) -> String,
    value: &[u8],
) -> io::Result<()> {
    // A batch of large values must not outgrow what a server takes in at once.
    let batch = (4_000_000 / (value.len() as u32 + 100)).clamp(1, BATCH);
    for first in (0..count).step_by(batch as usize) {
        let numbers = first..count.min(first + batch);
        let mut frames = Vec::new();
        for number in numbers.clone() {
            frames.extend(request::frame(1, &request::create(&path(number), value, 0)));
        }
        connection.call_all(&frames, numbers.len())?;
    }
    Ok(())
}
