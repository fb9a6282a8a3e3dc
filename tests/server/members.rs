//! What operators and clients see of who belongs to an ensemble: `/zookeeper/config`, and the log.

use std::fs;

use jute::CreateMode;
use jute::protocol::GetDataResponse;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::client::{create, get, until};
use crate::ensemble::{Patient, leader, mode, prepare, stop};
use crate::ensemble_sessions::all_serve;
use crate::process::{Server, free_port};

const TIMEOUT_MS: i32 = 4000;

/// The text of `/zookeeper/config`, with mzxid, version and aversion.
fn shown(server: &Server) -> (String, i64, i32, i32) {
    let mut client = Patient::connect(server, TIMEOUT_MS);
    let reply = client.ok(&get("/zookeeper/config"));
    let (found, _) = jute::decode::<GetDataResponse<'_>>(&reply.body).expect("a znode");
    let data = found.data.unwrap_or_default().into_owned();
    let text = String::from_utf8(data).expect("UTF-8");
    (text, found.stat.mzxid, found.stat.version, found.stat.aversion)
}

/// As ZooKeeper prints the list of a zoo.cfg.
fn list(server: &Server) -> String {
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    let lines = config.lines().filter(|line| line.starts_with("server."));
    let lines = lines.map(|line| match line.ends_with(":observer") {
        true => format!("{line}\n"),
        false => format!("{line}:participant\n"),
    });
    lines.collect::<String>() + "version=0"
}

/// Three servers that serve, of which the last observes.
pub(crate) fn with_an_observer(more: &str) -> Vec<Server> {
    let mut servers = prepare(3, more);
    for server in &servers {
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        let as_observer = |line: &str| match line.starts_with("server.3=") {
            true => format!("{line}:observer\n"),
            false => format!("{line}\n"),
        };
        let config: String = config.lines().map(as_observer).collect();
        fs::write(server.config(), config).expect("zoo.cfg");
    }
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    assert_eq!(mode(&servers[2]), "observer");
    servers
}

/// Of the two that vote each is needed, however many observe.
#[test]
fn an_observer_serves_and_counts_for_no_majority() {
    let mut servers = with_an_observer("");
    let first = leader(&servers);
    until("both have answered", || servers[first].figure("learners") == 2);
    let of_leader = ["quorum_size", "synced_followers", "synced_observers"];
    assert_eq!(of_leader.map(|name| servers[first].figure(name)), [2, 1, 1]);
    let mut client = Patient::connect(&servers[2], TIMEOUT_MS);
    client.ok(&create("/a", vec![1], CreateMode::Persistent));

    let other = 1 - first;
    stop(&mut servers[other]);
    until("nobody serves", || [first, 2].iter().all(|at| mode(&servers[*at]) == "none"));
    servers[other].run();
    all_serve(&servers);
    assert_eq!(mode(&servers[2]), "observer");
    let mut client = Patient::connect(&servers[2], TIMEOUT_MS);
    client.ok(&create("/b", vec![2], CreateMode::Persistent));
    let mut there = Patient::connect(&servers[other], TIMEOUT_MS);
    assert!(there.exists("/a") && there.exists("/b"));
}

#[test]
fn a_leader_shows_which_servers_are_with_it() {
    // The fourth is listed and never started.
    let fourth = format!("server.4=127.0.0.1:{}:{}:observer", free_port(), free_port());
    let mut servers = with_an_observer(&fourth);
    let first = leader(&servers);
    let shows = |servers: &[Server], id: usize, present: u8| {
        servers[first].word("mntr").contains(&format!("zk_{id}_peer_present\t{present}\n"))
    };
    let other = 2 - first;
    until("both are with it", || shows(&servers, other, 1) && shows(&servers, 3, 1));
    assert!(shows(&servers, 4, 0));
    stop(&mut servers[2]);
    until("one is not", || shows(&servers, 3, 0));
    assert!(shows(&servers, other, 1));
    servers[2].run();
    until("it is back", || shows(&servers, 3, 1));
}

#[test]
fn every_member_shows_its_list_and_an_observer_serves() {
    let mut servers = with_an_observer("snapCount=20");
    for server in &servers {
        assert_eq!(shown(server), (list(server), 0, -1, -1));
    }
    let mut client = Patient::connect(&servers[2], TIMEOUT_MS);
    client.ok(&create("/a", vec![1], CreateMode::Persistent));
    assert!(client.exists("/a"));
    // Snapshots have it, and a start after one shows what zoo.cfg says then.
    for number in 0..60 {
        client.ok(&create(&format!("/a/{number}"), vec![], CreateMode::Persistent));
    }
    stop(&mut servers[2]);
    let config = fs::read_to_string(servers[2].config()).expect("zoo.cfg");
    fs::write(servers[2].config(), config.replace("server.3=127.0.0.1", "server.3=localhost"))
        .expect("zoo.cfg");
    servers[2].run();
    until("it serves", || mode(&servers[2]) == "observer");
    assert!(list(&servers[2]).contains("server.3=localhost:"));
    assert_eq!(shown(&servers[2]), (list(&servers[2]), 0, -1, -1));
}

