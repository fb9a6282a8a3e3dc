//! Three servers of Apache ZooKeeper, three of the server under test on their directories, and
//! back: kill -9 of all under load at each change, the same clients throughout.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::held_sessions::{Held, HeldSessions};
use compat_tests::load::{Acknowledged, Load, Writes};
use compat_tests::request::{self, mode, op};
use compat_tests::tree::{self, Tree, assert_kept, assert_same, ephemerals};
use compat_tests::{Ensemble, Kind, Proxy, Server, count};

/// Two changes each: there and back.
const ROUNDS: usize = 2;
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

#[test]
fn there_and_back_under_load_with_the_same_clients() {
    let mut ensemble = Ensemble::start(Kind::Reference, &CONFIG);
    // Nobody may come before the next servers serve: Apache ZooKeeper never answers who comes
    // between its listening and its serving, and Curator waits for as long as a session lasts.
    let door = Proxy::before(ensemble.server(0).address());
    let mut curator = HeldSessions::of_curator(door.address, 3, SESSION_MS);
    let mut kazoo = HeldSessions::of_kazoo(door.address, 2, SESSION_MS);
    let mut before = look(ensemble.server(0));
    let at_first = ephemerals(&before);
    // One each, and the locks of the first of Curator and of both of kazoo.
    assert_eq!(at_first.len(), 5 + 3);
    let mut all = Acknowledged::default();
    let rounds = count("ENSEMBLE_ROUNDS", ROUNDS);
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
        for complaint in [
            "Digests are not matching",
            "digest mismatch",
            "a recorded digest does not match the tree",
        ] {
            assert!(!log.contains(complaint), "{complaint}");
        }
    }
    curator.finish();
    kazoo.finish();
    assert!(all.created.len() > rounds * 10, "hardly anything was written");
}

/// What a server's raft.state says: the ensemble and which generation it is.
fn generation(server: &Server) -> (u64, u64) {
    let bytes = fs::read(server.data_dir().join("version-2/raft.state")).expect("it is a member's");
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    (number(48), number(4002))
}

fn set(server: &Server, round: usize) {
    let mut client = server.connect(20_000);
    let create = request::create(&format!("/round-{round}"), Some(b"written"), mode::PERSISTENT);
    let reply = client.call(op::CREATE, &create).expect("an answer");
    assert_eq!(reply.err, 0, "round {round}");
    client.close().expect("the session closes");
}

/// All serve one tree, with a znode of each of these rounds.
fn all_have(ensemble: &Ensemble, rounds: &[usize], what: &str) {
    let trees: Vec<Tree> = ensemble.servers().iter().map(look).collect();
    for tree in &trees {
        assert_same(&trees[0], tree);
        let has = |round: &usize| tree.contains_key(&format!("/round-{round}"));
        let missing: Vec<&usize> = rounds.iter().filter(|round| !has(round)).collect();
        assert!(missing.is_empty(), "{what}: {missing:?} are missing");
    }
}

/// What happens to one of three servers between ZooKeeper's time and this server's.
const TURNS: [&str; 6] = ["away", "late", "silent", "lagging", "late and away", "all"];

/// ZooKeeper on the directories and this server again, while one is away or late; which rounds were
/// written.
fn there_and_back(ensemble: &mut Ensemble, what: &str, away: usize, round: usize) -> Vec<usize> {
    let mut written = Vec::new();
    let mut set = |server: &Server, round: usize| {
        set(server, round);
        written.push(round);
    };
    let others: Vec<usize> = (0..3).filter(|number| *number != away).collect();
    if what == "lagging" {
        ensemble.kill_some(&[away]);
        ensemble.settle_some(&others);
        set(ensemble.server(others[0]), round);
        ensemble.kill_some(&others);
    } else {
        ensemble.kill();
    }
    ensemble.hand_over_to(Kind::Reference);
    let running = match what {
        "away" | "late and away" => others.clone(),
        _ => vec![0, 1, 2],
    };
    ensemble.start_some(&running);
    if !["silent", "lagging"].contains(&what) {
        set(ensemble.server(others[0]), round);
    }
    ensemble.kill_some(&running);
    ensemble.hand_over_to(Kind::subject());
    match what {
        "late" | "late and away" => {
            ensemble.start_some(&others);
            set(ensemble.server(others[1]), 10_000 + round);
            ensemble.begin(away);
            ensemble.settle_some(&[0, 1, 2]);
        }
        _ => ensemble.start_again(),
    }
    written
}

