//! Clients that send too much, too little or too slowly, or that do not read: nobody else notices.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jute::protocol::{AuthPacket, CreateRequest, MultiOp, ReadOp, Request};
use jute::{Acl, CreateMode};

use crate::client::{
    Client, DEADLINE, Reply, connect_frame, create, ends, exists, get, open, request_frame, set,
    until, watch_for_ever,
};
use crate::process::{Server, free_port};

const TIMEOUT_MS: i32 = 4000;
const MEGABYTE: u64 = 1 << 20;
/// The largest data that fits a frame with room for the rest of the request.
const LARGE: usize = 1_000_000;

#[test]
fn half_frames_take_no_more_memory_than_was_sent() {
    let server = Server::start("");
    let before = server.peak_memory();
    let mut streams = Vec::new();
    // A length, and nothing after it.
    for _ in 0..300 {
        let mut stream = open(server.address());
        stream.write_all(&1_048_575_i32.to_be_bytes()).expect("sent");
        streams.push(stream);
    }
    // All but the end of a megabyte, in the handshake and after it.
    let most = vec![0; 1_048_574];
    for session in [false, true] {
        for _ in 0..20 {
            let mut stream =
                if session { server.connect(TIMEOUT_MS).stream } else { open(server.address()) };
            stream.write_all(&1_048_575_i32.to_be_bytes()).expect("sent");
            stream.write_all(&most).expect("sent");
            streams.push(stream);
        }
    }
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/a", vec![], CreateMode::Persistent));
    until("everything sent has arrived", || server.figure("bytes_received_count") > 40_000_000);
    let grown = server.peak_memory() - before;
    assert!(grown < 150 * MEGABYTE, "{} MiB for 40 MiB", grown / MEGABYTE);
}

#[test]
fn frames_out_of_bounds_end_the_connection_without_a_word() {
    let server = Server::start("");
    for length in [-1, i32::MIN, 1_048_576, i32::MAX, 0] {
        let mut stream = open(server.address());
        stream.write_all(&length.to_be_bytes()).expect("sent");
        ends(&mut stream);
        let mut client = server.connect(TIMEOUT_MS);
        client.stream.write_all(&length.to_be_bytes()).expect("sent");
        ends(&mut client.stream);
    }
    until("no connection is left but the asker's", || server.figure("num_alive_connections") == 1);
}

#[test]
fn a_refused_client_that_still_sends_reads_an_end_and_no_reset() {
    let server = Server::start("");
    for session in [false, true] {
        let mut stream =
            if session { server.connect(TIMEOUT_MS).stream } else { open(server.address()) };
        let mut frame = 1_048_576_i32.to_be_bytes().to_vec();
        frame.resize(1_048_576, 0);
        // The server may be gone before it has all.
        let _ = stream.write_all(&frame);
        let read = stream.read(&mut [0; 16]);
        assert!(matches!(read, Ok(0)), "{read:?}");
    }
}

#[test]
fn one_request_cannot_ask_for_all_memory() {
    let server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/large", vec![1; LARGE], CreateMode::Persistent));
    let reads = vec![ReadOp::GetData("/large".into()); 5000];
    let reply = client.ok(&Request::MultiRead(reads));
    assert!(reply.body.len() > 60_000_000, "what fits is answered");
    assert!(server.peak_memory() < 600 * MEGABYTE, "{}", server.peak_memory());
}

/// Reads of a megabyte, pipelined, answered by the connection's task or, after a write, by the
/// orderer.
fn many_large_reads(with_writes: bool) -> Vec<Request<'static>> {
    let mut requests = Vec::new();
    for n in 0..120 {
        if with_writes && n % 7 == 0 {
            requests.push(set("/small", vec![0; 10]));
        }
        requests.push(get("/large"));
    }
    requests
}

