//! Servers that are none, or mean ill: each ends in an error that says why, and takes no memory on
//! their word.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bytes::BytesMut;
use jute::protocol::{ConnectResponse, ReplyHeader, put_frame};
use jute::{ErrorCode, Record as _};
use socket2::{Domain, Socket, Type};

use super::client::Client;
use super::connection::Target;
use super::error::CliError;
use super::events::Events;
use super::servers::Servers;

/// A client of a server that sends `answers`, each after a frame of the client, and then waits for
/// the client to go.
fn client_of(answers: Vec<Vec<u8>>) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            play(socket, &answers);
        }
    });
    let servers = Servers::parse(&format!("127.0.0.1:{port}")).expect("an address");
    let target = Target { servers, timeout: Duration::from_secs(10), read_only: false };
    Client::connect(target, &Arc::new(Events::new(false))).expect("threads")
}

fn play(mut socket: TcpStream, answers: &[Vec<u8>]) {
    for answer in answers {
        let mut len = [0; 4];
        if socket.read_exact(&mut len).is_err() {
            return;
        }
        let mut frame = vec![0; u32::from_be_bytes(len) as usize];
        if socket.read_exact(&mut frame).is_err() || socket.write_all(answer).is_err() {
            return;
        }
    }
    let _ = socket.read(&mut [0]);
}

fn session() -> Vec<u8> {
    let response = ConnectResponse {
        timeout_ms: 10_000,
        session_id: 1,
        password: [1; 16],
        read_only: Some(false),
    };
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| response.encode(out));
    out.to_vec()
}

fn reply(xid: i32, body: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| {
        ReplyHeader { xid, zxid: 1, err: 0 }.encode(out);
        out.extend_from_slice(body);
    });
    out.to_vec()
}

/// How a read ends, with the reasons that the client gives for it.
fn ends(answers: Vec<Vec<u8>>) -> (CliError, String) {
    let client = client_of(answers);
    let error = client.data("/", false).expect_err("no answer is good");
    (error, client.connection.failures().join("\n"))
}

fn expect_lost(answers: Vec<Vec<u8>>, why: &str) {
    let (error, failures) = ends(answers);
    assert!(error.is(ErrorCode::ConnectionLoss), "{error}");
    assert!(failures.contains(why), "{failures}");
}

#[test]
fn a_frame_that_claims_two_gigabytes_is_not_waited_for() {
    let huge = i32::MAX.to_be_bytes().to_vec();
    expect_lost(vec![huge.clone()], "a frame of 2147483647 bytes");
    expect_lost(vec![session(), huge], "a frame of 2147483647 bytes");
    let negative = (-1i32).to_be_bytes().to_vec();
    expect_lost(vec![session(), negative], "a frame of -1 bytes");
}

#[test]
fn garbage_is_an_error_that_says_so() {
    expect_lost(vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()], "it is not a ZooKeeper server");
    expect_lost(vec![vec![0, 0, 0, 2, 1, 1]], "that no ZooKeeper server sends");
    expect_lost(vec![session(), vec![0, 0, 0, 3, 1, 2, 3]], "that no ZooKeeper server sends");
    expect_lost(vec![session(), reply(7, b"")], "answered request 7 instead of Some(1)");
    // An event whose path ends nowhere.
    let event = [0, 0, 0, 1, 0, 0, 0, 3, 0x7f, 0xff, 0xff, 0xff];
    expect_lost(vec![session(), reply(-1, &event)], "that no ZooKeeper server sends");
}

#[test]
fn an_answer_that_is_no_record_is_an_error_of_the_command() {
    // Data that claims two gigabytes, and a list of as many children.
    for body in [&[0x7f, 0xff, 0xff, 0xff, 1, 2][..], &[], &[0xff, 0xff, 0xff, 0xff]] {
        let (error, _) = ends(vec![session(), reply(1, body)]);
        assert!(matches!(error, CliError::Answer(_)), "{error}");
    }
    let client = client_of(vec![session(), reply(1, &[0x7f, 0xff, 0xff, 0xff])]);
    let error = client.children("/", false).expect_err("no list");
    assert!(matches!(error, CliError::Answer(_)), "{error}");
}

#[test]
fn a_session_that_is_refused_has_expired() {
    let mut refused = BytesMut::new();
    put_frame(&mut refused, |out| ConnectResponse::refused(true).encode(out));
    let (error, failures) = ends(vec![refused.to_vec()]);
    assert!(error.is(ErrorCode::SessionExpired), "{error}");
    assert!(failures.contains("the session has expired"), "{failures}");
}

#[test]
fn where_no_server_is_the_address_is_named() {
    // Bound, so that nobody else gets the port, and no listener.
    let bound = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a free port");
    let free = bound.local_addr().ok().and_then(|at| at.as_socket()).expect("an address");
    let servers = Servers::parse(&format!("{free}")).expect("an address");
    let target = Target { servers, timeout: Duration::from_secs(10), read_only: false };
    let client = Client::connect(target, &Arc::new(Events::new(false))).expect("threads");
    let error = client.data("/a", false).expect_err("no server");
    assert_eq!(error.to_string(), "KeeperErrorCode = ConnectionLoss for /a");
    let failures = client.connection.failures().join("\n");
    assert!(failures.starts_with(&format!("{free}: ")), "{failures}");
    assert!(failures.contains("refused"), "{failures}");
}
