//! When `/health/ready` calls a member ready: not before it has the role that its list gives it, so
//! that servers can be emptied one after the other.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use jute::CreateMode;

use crate::client::{create, until};
use crate::ensemble::{Patient, mode, prepare, stop, wipe};
use crate::founding::readiness;
use crate::process::{Server, free_port};

const TIMEOUT_MS: i32 = 4000;

/// Three servers that serve, and where their probes are answered.
fn start() -> (Vec<Server>, Vec<SocketAddr>) {
    let mut servers = prepare(3, "");
    let probes: Vec<SocketAddr> = servers.iter().map(probe).collect();
    servers.iter_mut().for_each(Server::run);
    until("all are ready", || probes.iter().all(|probe| is_ready(*probe)));
    (servers, probes)
}

/// Where its probes are answered once it runs.
pub(crate) fn probe(server: &Server) -> SocketAddr {
    let probe: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    let lines = format!(
        "{config}\nadmin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}\n",
        probe.port()
    );
    fs::write(server.config(), lines).expect("zoo.cfg");
    probe
}

pub(crate) fn is_ready(probe: SocketAddr) -> bool {
    readiness(probe).contains("200 OK")
}

/// Its machine is lost, and another takes its place.
fn empty(server: &mut Server) {
    server.signal("KILL");
    server.wait();
    wipe(server);
    server.run();
}

#[test]
fn servers_that_are_emptied_one_after_the_other_lose_nothing() {
    let (mut servers, probes) = start();
    let mut written = Vec::new();
    for at in 0..3 {
        let path = format!("/before{at}");
        Patient::connect(&servers[(at + 1) % 3], TIMEOUT_MS).ok(&create(
            &path,
            vec![],
            CreateMode::Persistent,
        ));
        written.push(path);
        empty(&mut servers[at]);
        until("it is ready", || is_ready(probes[at]));
        assert_ne!(mode(&servers[at]), "observer", "it votes");
    }
    for server in &servers {
        let mut client = Patient::connect(server, TIMEOUT_MS);
        for path in &written {
            assert!(client.exists(path), "{path}");
        }
        until("three vote", || server.figure("quorum_size") == 3);
    }
    // Whichever is missing, the votes of the others are enough.
    for at in 0..3 {
        stop(&mut servers[at]);
        Patient::connect(&servers[(at + 1) % 3], TIMEOUT_MS).ok(&create(
            &format!("/without{at}"),
            vec![],
            CreateMode::Persistent,
        ));
        servers[at].run();
        until("it is back", || is_ready(probes[at]));
    }
}

/// The others give it no vote yet: their lists say that it is an observer.
#[test]
fn who_is_listed_as_a_voter_and_only_follows_is_not_ready() {
    let (mut servers, probes) = start();
    let line = |config: &str| {
        let line = config.lines().find(|line| line.starts_with("server.1="));
        line.expect("its line").to_owned()
    };
    for at in 1..3 {
        let config = fs::read_to_string(servers[at].config()).expect("zoo.cfg");
        let line = line(&config);
        stop(&mut servers[at]);
        fs::write(servers[at].config(), config.replace(&line, &format!("{line}:observer")))
            .expect("zoo.cfg");
        servers[at].run();
        until("it is back", || is_ready(probes[at]));
    }
    empty(&mut servers[0]);
    until("it serves", || mode(&servers[0]) == "observer");
    let said = readiness(probes[0]);
    assert!(
        said.contains("503") && said.contains("follows the leader, but does not vote yet"),
        "{said}"
    );
    // No server waits for its log.
    let line = "clients are served, but this server is not ready until it votes";
    until("its log says so", || servers[0].log().contains(line));
    for server in &mut servers[1..] {
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        stop(server);
        fs::write(server.config(), config.replace(":observer", "")).expect("zoo.cfg");
        server.run();
    }
    until("it is ready", || is_ready(probes[0]));
    assert_ne!(mode(&servers[0]), "observer", "it votes");
}

/// Its own list says that it is one.
#[test]
fn an_observer_is_ready_without_a_vote() {
    let (mut servers, probes) = start();
    for (at, server) in servers.iter_mut().enumerate() {
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        let lines = config.lines().map(|line| match line.starts_with("server.3=") {
            true => format!("{line}:observer\n"),
            false => format!("{line}\n"),
        });
        let config: String = lines.collect();
        stop(server);
        fs::write(server.config(), config).expect("zoo.cfg");
        server.run();
        until("it is back", || is_ready(probes[at]));
    }
    empty(&mut servers[2]);
    until("it is ready", || is_ready(probes[2]));
    assert_eq!(mode(&servers[2]), "observer");
}