#[test]
fn a_client_that_does_not_read_waits_alone_and_loses_nothing() {
    for with_writes in [false, true] {
        let server = Server::start("");
        let mut victim = server.connect(TIMEOUT_MS);
        victim.ok(&create("/large", vec![1; LARGE], CreateMode::Persistent));
        victim.ok(&create("/small", vec![], CreateMode::Persistent));
        let before = server.peak_memory();
        let requests = many_large_reads(with_writes);
        let count = i32::try_from(requests.len()).expect("a number");
        let mut slow = server.connect(20_000);
        slow.send(&requests);
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(500) {
            let asked = Instant::now();
            victim.ok(&set("/small", vec![1]));
            victim.ok(&get("/small"));
            assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
        }
        let grown = server.peak_memory() - before;
        assert!(grown < 100 * MEGABYTE, "{} MiB wait for one client", grown / MEGABYTE);
        for reply in slow.receive_all(count) {
            assert_eq!(reply.header.err, 0);
            assert!(reply.body.len() > LARGE || reply.body.len() < 100, "a cut reply");
        }
        slow.ok(&Request::Ping);
    }
}

/// Small answers in large numbers, to a client that reads in bursts: each time the server has
/// filled the socket it must go on by itself.
#[test]
fn a_client_that_reads_in_bursts_gets_everything() {
    let server = Server::start("");
    let mut client = server.connect(20_000);
    client.ok(&create("/node", vec![3; 20_000], CreateMode::Persistent));
    let mut requests = Vec::new();
    for n in 0..3000 {
        requests.push(if n % 5 == 0 { set("/node", vec![3; 20_000]) } else { get("/node") });
    }
    let mut sender = client.stream.try_clone().expect("a clone");
    let mut out = bytes::BytesMut::new();
    for (xid, request) in (2..).zip(&requests) {
        request_frame(&mut out, xid, request);
    }
    thread::scope(|scope| {
        scope.spawn(move || sender.write_all(&out).expect("sent"));
        for (at, xid) in (0..requests.len()).zip(2..) {
            if at % 300 == 0 {
                thread::sleep(Duration::from_millis(20));
            }
            let Reply { header, .. } = client.receive().expect("a reply");
            assert_eq!((header.xid, header.err), (xid, 0));
        }
    });
}

/// It may stand before a full outbox with a whole request read: events that come for it are no sign
/// of life.
#[test]
fn a_frozen_client_expires_while_events_come_for_it() {
    let server = Server::start("");
    let mut busy = server.connect(20_000);
    busy.ok(&create("/large", vec![1; LARGE], CreateMode::Persistent));
    busy.ok(&create("/watched", vec![], CreateMode::Persistent));
    let mut frozen = server.connect(600);
    frozen.ok(&create("/alive", vec![], CreateMode::Ephemeral));
    frozen.ok(&watch_for_ever("/watched"));
    frozen.send(&vec![get("/large"); 60]);
    let began = Instant::now();
    until("the frozen client expires", || {
        busy.ok(&set("/watched", vec![]));
        !busy.exists("/alive")
    });
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    until("its connection is closed", || server.figure("num_alive_connections") == 2);
}

#[test]
fn a_connection_without_a_session_is_closed() {
    let server = Server::start("nio.sessionlessCnxnTimeout=1500");
    let nothing = open(server.address());
    let mut length = open(server.address());
    length.write_all(&[0, 0]).expect("sent");
    let mut half = open(server.address());
    half.write_all(&connect_frame(TIMEOUT_MS, 0, &[0; 16])[..20]).expect("sent");
    let mut trickle = open(server.address());
    trickle.write_all(&1_000_000_i32.to_be_bytes()).expect("sent");
    let mut drop_by_drop = trickle.try_clone().expect("a clone");
    let began = Instant::now();
    thread::scope(|scope| {
        scope.spawn(move || {
            while drop_by_drop.write_all(&[0]).is_ok() && began.elapsed() < DEADLINE {
                thread::sleep(Duration::from_millis(20));
            }
        });
        for mut stream in [nothing, length, half, trickle] {
            ends(&mut stream);
            assert!(began.elapsed() >= Duration::from_millis(1450), "{:?}", began.elapsed());
        }
    });
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    // One with a session stays.
    let mut client = server.connect(TIMEOUT_MS);
    thread::sleep(Duration::from_millis(2000));
    client.ok(&Request::Ping);
}

