//! Sessions: handshake, takeover, closing, expiry.

use std::io::Write as _;
use std::net::{Ipv6Addr, TcpListener};
use std::time::{Duration, Instant};

use jute::protocol::{AuthPacket, CreateRequest, PathRequest, Request};
use jute::{Acl, CreateMode, perms};

use crate::client::{
    Client, connect_frame, connect_response, create, ends, exists, get, open, request_frame, until,
};
use crate::process::Server;
use crate::skipped::skipped;

const TIMEOUT_MS: i32 = 4000;

#[test]
fn requests_behind_the_connect_request_are_answered_in_their_order() {
    let server = Server::start("");
    for split in [1, 3, 44, 49, 50, 60, 200] {
        let mut stream = open(server.address());
        let path = format!("/split{split}");
        let mut out = connect_frame(TIMEOUT_MS, 0, &[0; 16]);
        request_frame(&mut out, 1, &create(&path, b"x".to_vec(), CreateMode::Persistent));
        request_frame(&mut out, 2, &get(&path));
        request_frame(&mut out, 3, &Request::Ping);
        request_frame(&mut out, 4, &get("/none"));
        let (first, second) = out.split_at(split.min(out.len()));
        stream.write_all(first).expect("sent");
        std::thread::sleep(Duration::from_millis(5));
        stream.write_all(second).expect("sent");
        let session = connect_response(&mut stream);
        assert!(session.timeout_ms > 0);
        let mut client = Client::over(stream, session, 4);
        let replies = client.receive_all(4);
        let found: Vec<i32> = replies.iter().map(|reply| reply.header.err).collect();
        assert_eq!(found, [0, 0, 0, -101], "split at {split}");
    }
}

#[test]
fn a_session_moves_to_its_new_connection() {
    let server = Server::start("");
    let mut old = server.connect(TIMEOUT_MS);
    old.ok(&create("/mine", vec![], CreateMode::Ephemeral));
    old.ok(&exists("/mine", true));
    assert_eq!(server.figure("watch_count"), 1);
    let mut new = old.again(server.address());
    assert_eq!(new.session, old.session);
    ends(&mut old.stream);
    assert!(new.exists("/mine"));
    until("the watch goes with its connection", || server.figure("watch_count") == 0);
    new.ok(&Request::CloseSession);
    ends(&mut new.stream);
    assert!(!server.connect(TIMEOUT_MS).exists("/mine"));
}

#[test]
fn a_wrong_password_leaves_the_owner_alone() {
    let server = Server::start("");
    let mut owner = server.connect(TIMEOUT_MS);
    for password in [&[7; 16][..], &[0; 16], &[], &owner.session.password[..15]] {
        let id = owner.session.session_id;
        let mut thief = Client::attach(server.address(), TIMEOUT_MS, id, password);
        assert_eq!((thief.session.timeout_ms, thief.session.session_id), (0, 0));
        ends(&mut thief.stream);
    }
    owner.ok(&create("/still", vec![], CreateMode::Ephemeral));
    until("only the owner and the asker are left", || server.figure("num_alive_connections") == 2);
}

#[test]
fn nothing_of_the_old_connection_follows_behind_a_takeover() {
    let server = Server::start("");
    let address = server.address();
    let mut reader = server.connect(TIMEOUT_MS);
    for round in 0..10 {
        let mut old = server.connect(TIMEOUT_MS);
        let parent = format!("/round{round}");
        old.ok(&create(&parent, vec![], CreateMode::Persistent));
        let children: Vec<Request<'_>> = (0..200)
            .map(|n| create(&format!("{parent}/{n:03}"), vec![0; 100], CreateMode::Persistent))
            .collect();
        old.send(&children);
        let mut new = old.again(address);
        assert!(new.session.timeout_ms > 0);
        let mut count = || {
            let sync = Request::GetAllChildrenNumber(PathRequest { path: parent.clone().into() });
            let reply = new.ok(&sync);
            i32::from_be_bytes(reply.body[..4].try_into().expect("a count"))
        };
        let there = count();
        let mut acknowledged = 0;
        while let Some(reply) = old.receive() {
            assert_eq!(reply.header.err, 0);
            acknowledged += 1;
        }
        assert_eq!(count(), there, "a write of the old connection came through");
        assert!(acknowledged <= there, "{acknowledged} acknowledged, {there} there");
        for n in 0..there {
            assert!(reader.exists(&format!("{parent}/{n:03}")), "{n} of {there} is missing");
        }
    }
}

#[test]
fn a_closed_session_takes_nothing_more() {
    let server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/gone", vec![], CreateMode::Ephemeral));
    client.send(&[
        create("/before", vec![], CreateMode::Persistent),
        Request::CloseSession,
        create("/behind", vec![], CreateMode::Persistent),
        Request::Ping,
    ]);
    for xid in [2, 3] {
        let reply = client.receive().expect("an answer");
        assert_eq!((reply.header.xid, reply.header.err), (xid, 0));
    }
    ends(&mut client.stream);
    let again = client.again(server.address());
    assert_eq!(again.session.timeout_ms, 0, "a closed session came back");
    let mut other = server.connect(TIMEOUT_MS);
    assert!(other.exists("/before"));
    assert!(!other.exists("/behind"));
    assert!(!other.exists("/gone"));
}

