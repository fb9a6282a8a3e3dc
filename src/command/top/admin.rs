//! An AdminServer as `top` asks it: a GET a connection, and no more of the answer than a bound.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

/// For the connection, and for each piece of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// That of some 30,000 connections.
const LONGEST_ANSWER: u64 = 16 << 20;

/// What a command answers, as JSON.
pub(super) fn ask(server: &str, command: &str) -> io::Result<Value> {
    let mut stream = connect(server)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // By HTTP/1.0 the answer comes in one piece and ends with the connection.
    let request = format!("GET /commands/{command} HTTP/1.0\r\nHost: {server}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = end.map_or((&*answer, &[][..]), |end| answer.split_at(end));
    if !head.starts_with(b"HTTP/1.") || head.get(8..13) != Some(b" 200 ") {
        let status =
            String::from_utf8_lossy(head.split(|&byte| byte == b'\r').next().unwrap_or_default());
        let status: String = status.chars().filter(|c| !c.is_control()).take(80).collect();
        return Err(io::Error::other(format!("/commands/{command} answered with {status:?}")));
    }
    Ok(serde_json::from_slice(body)?)
}

fn connect(server: &str) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}