#[test]
fn every_way_to_leave_gives_the_place_back() {
    let server = Server::start("maxClientCnxns=4");
    for round in 0..40 {
        let mut stream = open(server.address());
        let bytes: &[u8] = match round % 4 {
            0 => b"",
            1 => b"ruok",
            2 => &[0xff; 9],
            _ => &connect_frame(TIMEOUT_MS, 77, &[9; 16]),
        };
        // The end may come before the bytes: all places may be taken still.
        let _ = stream.write_all(bytes);
        if round % 8 < 4 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    let admitted = |asked: usize| {
        let mut streams: Vec<_> = (0..asked).map(|_| open(server.address())).collect();
        let mut count = 0;
        for stream in &mut streams {
            let mut text = String::new();
            let _ = stream.write_all(b"ruok");
            let _ = stream.read_to_string(&mut text);
            count += usize::from(text == "imok");
        }
        count
    };
    until("four places are free again", || admitted(4) == 4);
    let mut held: Vec<_> = Vec::new();
    until("four sessions", || {
        let mut stream = open(server.address());
        let _ = stream.write_all(&connect_frame(TIMEOUT_MS, 0, &[0; 16]));
        let mut first = [0; 4];
        if stream.read_exact(&mut first).is_ok() {
            held.push(stream);
        }
        held.len() == 4
    });
    assert_eq!(admitted(3), 0, "a fifth connection");
    held.pop();
    until("the place of one that left", || admitted(1) == 1);
}

#[test]
fn a_client_that_never_stops_asking_starves_nobody() {
    let server = Server::start("");
    let mut victim = server.connect(TIMEOUT_MS);
    victim.ok(&create("/node", vec![1; 100], CreateMode::Persistent));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            let mut greedy = server.connect(20_000);
            let done = &done;
            scope.spawn(move || {
                let requests = vec![get("/node"); 500];
                while !done.load(Ordering::Relaxed) {
                    greedy.send(&requests);
                    greedy.receive_all(500);
                }
            });
        }
        let mut slowest = Duration::ZERO;
        for n in 0..50 {
            let asked = Instant::now();
            victim.ok(&if n % 2 == 0 { set("/node", vec![2; 100]) } else { get("/node") });
            slowest = slowest.max(asked.elapsed());
        }
        done.store(true, Ordering::Relaxed);
        assert!(slowest < Duration::from_secs(2), "{slowest:?}");
    });
}

/// Room for two requests. A connection that waited for room, and then needs none, must not keep it.
#[test]
fn a_full_queue_empties_again() {
    let server = Server::start("globalOutstandingLimit=2");
    server.connect(TIMEOUT_MS).ok(&create("/node", vec![], CreateMode::Persistent));
    let ask = |mut client: Client| {
        for _ in 0..40 {
            client.send(&[
                set("/node", vec![1]),
                exists("/node", false),
                set("/node", vec![2]),
                Request::Ping,
                get("/node"),
            ]);
            for reply in client.receive_all(5) {
                assert_eq!(reply.header.err, 0);
            }
        }
        client
    };
    let idle: Vec<Client> = thread::scope(|scope| {
        let asking: Vec<_> =
            (0..8).map(|_| server.connect(20_000)).map(|c| scope.spawn(move || ask(c))).collect();
        asking.into_iter().map(|thread| thread.join().expect("answered")).collect()
    });
    server.connect(TIMEOUT_MS).ok(&set("/node", vec![3]));
    drop(idle);
}

