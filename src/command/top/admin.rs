//! An AdminServer as `top` asks it: a GET a connection, and no more of the answer than a bound.

use std::io;
use std::net::Ipv6Addr;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::Version;

/// For the connection and for the head of the answer.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(5));
/// For the rest of the answer, which may be long.
const PATIENCE_FOR_BODY: Option<Duration> = Some(Duration::from_secs(30));
/// That of some 30,000 connections.
const LONGEST_ANSWER: u64 = 16 << 20;

/// What a command answers, as JSON.
pub(super) fn ask(server: &str, command: &str) -> io::Result<Value> {
    let agent = Agent::config_builder()
        .timeout_connect(PATIENCE)
        .timeout_recv_response(PATIENCE)
        .timeout_recv_body(PATIENCE_FOR_BODY)
        .user_agent("")
        .accept("")
        .proxy(None)
        .max_redirects(0)
        .http_status_as_error(false)
        .build()
        .new_agent();
    let url = format!("http://{}/commands/{command}", authority(server)?);
    // By HTTP/1.0 the answer comes in one piece and ends with the connection.
    let asked = agent.get(url).version(Version::HTTP_10);
    let mut answer = asked.call().map_err(ureq::Error::into_io)?;
    if answer.status() != 200 {
        let status = format!("{:?} {}", answer.version(), answer.status());
        return Err(io::Error::other(format!("/commands/{command} answered with {status:?}")));
    }
    let body = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec();
    Ok(serde_json::from_slice(&body.map_err(ureq::Error::into_io)?)?)
}

/// `HOST:PORT` as a URL has it: an IPv6 address in brackets. The port is not left out: it would be
/// 80 there.
fn authority(server: &str) -> io::Result<String> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    let parts = server.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let Some((host, port)) = parts.and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)))
    else {
        return Err(wrong("not of the form HOST:PORT"));
    };
    if host.contains('%') {
        return Err(wrong("an IPv6 address with a zone is not supported"));
    }
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Ok(format!("[{address}]:{port}"));
    }
    match host.contains([':', '[', ']', '/', '?', '#', '@']) {
        true => Err(wrong("not of the form HOST:PORT")),
        false => Ok(format!("{host}:{port}")),
    }
}

#[cfg(test)]
#[path = "admin_test.rs"]
mod admin_test;
