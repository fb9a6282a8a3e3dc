//! HTTP as little of it as the AdminServer needs: one request a connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// What a request is answered with.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    /// After the headers, put together if it came in chunks.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks for `path` by GET, with headers such as `Authorization: digest u:p`.
pub fn get(address: SocketAddr, path: &str, headers: &[&str]) -> io::Result<Answer> {
    send(address, "GET", path, headers, None)
}

/// Sends a request and reads its answer to the end of the connection.
pub fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[&str],
    body: Option<&[u8]>,
) -> io::Result<Answer> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for header in headers {
        head.push_str(&format!("{header}\r\n"));
    }
    if let Some(body) = body {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    // Whoever refuses early reads no more of it.
    let _ = stream.write_all(body.unwrap_or_default());
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    parse(&bytes)
        .ok_or_else(|| io::Error::other(format!("no HTTP: {}", String::from_utf8_lossy(&bytes))))
}

fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut answer = Answer { status, headers, body: bytes[end + 4..].to_vec() };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = unchunked(&answer.body)?;
    }
    Some(answer)
}

fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let len = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).ok()?, 16).ok()?;
        let chunk = bytes.get(end + 2..)?;
        if len == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(chunk.get(..len)?);
        bytes = chunk.get(len + 2..)?;
    }
}