#[test]
fn connections_leave_descriptors_to_the_log() {
    let metrics: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let mut server = Server::prepare(&format!(
        "snapCount=100\npreAllocSize=64\nmetricsProvider.httpHost={}\nmetricsProvider.httpPort={}\n\
         metricsProvider.className=\
         org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider",
        metrics.ip(),
        metrics.port()
    ));
    server.run_as(server.shell("ulimit -n 100; exec \"$0\" \"$@\""));
    let mut client = server.connect(TIMEOUT_MS);
    let crowd: Vec<_> = (0..150).map(|_| open(server.address())).collect();
    let scrapers: Vec<_> = (0..60).map(|_| open(metrics)).collect();
    // Each begins segments and snapshots.
    for n in 0..60 {
        let requests: Vec<_> = (0..10)
            .map(|m| create(&format!("/n{n}-{m}"), vec![1; 1000], CreateMode::Persistent))
            .collect();
        client.send(&requests);
        assert!(client.receive_all(10).iter().all(|reply| reply.header.err == 0));
    }
    drop((crowd, scrapers));
    until("there is room again", || {
        let mut stream = open(server.address());
        let mut text = String::new();
        let _ = stream.write_all(b"ruok");
        let _ = stream.read_to_string(&mut text);
        text == "imok"
    });
    let mut stream = open(metrics);
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.contains("znode_count"), "{text}");
}

fn digest(user: &str) -> Request<'_> {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: Some("digest".into()),
        auth: Some(user.as_bytes().into()),
    })
}

/// Bytes of identities that a client may show.
const IDENTITIES_MAX: usize = 64 << 10;

#[test]
fn a_client_that_shows_ever_more_identities_is_closed() {
    let server = Server::start("");
    let mut client = server.connect(20_000);
    // The same one again is no further one.
    for _ in 0..400 {
        client.ok(&digest("user:password"));
    }
    // A name, a hash in 28 characters, the scheme, and a length for each of both.
    let name = |n: usize| format!("user{n:04}:password");
    let most = IDENTITIES_MAX / ("user0000:".len() + 28 + "digest".len() + 8);
    let mut shown = 0;
    let refused = loop {
        let reply = client.call(&digest(&name(shown)));
        if reply.header.err != 0 {
            break reply;
        }
        shown += 1;
        if shown + 10 == most {
            let told = client.ok(&Request::WhoAmI);
            assert!((IDENTITIES_MAX / 4..IDENTITIES_MAX).contains(&told.body.len()));
        }
    };
    assert!((most - 2..=most).contains(&shown), "{shown} of {most}");
    assert_eq!((refused.header.err, refused.header.zxid), (-115, 0));
    ends(&mut client.stream);
    // One alone can be too much as well.
    let mut other = client.again(server.address());
    let long = format!("{}:password", "u".repeat(IDENTITIES_MAX));
    assert_eq!(other.call(&digest(&long)).header.err, -115);
    ends(&mut other.stream);
    let mut again = client.again(server.address());
    assert_eq!(again.session.session_id, client.session.session_id);
    again.ok(&Request::Ping);
    until("its log says so", || server.log().contains("FK0504"));
}

#[test]
fn a_list_that_stands_for_more_than_the_log_takes_is_refused() {
    let server = Server::start("");
    let mut client = server.connect(20_000);
    for user in 'a'..'p' {
        client.ok(&digest(&format!("{}:password", user.to_string().repeat(4000))));
    }
    let before = server.peak_memory();
    let auth = |perms| Acl { perms, scheme: Some("auth".into()), id: Some("".into()) };
    let create = |path: &str, times| CreateRequest {
        path: path.to_owned().into(),
        data: None,
        acl: Some((0..times).map(auth).collect()),
        flags: 0,
    };
    // 17 kB that are 66 MB.
    assert_eq!(client.call(&Request::Create(create("/a", 1100))).header.err, -114);
    let parts =
        |times| (0..times).map(|at| MultiOp::Create(create(&format!("/a{at}"), 10))).collect();
    // Each is 600 kB, and all of them are a gigabyte.
    assert_eq!(client.call(&Request::Multi(parts(1800))).header.err, -5);
    let grown = server.peak_memory() - before;
    assert!(grown < 50 * MEGABYTE, "{} MiB", grown / MEGABYTE);
    client.ok(&Request::Multi(parts(3)));
    assert!(client.exists("/a2") && !client.exists("/a") && !client.exists("/a3"));
}
