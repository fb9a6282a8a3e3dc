//! Long listings, which are made in pieces and sent to many at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use jute::CreateMode;
use jute::protocol::{
    Children2Response, ChildrenResponse, DeleteRequest, EphemeralsRequest, EphemeralsResponse,
    ReadOp, Request, WatchRequest,
};
use parking_lot::Mutex;

use crate::client::{Client, Reply, create, until};
use crate::process::Server;

const TIMEOUT_MS: i32 = 10_000;
const MEGABYTE: u64 = 1 << 20;
const CHILDREN: usize = 20_000;
const BATCH: usize = 500;
/// An event's xid.
const EVENT: i32 = -1;

fn list(watch: bool) -> Request<'static> {
    Request::GetChildren(WatchRequest { path: "/p".into(), watch })
}

fn list_with_stat(watch: bool) -> Request<'static> {
    Request::GetChildren2(WatchRequest { path: "/p".into(), watch })
}

/// `/p` with that many children.
fn populate(client: &mut Client, name: impl Fn(usize) -> String) {
    client.ok(&create("/p", vec![], CreateMode::Persistent));
    for first in (0..CHILDREN).step_by(BATCH) {
        let requests: Vec<Request<'_>> = (first..first + BATCH)
            .map(|number| create(&format!("/p/{}", name(number)), vec![], CreateMode::Persistent))
            .collect();
        client.send(&requests);
        for reply in client.receive_all(BATCH as i32) {
            assert_eq!(reply.header.err, 0);
        }
    }
}

/// What one client changed: by the zxid, whose name was created (or deleted).
#[derive(Default)]
struct Ledger(Mutex<BTreeMap<i64, (String, bool)>>);

impl Ledger {
    /// The children as they were after a transaction.
    fn children(&self, initial: &BTreeSet<String>, zxid: i64) -> BTreeSet<String> {
        let mut children = initial.clone();
        for (name, created) in self.0.lock().range(..=zxid).map(|(_, change)| change) {
            let differs =
                if *created { children.insert(name.clone()) } else { children.remove(name) };
            assert!(differs);
        }
        children
    }
}

/// Creates and deletes children of `/p` until it is over, at times in a hurry and at times not.
fn change(address: SocketAddr, ledger: &Ledger, acknowledged: &AtomicI64, over: &AtomicBool) {
    let mut client = Client::connect(address, TIMEOUT_MS);
    let mut number = 0;
    while !over.load(Ordering::SeqCst) {
        let name = format!("new-{}", number / 2);
        let path = format!("/p/{name}");
        let created = number % 2 == 0;
        let reply = if created {
            client.ok(&create(&path, vec![], CreateMode::Persistent))
        } else {
            client.ok(&Request::Delete(DeleteRequest { path: path.into(), version: -1 }))
        };
        ledger.0.lock().insert(reply.header.zxid, (name, created));
        acknowledged.store(reply.header.zxid, Ordering::SeqCst);
        number += 1;
        thread::sleep(Duration::from_millis([0, 0, 1, 40, 5, 80][number % 6]));
    }
}

/// A listing, and the event that its watch brought.
struct Seen {
    zxid: i64,
    /// Acknowledged to somebody before it was asked for.
    acknowledged: i64,
    names: BTreeSet<String>,
    pzxid: i64,
    event: i64,
}

fn look(client: &mut Client, acknowledged: &AtomicI64) -> Seen {
    let acknowledged = acknowledged.load(Ordering::SeqCst);
    let reply = client.ok(&list_with_stat(true));
    let (found, rest) = jute::decode::<Children2Response<'_>>(&reply.body).expect("a listing");
    assert!(rest.is_empty());
    let count = found.children.len();
    assert_eq!(found.stat.num_children as usize, count);
    let names: BTreeSet<String> = found.children.into_iter().map(Into::into).collect();
    assert_eq!(names.len(), count, "a name came twice");
    let event = client.receive().expect("an event");
    assert_eq!(event.header.xid, EVENT);
    let (zxid, pzxid) = (reply.header.zxid, found.stat.pzxid);
    Seen { zxid, acknowledged, names, pzxid, event: event.header.zxid }
}

#[test]
fn a_listing_is_one_state_and_its_watch_misses_nothing() {
    let server = Server::start("maxSessionTimeout=10000");
    let mut client = server.connect(TIMEOUT_MS);
    populate(&mut client, |number| format!("child-{number:05}"));
    let initial: BTreeSet<String> =
        (0..CHILDREN).map(|number| format!("child-{number:05}")).collect();
    let (ledger, over) = (Ledger::default(), AtomicBool::new(false));
    let acknowledged = AtomicI64::new(0);
    let seen: Vec<Seen> = thread::scope(|scope| {
        let (ledger, over, acknowledged) = (&ledger, &over, &acknowledged);
        let address = server.address();
        let changer = scope.spawn(move || change(address, ledger, acknowledged, over));
        let look_often = move || -> Vec<Seen> {
            let mut client = Client::connect(address, TIMEOUT_MS);
            (0..10).map(|_| look(&mut client, acknowledged)).collect()
        };
        let lookers: Vec<_> = (0..4).map(|_| scope.spawn(look_often)).collect();
        let seen = lookers.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>();
        over.store(true, Ordering::SeqCst);
        changer.join().expect("the changes");
        seen.into_iter().flat_map(|seen| seen.expect("the listings")).collect()
    });
    for seen in seen {
        assert!(seen.zxid >= seen.acknowledged, "an old state");
        assert!(seen.names == ledger.children(&initial, seen.zxid), "no state of {}", seen.zxid);
        let changes = ledger.0.lock();
        let next = changes.range(seen.zxid + 1..).next().map(|(zxid, _)| *zxid);
        assert_eq!(Some(seen.event), next);
        if let Some((zxid, _)) = changes.range(..=seen.zxid).next_back() {
            assert_eq!(seen.pzxid, *zxid);
        }
    }
}

