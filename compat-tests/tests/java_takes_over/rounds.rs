//! Apache ZooKeeper, the server under test, and back, on one directory that ZooKeeper began: kill
//! -9 under load at each change, the same clients throughout.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use compat_tests::held_sessions::{Held, HeldSessions};
use compat_tests::load::{Acknowledged, Load, Writes};
use compat_tests::request::{self, mode, op};
use compat_tests::tree::{Tree, assert_kept, assert_same, ephemerals};
use compat_tests::{Kind, Proxy, Server, count};

use super::{assert_digests_matched, look_from_outside};

/// Longer than the busiest machine takes for a start.
const SESSION_MS: u32 = 60_000;
const LONG_SESSIONS: &str = "maxSessionTimeout=60000";
/// On the copy nobody pings, and a walk through what twenty rounds wrote takes its time: sessions
/// expire at whole ticks.
const NO_EXPIRY: &str = "tickTime=600000";

/// The clients that stay, on one address. Nobody may come before the next server serves: Apache
/// ZooKeeper never answers who comes between its listening and its serving, and Curator waits for
/// as long as a session lasts.
struct Clients {
    door: Proxy,
    curator: HeldSessions,
    kazoo: HeldSessions,
    at_first: BTreeMap<String, (i64, i64)>,
}

impl Clients {
    fn start(server: &Server) -> Self {
        let door = Proxy::before(server.address());
        let curator = HeldSessions::of_curator(door.address, 3, SESSION_MS);
        let kazoo = HeldSessions::of_kazoo(door.address, 2, SESSION_MS);
        let at_first = ephemerals(&look_from_outside(server));
        // One each, and the locks of the first of Curator and of both of kazoo.
        assert_eq!(at_first.len(), 5 + 3);
        Self { door, curator, kazoo, at_first }
    }

    /// Nobody has lost anything; `changes` are the servers that have ended so far.
    fn check(&mut self, server: &Tree, changes: usize) {
        let held = self.curator.report().into_iter().chain(self.kazoo.report());
        for (path, client) in held {
            let Held { lost, suspended, session, owner, locked } = client;
            assert!(suspended >= changes as u64, "{path} has seen {suspended} of {changes} ends");
            assert_eq!((lost, owner, locked), (0, session, true), "{path}: {client:?}");
        }
        assert_eq!(ephemerals(server), self.at_first, "the same znodes, the same owners");
    }
}

/// The next sequential znode has the number that the counter of its parent says.
fn assert_number_follows(server: &Server, tree: &Tree) {
    let (_, parent) = tree.get("/load/seq").expect("the load has made it");
    let mut client = server.connect(20_000);
    let body = request::create("/load/seq/n-", None, mode::SEQUENTIAL);
    let reply = client.call(op::CREATE, &body).expect("a reply");
    assert_eq!(reply.path(), format!("/load/seq/n-{:010}", parent.cversion));
    client.close().expect("the session closes");
}

fn numbers(written: &Acknowledged) -> impl Iterator<Item = u64> {
    written.sequential.iter().map(|path| {
        path.rsplit('-').next().and_then(|digits| digits.parse().ok()).expect("a number")
    })
}

#[test]
fn there_and_back_under_load_with_the_same_clients() {
    let mut server =
        Server::start(Kind::Reference, &["snapCount=2000", "preAllocSize=4096", LONG_SESSIONS]);
    let mut clients = Clients::start(&server);
    let mut before = look_from_outside(&server);
    let mut all = Acknowledged::default();
    let rounds = count("TAKE_OVER_ROUNDS", 2);
    for change in 1..=2 * rounds {
        let load = Load::start(server.address(), 4, change, Writes::SetsAndCreates);
        // Not a wait for something: the moment of the crash is what varies.
        thread::sleep(Duration::from_millis(200 + 97 * (change as u64 % 5)));
        load.expect_end();
        server.kill();
        clients.door.order("hold");
        let written = load.stop();

        let (from, to) = match server.kind() {
            Kind::Reference => (Kind::Reference, Kind::subject()),
            other => (other, Kind::Reference),
        };
        let mut stayed = Server::on_copy(from, &[NO_EXPIRY], &server.data_dir());
        server.hand_over_to(to);
        server.restart();
        clients.door.order("release");
        stayed.restart();
        // Both make the same of the torn end.
        let after = look_from_outside(&server);
        assert_same(&look_from_outside(&stayed), &after);
        drop(stayed);

        let mut client = server.connect(20_000);
        written.check(&mut client);
        client.close().expect("the session closes");
        assert_kept(&before, &after);
        clients.check(&after, change);
        let (earlier, now) = (all.zxids, written.zxids.expect("something was written"));
        assert!(
            earlier.is_none_or(|(_, last)| last < now.0),
            "zxids fell from {earlier:x?} to {now:x?}"
        );
        let greatest = numbers(&all).max();
        let least = numbers(&written).min();
        assert!(least > greatest, "numbers fell from {greatest:?} to {least:?}");
        all.merge(written);
        assert_number_follows(&server, &after);
        before = look_from_outside(&server);
    }
    let mut client = server.connect(20_000);
    all.check(&mut client);
    client.close().expect("the session closes");
    assert_digests_matched(&server);
    assert!(all.created.len() > rounds * 10, "hardly anything was written");
}
