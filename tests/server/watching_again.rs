//! setWatches of many paths, which is made in pieces, while what it names is changed.

use std::collections::BTreeMap;
use std::thread;

use jute::CreateMode;
use jute::protocol::{Request, SetDataRequest, SetWatchesRequest};

use crate::client::{Client, create, exists, until};
use crate::process::Server;

const TIMEOUT_MS: i32 = 10_000;
const PATHS: usize = 5_000;
const BATCH: usize = 500;
/// An event's xid.
const EVENT: i32 = -1;

fn path(number: usize) -> String {
    format!("/n{number:05}")
}

#[test]
fn each_change_is_told_once_and_what_was_missed_before_the_answer() {
    let server = Server::start("maxSessionTimeout=10000");
    let mut writer = server.connect(TIMEOUT_MS);
    let mut write = |request: &dyn Fn(&str) -> Request<'static>| {
        for first in (0..PATHS).step_by(BATCH) {
            let requests: Vec<_> = (first..first + BATCH).map(|it| request(&path(it))).collect();
            writer.send(&requests);
            for reply in writer.receive_all(BATCH as i32) {
                assert_eq!(reply.header.err, 0);
            }
        }
    };
    write(&|path| create(path, vec![], CreateMode::Persistent));
    let mut client = server.connect(TIMEOUT_MS);
    let seen = client.ok(&exists("/", false)).header.zxid;
    let data_watches = (0..PATHS).map(|it| path(it).into()).collect();
    let (exist_watches, child_watches) = (vec![], vec![]);
    let again =
        SetWatchesRequest { relative_zxid: seen, data_watches, exist_watches, child_watches };
    let mut told: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let (mut answered, mut caught_up) = (None, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            write(&|path| {
                let (path, data) = (path.to_owned().into(), Some(vec![].into()));
                Request::SetData(SetDataRequest { path, data, version: -1 })
            });
        });
        let xid = client.send(&[Request::SetWatches(again)]);
        let mut last = 0;
        while answered.is_none() || told.len() < PATHS {
            let reply = client.receive().expect("an event or the answer");
            if reply.header.xid == xid {
                assert_eq!(reply.header.err, 0);
                answered = Some(reply.header.zxid);
                continue;
            }
            assert_eq!(reply.header.xid, EVENT);
            if reply.header.zxid == -1 {
                assert_eq!(answered, None, "it belongs before the answer");
                caught_up += 1;
            } else {
                assert!(reply.header.zxid > last, "events come in their order");
                last = reply.header.zxid;
            }
            if let Some(zxid) = answered {
                assert!(reply.header.zxid > zxid, "the answer shows it already");
            }
            *told.entry(reply.body.to_vec()).or_default() += 1;
        }
    });
    assert!(told.values().all(|times| *times == 1), "{caught_up} were caught up on");
    assert_eq!(server.figure("watch_count"), 0, "each fired");
    // A client that goes in the middle of it leaves none.
    let exist_watches = (0..4 * PATHS).map(|it| format!("/absent{it}").into()).collect();
    let data_watches = vec![];
    let child_watches = vec![];
    client.send(&[Request::SetWatches(SetWatchesRequest {
        relative_zxid: seen,
        data_watches,
        exist_watches,
        child_watches,
    })]);
    drop(client);
    until("no watch is left", || {
        server.figure("num_alive_connections") == 1 && server.figure("watch_count") == 0
    });
}

/// What `cons` says was sent to a client.
fn sent(server: &Server, client: &Client) -> u64 {
    let session = format!("sid={:#x},", client.session.session_id);
    let text = server.word("cons");
    let line = text.lines().find(|line| line.contains(&session)).expect("the client");
    let sent = line.split("sent=").nth(1).and_then(|rest| rest.split(',').next());
    sent.and_then(|sent| sent.parse().ok()).expect("a number")
}

/// `ServerCnxn.process` sends them as it does any other event.
#[test]
fn what_was_missed_is_counted_as_sent() {
    let server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    let seen = client.ok(&exists("/", false)).header.zxid;
    // Some at once, and so many that they are watched in pieces.
    for paths in [5, PATHS] {
        let (before, bytes) = (sent(&server, &client), server.figure("watch_bytes"));
        let data_watches = (0..paths).map(|it| path(it).into()).collect();
        let (exist_watches, child_watches) = (vec![], vec![]);
        let again =
            SetWatchesRequest { relative_zxid: seen, data_watches, exist_watches, child_watches };
        let xid = client.send(&[Request::SetWatches(again)]);
        for _ in 0..paths {
            assert_eq!(client.receive().expect("an event").header.xid, EVENT);
        }
        assert_eq!(client.receive().expect("the answer").header.xid, xid);
        let all = before + paths as u64 + 1;
        until("all is counted", || sent(&server, &client) == all);
        // The header of a reply, the type, the state and the path with its length.
        let event = 16 + 4 + 4 + 4 + path(0).len();
        let told = server.figure("watch_bytes") - bytes;
        assert_eq!(told, i64::try_from(paths * event).expect("a number"), "{paths}");
    }
}