#[test]
fn a_long_listing_has_the_bytes_of_one_that_is_made_at_once() {
    let server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    populate(&mut client, |number| format!("{number:0100}"));
    // A part of a multiRead is made at once. A part's header has 9 bytes, and so has the end.
    let parts = client.ok(&Request::MultiRead(vec![ReadOp::GetChildren("/p".into())]));
    let at_once = &parts.body[9..parts.body.len() - 9];
    assert_eq!(at_once.len(), 4 + CHILDREN * 104);
    // After and before other requests, too.
    let exists = || crate::client::exists("/p", false);
    client.send(&[exists(), list(false), list_with_stat(false), exists(), list(false)]);
    let replies = client.receive_all(5);
    let stat = &replies[0].body;
    let bodies: Vec<&[u8]> = replies.iter().map(|reply| &reply.body[..]).collect();
    let with_stat = [at_once, stat].concat();
    assert!(bodies == [stat, at_once, &with_stat, stat, at_once]);
    let (found, _) = jute::decode::<ChildrenResponse<'_>>(at_once).expect("names");
    assert_eq!(found.children.len(), CHILDREN);
    let missing = Request::GetChildren(WatchRequest { path: "/p/none".into(), watch: false });
    assert_eq!(client.call(&missing).header.err, -101);
}

#[test]
fn many_who_do_not_read_a_listing_share_its_memory() {
    let server = Server::start("maxSessionTimeout=60000");
    let mut client = server.connect(TIMEOUT_MS);
    // Two megabytes.
    populate(&mut client, |number| format!("{number:0100}"));
    let one = client.ok(&list(false));
    let before = server.peak_memory();
    let mut clients: Vec<Client> = (0..40).map(|_| server.connect(60_000)).collect();
    let sent = server.figure("response_bytes");
    for client in &mut clients {
        client.send(&[list(false)]);
    }
    let all = 40 * one.body.len() as i64;
    until("all are answered", || server.figure("response_bytes") >= sent + all);
    let grown = server.peak_memory() - before;
    assert!(grown < 20 * MEGABYTE, "{} MiB", grown / MEGABYTE);
    for client in &mut clients {
        let reply: Reply = client.receive().expect("a listing");
        assert!(reply.body == one.body);
    }
}

#[test]
fn who_reads_a_listing_slowly_keeps_his_session() {
    let server = Server::start("jute.maxbuffer=4000000");
    let mut client = server.connect(TIMEOUT_MS);
    // 40 megabytes: more than sockets take.
    populate(&mut client, |number| format!("{number:02000}"));
    let mut slow = server.connect(2000);
    slow.send(&[list(false)]);
    let mut left = 4 + 16 + 4 + CHILDREN * 2004;
    let mut piece = vec![0; 3_000_000];
    let mut pings = 0;
    while left > 0 {
        // As a client does that has nothing else to say.
        slow.send(&[Request::Ping]);
        pings += 1;
        let read = left.min(piece.len());
        slow.stream.read_exact(&mut piece[..read]).expect("a piece of the listing");
        left -= read;
        thread::sleep(Duration::from_millis(250));
    }
    assert!(pings > 12);
    for reply in slow.receive_all(pings) {
        assert_eq!(reply.header.err, 0);
    }
}

#[test]
fn who_leaves_while_others_list_is_not_waited_for() {
    let server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    populate(&mut client, |number| format!("{number:0100}"));
    for _ in 0..30 {
        server.connect(TIMEOUT_MS).send(&[list(false)]);
    }
    let reply = client.ok(&list(false));
    assert_eq!(reply.body.len(), 4 + CHILDREN * 104);
    // Its own, and that of the word.
    until("they are gone", || server.figure("num_alive_connections") <= 2);
}

#[test]
fn ephemerals_with_long_paths_come_in_their_turn_and_go_with_their_session() {
    const EPHEMERALS: usize = 60;
    let server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    let above = format!("/{}", "x".repeat(100_000));
    client.ok(&create(&above, vec![], CreateMode::Persistent));
    let paths: BTreeSet<String> =
        (0..EPHEMERALS).map(|number| format!("{above}/{number}")).collect();
    for path in &paths {
        client.ok(&create(path, vec![], CreateMode::Ephemeral));
    }
    let of =
        |prefix: &str| Request::GetEphemerals(EphemeralsRequest { path: prefix.to_owned().into() });
    let exists = || crate::client::exists("/zookeeper", false);
    client.send(&[exists(), of("/"), exists(), of(&above), of("/none"), exists()]);
    let replies = client.receive_all(6);
    assert!([2, 5].iter().all(|at| replies[*at].body == replies[0].body));
    for (at, is_all) in [(1, true), (3, true), (4, false)] {
        let body = &replies[at].body;
        let (found, rest) = jute::decode::<EphemeralsResponse<'_>>(body).expect("paths");
        assert!(rest.is_empty());
        let found: Vec<String> = found.ephemerals.into_iter().map(Into::into).collect();
        assert_eq!(found.len(), if is_all { EPHEMERALS } else { 0 });
        assert!(!is_all || found.into_iter().collect::<BTreeSet<_>>() == paths);
    }
    let mut other = server.connect(TIMEOUT_MS);
    client.ok(&Request::CloseSession);
    let left = Request::GetChildren(WatchRequest { path: above.into(), watch: false });
    let left = other.ok(&left);
    let (left, _) = jute::decode::<ChildrenResponse<'_>>(&left.body).expect("a listing");
    assert_eq!(left.children.len(), 0);
}