/// A server that is late, one that was away, a turn without writes, also one in which ZooKeeper
/// brought a server what it lacked: in each, what was written last is there, on all of them.
/// `ENSEMBLE_ROUNDS` says how many turns.
#[test]
fn whoever_was_away_or_late_has_what_the_others_have() {
    let mut ensemble = Ensemble::start(Kind::Reference, &CONFIG);
    set(ensemble.server(0), 0);
    ensemble.kill();
    ensemble.hand_over_to(Kind::subject());
    ensemble.start_again();
    let mut written = vec![0, 1];
    set(ensemble.server(1), 1);
    all_have(&ensemble, &written, "the first turn");
    let (mut number, mut generation_of_all) = generation(ensemble.server(0));
    assert_eq!(generation_of_all, 1);
    let turns = TURNS.iter().cycle().take(count("ENSEMBLE_ROUNDS", TURNS.len()));
    for (round, what) in (2..).zip(turns) {
        // Another server each time that a kind comes again.
        let away = (round + (round - 2) / TURNS.len()) % 3;
        println!("turn {round}: {what}, server {away}");
        written.extend(there_and_back(&mut ensemble, what, away, round));
        all_have(&ensemble, &written, &format!("turn {round}, {what}"));
        let now: Vec<(u64, u64)> = ensemble.servers().iter().map(generation).collect();
        assert!(now.iter().all(|its| *its == now[0]), "turn {round}, {what}: {now:?}");
        let (was, now) = ((number, generation_of_all), now[0]);
        match *what {
            "silent" | "lagging" => assert_eq!(now, was, "ZooKeeper wrote nothing"),
            _ => assert!(now.0 != was.0 && now.1 == was.1 + 1, "{what}: {was:?}, {now:?}"),
        }
        (number, generation_of_all) = now;
    }
}

fn replace_data(from: &Path, to: &Path) {
    let is_version_2 = |path: &Path| path.join("version-2").is_dir();
    assert!(is_version_2(from) && is_version_2(to));
    fs::remove_dir_all(to.join("version-2")).expect("removed");
    let mut copy = Command::new("cp");
    let copied = copy.arg("-a").arg(from.join("version-2")).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

/// ZooKeeper acknowledged nothing that a majority has: the others go on, and the one that has more
/// is refused, and keeps it.
#[test]
fn a_server_that_zookeeper_went_on_with_alone_is_refused_and_loses_nothing() {
    let mut ensemble = Ensemble::start(Kind::subject(), &["initLimit=3"]);
    set(ensemble.server(0), 1);
    ensemble.kill();
    let before: Vec<(u64, u64)> = ensemble.servers().iter().map(generation).collect();
    // With a zoo.cfg of its own.
    let data = ensemble.server(0).data_dir();
    let mut alone = Server::on_copy(Kind::Reference, &[], &data);
    fs::remove_file(alone.data_dir().join("myid")).expect("removed");
    alone.restart();
    set(&alone, 2);
    alone.kill();
    replace_data(&alone.data_dir(), &data);
    // It waits for the others, and does not begin with what it has.
    ensemble.begin(0);
    ensemble.start_some(&[1, 2]);
    set(ensemble.server(1), 3);
    let why = ensemble.expect_end(0);
    assert!(why.contains("FK0224") && why.contains("FK0408"), "{why}");
    let after: Vec<(u64, u64)> = ensemble.servers().iter().map(generation).collect();
    assert_eq!(after, before, "the ensemble went on as it was");
    let mut alone = Server::on_copy(Kind::Reference, &[], &data);
    fs::remove_file(alone.data_dir().join("myid")).expect("removed");
    alone.restart();
    let tree = look(&alone);
    assert!(["/round-1", "/round-2"].iter().all(|path| tree.contains_key(*path)), "it is there");
    // And with an empty directory it is one of them again.
    fs::remove_dir_all(data.join("version-2")).expect("removed");
    ensemble.begin(0);
    ensemble.wait_until_serving(0);
    all_have(&ensemble, &[1, 3], "the others went on");
}

/// A process of this server that nobody stopped while ZooKeeper had the others' directories cannot
/// know: it says what it needs.
#[test]
fn a_member_that_was_left_running_says_that_it_has_to_be_restarted() {
    let mut ensemble = Ensemble::start(Kind::subject(), &["initLimit=3"]);
    set(ensemble.server(0), 1);
    all_have(&ensemble, &[1], "it began here");
    ensemble.kill_some(&[0, 1]);
    ensemble.hand_over_some_to(&[0, 1], Kind::Reference);
    ensemble.start_some(&[0, 1]);
    set(ensemble.server(0), 2);
    ensemble.kill_some(&[0, 1]);
    ensemble.hand_over_some_to(&[0, 1], Kind::subject());
    ensemble.start_some(&[0, 1]);
    set(ensemble.server(1), 3);
    let says =
        || ensemble.server(2).log().contains("was using the data of the others needs a restart");
    let deadline = Instant::now() + Duration::from_secs(20);
    while !says() {
        assert!(Instant::now() < deadline, "{}", ensemble.server(2).log());
        thread::sleep(Duration::from_millis(50));
    }
    ensemble.kill_some(&[2]);
    ensemble.begin(2);
    ensemble.settle_some(&[0, 1, 2]);
    all_have(&ensemble, &[1, 2, 3], "it is one of them");
}
