//! kill -9 at random moments: what was acknowledged is there, no number is handed out twice.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread;
use std::time::Duration;

use compat_tests::load::{Acknowledged, Load, Writes};
use compat_tests::{Kind, Server, count, run_the_release, tree};

/// A moment between 20 and 520 ms.
fn some_time() -> Duration {
    let random = RandomState::new().build_hasher().finish();
    Duration::from_millis(20 + random % 500)
}

#[test]
fn acknowledged_writes_survive() {
    run_the_release();
    // Snapshots in the middle of it, too.
    let mut server = Server::start(Kind::subject(), &["snapCount=1000"]);
    let mut acknowledged = Acknowledged::default();
    let mut numbers = BTreeSet::new();
    let rounds = count("KILL_NINE_ROUNDS", 10);
    for round in 0..rounds {
        let load = Load::start(server.address(), 4, round, Writes::SetsAndCreates);
        // Not a wait for something: the moment of the crash is what varies.
        thread::sleep(some_time());
        load.expect_end();
        server.kill();
        let written = load.stop();
        server.restart();

        let mut client = server.connect(20_000);
        written.check(&mut client);
        for path in &written.sequential {
            assert!(numbers.insert(path.clone()), "{path} was handed out twice");
        }
        acknowledged.merge(written);
        client.close().expect("the session closes");
    }
    // What survived one crash must survive the later ones.
    let mut client = server.connect(20_000);
    acknowledged.check(&mut client);
    let tree = tree::walk(&mut client).expect("the whole tree can be read");
    assert!(tree.len() > acknowledged.created.len());
    assert!(acknowledged.created.len() > rounds * 10, "hardly anything was written");
    client.close().expect("the session closes");
}
