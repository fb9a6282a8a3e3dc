//! Three servers of Apache ZooKeeper, three of the server under test on their directories, and back: kill -9 of all under
//! load at each change, the same clients throughout.

use std::process::Command;
use std::thread;
use std::time::Duration;

use compat_tests::held_sessions::{Held, HeldSessions};
use compat_tests::load::{Acknowledged, Load, Writes};
use compat_tests::tree::{self, Tree, assert_kept, assert_same, ephemerals};
use compat_tests::{Ensemble, Kind, Proxy, Server, count, rookeeper};

/// Longer than the busiest machine takes for a start and an election.
const SESSION_MS: u32 = 60_000;
const CONFIG: [&str; 3] = ["snapCount=2000", "preAllocSize=4096", "maxSessionTimeout=60000"];
fn look(server: &Server) -> Tree {
    // Its session was opened by a transaction: what was final before is applied here.
    let mut client = server.connect(20_000);
    let mut tree = tree::walk(&mut client).expect("the whole tree can be read");
    client.close().expect("the session closes");
    // Each server writes its own list there.
    tree.remove("/zookeeper/config");
    tree
}

/// What makes a directory of no ensemble out of a member's, as the refusal says.
fn leave(ensemble: &Ensemble) {
    for server in ensemble.servers() {
        let mut command = Command::new(rookeeper());
        let output = command.args(["data", "leave"]).arg(server.data_dir()).output();
        let output = output.expect("the binary runs");
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn there_and_back_under_load_with_the_same_clients() {
    let mut ensemble = Ensemble::start(Kind::Reference, &CONFIG);
    // Nobody may come before the next servers serve: Apache ZooKeeper never answers who comes between its listening and
    // its serving, and Curator waits for as long as a session lasts.
    let door = Proxy::before(ensemble.server(0).address());
    let mut curator = HeldSessions::of_curator(door.address, 3, SESSION_MS);
    let mut kazoo = HeldSessions::of_kazoo(door.address, 2, SESSION_MS);
    let mut before = look(ensemble.server(0));
    let at_first = ephemerals(&before);
    // One each, and the locks of the first of Curator and of both of kazoo.
    assert_eq!(at_first.len(), 5 + 3);
    let mut all = Acknowledged::default();
    let rounds = count("ENSEMBLE_ROUNDS", 1);
    let mut kind = Kind::Reference;
    for change in 1..=2 * rounds {
        let busy = ensemble.server(change % 3).address();
        let load = Load::start(busy, 4, change, Writes::SetsAndCreates);
        // Not a wait for something: the moment of the crash is what varies.
        thread::sleep(Duration::from_millis(300 + 97 * (change as u64 % 5)));
        load.expect_end();
        ensemble.kill();
        door.order("hold");
        let written = load.stop();

        kind = match kind {
            Kind::Reference => Kind::subject(),
            _ => Kind::Reference,
        };
        ensemble.hand_over_to(kind);
        if change > 1 && kind != Kind::Reference {
            let why = ensemble.try_restart(0).expect_err("ZooKeeper has gone on with it");
            assert!(why.contains("was written by Apache ZooKeeper after this server"), "{why}");
            leave(&ensemble);
        }
        ensemble.start_again();
        door.order("release");

        let after = look(ensemble.server(0));
        for other in &ensemble.servers()[1..] {
            assert_same(&after, &look(other));
            let mut client = other.connect(20_000);
            written.check(&mut client);
            client.close().expect("the session closes");
        }
        assert_kept(&before, &after);
        for (path, client) in curator.report().into_iter().chain(kazoo.report()) {
            let Held { lost, suspended, session, owner, locked } = client;
            assert!(suspended >= change as u64, "{path} has seen {suspended} of {change} ends");
            assert_eq!((lost, owner, locked), (0, session, true), "{path}: {client:?}");
        }
        assert_eq!(ephemerals(&after), at_first, "the same znodes, the same owners");
        let (earlier, now) = (all.zxids, written.zxids.expect("something was written"));
        assert!(
            earlier.is_none_or(|(_, last)| last < now.0),
            "zxids fell from {earlier:x?} to {now:x?}"
        );
        all.merge(written);
        before = look(ensemble.server(0));
    }
    for server in ensemble.servers() {
        let mut client = server.connect(20_000);
        all.check(&mut client);
        client.close().expect("the session closes");
        let log = server.log();
        for complaint in ["Digests are not matching", "digest mismatch"] {
            assert!(!log.contains(complaint), "{complaint}");
        }
    }
    curator.finish();
    kazoo.finish();
    assert!(all.created.len() > rounds * 10, "hardly anything was written");
}