#[test]
fn a_lone_server_shows_none() {
    let server = Server::start("");
    assert_eq!(shown(&server), (String::new(), 0, 0, -1));
}

/// `isDistributed` of ZooKeeper's: its list is in `/zookeeper/config`, by the version of its file.
#[test]
fn a_server_alone_in_its_list_is_an_ensemble_where_standalone_is_off() {
    let mut servers = prepare(1, "");
    let server = &mut servers[0];
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    server.run();
    until("it runs standalone", || mode(server) == "standalone");
    Patient::connect(server, TIMEOUT_MS).ok(&create("/a", vec![1], CreateMode::Persistent));
    stop(server);

    let of_one = format!("{config}\nstandaloneEnabled=false");
    fs::write(server.config(), &of_one).expect("zoo.cfg");
    server.run();
    until("it leads", || mode(server) == "leader");
    assert_eq!(shown(server), (list(server), 0, -1, -1));
    let mut client = Patient::connect(server, TIMEOUT_MS);
    assert_eq!(client.value("/a"), [1]);
    client.ok(&create("/b", vec![2], CreateMode::Persistent));
    let text = list(server).replace("version=0", "version=100000007");
    stop(server);

    let (static_lines, servers_lines): (Vec<&str>, Vec<&str>) =
        of_one.lines().partition(|line| !line.starts_with("server."));
    let dynamic = server.data().join("zoo.cfg.dynamic.100000007");
    fs::write(&dynamic, servers_lines.join("\n")).expect("the list");
    let pointer = format!("dynamicConfigFile={}", dynamic.display());
    let lines = format!("{}\n{pointer}\n", static_lines.join("\n"));
    fs::write(server.config(), lines).expect("zoo.cfg");
    server.run();
    until("it leads", || mode(server) == "leader");
    assert_eq!(shown(server).0, text);
    assert!(server.word("conf").ends_with(&format!("membership: \n{text}")));
    let mut client = Patient::connect(server, TIMEOUT_MS);
    assert!(client.exists("/a") && client.exists("/b"));
}

fn lines_of<'a>(log: &'a str, word: &str) -> Vec<&'a str> {
    log.lines().filter(|line| line.contains(word)).collect()
}

/// INFO is for operators: who leads, with whom, and nothing of the machinery; and a start that goes
/// well has no warning.
#[test]
fn a_healthy_start_and_a_change_of_the_leader_warn_of_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "thirty-two bytes that nobody knows").expect("a secret");
    std::process::Command::new("chmod").arg("600").arg(&secret).status().expect("chmod");
    let mut servers = prepare(3, &format!("quorum.auth.secretFile={}", secret.display()));
    // One after the other: the first ones find nobody.
    servers.iter_mut().for_each(Server::run);
    until("one leads and the others follow", || {
        let modes: Vec<String> = servers.iter().map(mode).collect();
        !modes.contains(&"none".to_owned())
    });
    let first = leader(&servers);
    servers[first].signal("USR1");
    until("another leads", || leader(&servers) != first);
    let away = (leader(&servers) + 1) % 3;
    stop(&mut servers[away]);
    servers[away].run();
    until("it is back", || mode(&servers[away]) == "follower");
    for server in &servers {
        let log = server.log();
        for word in [" WARN ", "ERROR ", "ensemble::raft::consensus", "newRaft"] {
            assert_eq!(lines_of(&log, word), [""; 0], "{log}");
        }
        let told = lines_of(&log, "this server is now the leader").len()
            + lines_of(&log, "this server now follows a leader").len();
        assert!(told >= 2, "{log}");
    }
    let leads = servers.iter().filter(|its| its.log().contains("this server is now the leader"));
    assert!(leads.count() >= 2);
}

/// The log of a member that is read does not come to its end: nobody writes into that pipe.
#[test]
fn a_member_that_reads_its_directory_ends_at_once() {
    let mut servers = prepare(3, "");
    servers.iter_mut().for_each(Server::run);
    until("all serve", || servers.iter().all(|server| mode(server) != "none"));
    let server = &mut servers[2];
    stop(server);
    let before = server.log().matches("serving ZooKeeper clients").count();
    let log = server.data().join("version-2/log.7fffffffffffffff");
    mknodat(CWD, &log, FileType::Fifo, Mode::from(0o600), 0).expect("a pipe");
    server.run();
    assert_eq!(mode(server), "none");
    let log = server.log();
    assert!(log.contains("reading the data directory"), "{log}");
    assert_eq!(log.matches("serving ZooKeeper clients").count(), before, "{log}");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    // The other two are well.
    let mut client = Patient::connect(&servers[0], TIMEOUT_MS);
    client.ok(&create("/a", vec![1], CreateMode::Persistent));
}
