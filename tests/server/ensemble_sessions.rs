//! Sessions of an ensemble: which servers have clients, and where a session can go on.

use std::io::Write as _;

use jute::CreateMode;

use crate::client::{connect_frame, create, ends, open, until};
use crate::ensemble::{Patient, mode, prepare};
use crate::process::Server;

const TIMEOUT_MS: i32 = 4000;
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// As Apache ZooKeeper 3.9.5: the words below, and no answer to a connect request.
fn has_no_clients(server: &Server) {
    for word in ["srvr", "stat", "mntr", "cons", "dump", "conf", "wchs", "dirs"] {
        assert_eq!(server.word(word), NOT_SERVING, "{word}");
    }
    assert_eq!(server.word("isro"), "null");
    assert_eq!(server.word("ruok"), "imok");
    assert_eq!(server.word("gtmk"), "306");
    let mut stream = open(server.address());
    stream.write_all(&connect_frame(TIMEOUT_MS, 0, &[0; 16])).expect("sent");
    ends(&mut stream);
}

/// Whom all others follow, if they do.
fn followed(servers: &[Server]) -> Option<usize> {
    let modes: Vec<String> = servers.iter().map(mode).collect();
    let others = modes.iter().filter(|mode| *mode == "follower").count();
    let one = modes.iter().position(|mode| mode == "none")?;
    (others == servers.len() - 1).then_some(one)
}

#[test]
fn a_leader_that_does_not_serve_leaves_its_clients_to_the_others() {
    let mut servers = prepare(3, "leaderServes=no");
    servers.iter_mut().for_each(Server::run);
    let mut first = None;
    until("two follow one that says nothing", || {
        first = followed(&servers);
        first.is_some()
    });
    let first = first.expect("a leader");
    has_no_clients(&servers[first]);
    let followers = [(first + 1) % 3, (first + 2) % 3];
    let mut clients = followers.map(|at| Patient::connect(&servers[at], TIMEOUT_MS));
    clients[0].ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));

    // Frozen, it is missed, and one of the two that have clients leads.
    servers[first].signal("STOP");
    let mut second = None;
    until("one of the others leads, and serves no more", || {
        second = followers.iter().position(|at| mode(&servers[*at]) == "none");
        second.is_some() && mode(&servers[followers[1 - second.unwrap_or(0)]]) == "follower"
    });
    let second = second.expect("a leader");
    has_no_clients(&servers[followers[second]]);
    ends(clients[second].stream());
    let mut elsewhere = clients[second].go_to(&servers[followers[1 - second]]);
    assert_eq!(elsewhere.value("/kept"), b"1");

    servers[first].signal("CONT");
    until("it serves again", || mode(&servers[first]) == "follower");
    assert_eq!(elsewhere.go_to(&servers[first]).value("/kept"), b"1");
}