/// The task and the orderer send on the same socket; who comes second must not sleep on the last
/// word.
#[test]
fn a_connection_ends_right_behind_the_answer_to_close_session() {
    let server = Server::start("");
    for _ in 0..300 {
        let mut client = server.connect(TIMEOUT_MS);
        client.ok(&Request::CloseSession);
        let took = ends(&mut client.stream);
        assert!(took < Duration::from_secs(4), "{took:?}");
    }
}

#[test]
fn a_silent_session_expires_between_its_timeout_and_a_tick_later() {
    let server = Server::start("tickTime=500");
    let mut watcher = server.connect(10_000);
    let mut silent = server.connect(1000);
    assert_eq!(silent.session.timeout_ms, 1000);
    silent.ok(&create("/silent", vec![], CreateMode::Ephemeral));
    watcher.ok(&exists("/silent", true));
    // A sign of life that is no write counts.
    std::thread::sleep(Duration::from_millis(600));
    let heard = Instant::now();
    silent.ok(&Request::Ping);
    let heard_at_last = Instant::now();
    let event = watcher.receive().expect("an event");
    let (least, most) = (heard.elapsed(), heard_at_last.elapsed());
    assert_eq!(event.header.xid, -1);
    assert!(least >= Duration::from_millis(1000), "{least:?}");
    // Two seconds for a busy machine.
    assert!(most < Duration::from_millis(1500 + 2000), "{most:?}");
    ends(&mut silent.stream);
    assert_eq!(silent.again(server.address()).session.timeout_ms, 0, "an expired session");
}

#[test]
fn a_session_outlives_its_connection() {
    let server = Server::start("");
    let mut first = server.connect(TIMEOUT_MS);
    first.ok(&create("/kept", vec![], CreateMode::Ephemeral));
    first.ok(&exists("/kept", true));
    first.stream.shutdown(std::net::Shutdown::Both).expect("closed");
    until("the connection is forgotten", || server.figure("watch_count") == 0);
    let mut second = first.again(server.address());
    assert!(second.exists("/kept"));
}

#[test]
fn a_client_that_means_another_ensemble_is_sent_away_without_a_word() {
    // As 3.9.5 answers: a name with a blank is another one, none at all is right, and none becomes
    // an identity.
    let class = "org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider";
    let process = Server::start(&format!("authProvider.1={class}\nensembleAuthName=one, two\n"));
    let said = |name: Option<&'static [u8]>| {
        let mut client = process.connect(10_000);
        let (scheme, auth) = (Some("ensemble".into()), name.map(Into::into));
        let xid = client.send(&[Request::Auth(AuthPacket { auth_type: 0, scheme, auth })]);
        let reply = client.receive()?;
        assert_eq!((reply.header.xid, reply.header.err), (xid, 0));
        let who = client.ok(&Request::WhoAmI).body;
        assert!(!who.windows(8).any(|part| part == b"ensemble"), "{who:?}");
        Some(())
    };
    for name in [Some(b"one".as_slice()), Some(b"two"), Some(b""), None] {
        assert_eq!(said(name), Some(()), "{name:?}");
    }
    for name in [b" two".as_slice(), b"three"] {
        assert_eq!(said(Some(name)), None, "{name:?}");
    }
    for (name, expected) in [("success", 2), ("skip", 2), ("fail", 2)] {
        assert_eq!(process.figure(&format!("ensemble_auth_{name}")), expected, "{name}");
    }
}

#[test]
fn an_acl_by_address_tells_ipv6_from_ipv4() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return skipped("this machine has no ::1");
    }
    // Without clientPortAddress it listens on both.
    let server = Server::start("");
    let mut over_v4 = server.connect(TIMEOUT_MS);
    let there = (Ipv6Addr::LOCALHOST, server.address().port()).into();
    let mut over_v6 = Client::connect(there, TIMEOUT_MS);
    for (path, id, expected) in
        [("/six", "::1/128", [0, -102]), ("/four", "127.0.0.1/32", [-102, 0])]
    {
        let (scheme, id) = (Some("ip".into()), Some(id.into()));
        over_v4.ok(&Request::Create(CreateRequest {
            path: path.into(),
            data: None,
            acl: Some(vec![Acl { perms: perms::READ, scheme, id }]),
            flags: CreateMode::Persistent.flags(),
        }));
        let read = [&mut over_v6, &mut over_v4].map(|client| client.call(&get(path)).header.err);
        assert_eq!(read, expected, "{path}, over IPv6 and over IPv4");
    }
}

/// Of the server's end of a connection, as the kernel has it.
fn has_keep_alive(server: &Server, client: &Client) -> bool {
    let ports = [server.address(), client.stream.local_addr().expect("an address")];
    let [own, other] = ports.map(|address| format!(":{:04X}", address.port()));
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let text: String = tables.into_iter().map_while(Result::ok).collect();
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows = rows.filter(|row| row[1].ends_with(&own) && row[2].ends_with(&other));
    // 2 is a timer that is no retransmission.
    rows.next().expect("a connection")[5].starts_with("02:")
}

#[test]
fn keep_alive_is_on_where_it_is_asked_for() {
    for (config, is_on) in [("", false), ("clientTcpKeepAlive=true", true)] {
        let server = Server::start(config);
        let client = server.connect(TIMEOUT_MS);
        until("the timer is as asked for", || has_keep_alive(&server, &client) == is_on);
    }
}
