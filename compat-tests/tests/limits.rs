//! Bounds that zoo.cfg sets, and where files go: each on both servers.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, Kind, RawClient, Server, four_letter_words};

const TIMEOUT: i32 = 10_000;

fn both(config: &[&str], check: fn(&Server)) {
    for kind in [Kind::Reference, Kind::subject()] {
        check(&Server::start(kind, config));
    }
}

fn err(client: &mut RawClient, op: i32, body: &[u8]) -> i32 {
    client.call(op, body).expect("a reply").err
}

fn create(client: &mut RawClient, path: &str) {
    assert_eq!(
        err(client, op::CREATE, &request::create(path, None, mode::PERSISTENT)),
        0,
        "{path}"
    );
}

/// Opens connections until one is refused; returns how many had a session.
fn accepted(server: &Server, most: usize) -> usize {
    let mut clients = Vec::new();
    while clients.len() < most {
        match RawClient::open(server.address(), &ConnectRequest::new(TIMEOUT)) {
            Ok((client, _)) => clients.push(client),
            Err(_) => break,
        }
    }
    clients.len()
}

/// Starting asks a four-letter word or more, whose connections go a moment later.
fn settle(server: &Server) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !four_letter_words::ask(server.address(), "srvr").is_ok_and(|text| {
        // Its own.
        text.contains("Connections: 1\n")
    }) {
        assert!(Instant::now() < deadline, "connections stay open");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(200));
}

#[test]
fn max_client_cnxns() {
    both(&["maxClientCnxns=3"], |server| {
        settle(server);
        assert_eq!(accepted(server, 10), 3);
    });
}

#[test]
fn max_cnxns() {
    both(&["maxCnxns=4"], |server| {
        settle(server);
        assert_eq!(accepted(server, 10), 4);
    });
}

#[test]
fn a_connection_that_gets_no_session_ends() {
    both(&["nio.sessionlessCnxnTimeout=1000"], |server| {
        let started = Instant::now();
        let silent = RawClient::dial(server.address()).expect("a socket");
        let mut half = RawClient::dial(server.address()).expect("a socket");
        half.send_raw(&[0, 0, 0, 45, 0, 0]).expect("sent");
        let mut served = server.connect(TIMEOUT);
        for mut idle in [silent, half] {
            assert!(idle.read_frame().expect("the end of the stream").is_none());
        }
        assert!(started.elapsed() >= Duration::from_secs(1));
        assert_eq!(err(&mut served, op::EXISTS, &request::path_watch("/", false)), 0);
    });
}

#[test]
fn a_longer_frame_is_taken_when_the_limit_is_raised() {
    both(&["jute.maxbuffer=8000000"], |server| {
        let mut client = server.connect(TIMEOUT);
        let data = vec![b'x'; 4_000_000];
        let body = request::create("/long", Some(&data), mode::PERSISTENT);
        assert_eq!(err(&mut client, op::CREATE, &body), 0);
        let reply = client.call(op::GET_DATA, &request::path_watch("/long", false));
        assert_eq!(reply.expect("a reply").data().len(), data.len());
    });
}

#[test]
fn an_unknown_scheme_ends_the_connection() {
    both(&[], |server| {
        let mut client = server.connect(TIMEOUT);
        let began = Instant::now();
        assert_eq!(err(&mut client, op::AUTH, &request::auth("nosuch", b"x")), -115);
        assert!(client.read_frame().expect("the end").is_none(), "closed behind the answer");
        // Its session would expire later.
        assert!(began.elapsed() < Duration::from_secs(5), "closed at once");
    });
}

fn names(folder: &Path, prefix: &str) -> usize {
    let entries = fs::read_dir(folder).expect("the folder is there");
    entries
        .filter(|entry| {
            let name = entry.as_ref().expect("an entry").file_name();
            name.to_string_lossy().starts_with(prefix)
        })
        .count()
}

/// The zxids in the names of snapshots or logs, in their order; without the empty tree's.
fn zxids(folder: &Path, prefix: &str) -> Vec<i64> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let zxid = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().expect("a plain name");
        i64::from_str_radix(name.strip_prefix(prefix)?, 16).ok()
    };
    let found = entries.filter_map(|entry| zxid(entry.expect("an entry")));
    let mut found: Vec<i64> = found.filter(|zxid| *zxid > 0).collect();
    found.sort_unstable();
    found
}

/// More than half of snapCount come before each snapshot, and by chance up to all of it. Without
/// preallocation a log ends for no other reason.
#[test]
fn logs_live_where_they_are_told_and_roll_with_the_snapshots() {
    const SNAP_COUNT: i64 = 20;
    for kind in [Kind::Reference, Kind::subject()] {
        let logs = tempfile::tempdir().expect("a folder");
        let elsewhere = format!("dataLogDir={}", logs.path().display());
        let often = format!("snapCount={SNAP_COUNT}");
        let all_stay = "autopurge.purgeInterval=0";
        let server = Server::start(kind, &[&elsewhere, &often, "preAllocSize=0", all_stay]);
        let mut client = server.connect(TIMEOUT);
        create(&mut client, "/n");
        let (data, logs) = (server.data_dir().join("version-2"), logs.path().join("version-2"));
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut taken = Vec::new();
        while taken.len() < 3 || names(&logs, "log.") < 3 {
            assert!(Instant::now() < deadline, "{kind:?}: no snapshot or log");
            let set = client.call(op::SET_DATA, &request::set_data("/n", b"x", -1));
            let last = set.expect("a reply").zxid;
            taken = zxids(&data, "snapshot.");
            let most = usize::try_from(last / (SNAP_COUNT / 2)).expect("not below 0");
            assert!(taken.len() <= most, "{kind:?}: {taken:x?} after {last:x}");
        }
        let begun = zxids(&logs, "log.");
        let lengths: Vec<i64> = begun.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(lengths.iter().all(|txns| *txns > SNAP_COUNT / 2), "{kind:?}: {begun:x?}");
        assert!(lengths[0] <= SNAP_COUNT, "{kind:?}: {begun:x?}");
        assert_eq!((names(&data, "log."), names(&logs, "snapshot.")), (0, 0), "{kind:?}");
    }
}
