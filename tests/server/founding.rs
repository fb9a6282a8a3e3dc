//! How an ensemble begins: who is waited for, and what ends that.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use jute::CreateMode;

use crate::client::{create, until};
use crate::ensemble::{Patient, alone, mark, mode, prepare, start, stop, wipe};
use crate::process::{Server, free_port};

const TIMEOUT_MS: i32 = 4000;
/// `initLimit` in these tests, a tick being 200 ms.
const LIMIT: &str = "initLimit=2\n";
const THREE_LIMITS: Duration = Duration::from_millis(3 * 2 * 200);

fn all_serve(servers: &[Server]) {
    until("all serve", || servers.iter().all(|server| mode(server) != "none"));
}

fn all_have(servers: &[Server], path: &str) {
    for server in servers {
        assert!(Patient::connect(server, TIMEOUT_MS).exists(path), "{}", server.log());
    }
}

fn write(server: &Server, path: &str) {
    Patient::connect(server, TIMEOUT_MS).ok(&create(path, vec![], CreateMode::Persistent));
}

/// The directory belongs to an ensemble.
fn belongs(server: &Server) -> bool {
    server.data().join("version-2/raft.state").exists()
}

fn marker(server: &Server) -> PathBuf {
    server.data().join("initialize")
}

/// What `/health/ready` says.
pub(crate) fn readiness(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("connects");
    let head = "GET /health/ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn an_ensemble_that_grows_waits_for_the_server_with_the_data() {
    let mut servers = prepare(3, LIMIT);
    let admin: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let config = fs::read_to_string(servers[1].config()).expect("zoo.cfg");
    let lines = format!(
        "{config}\nadmin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}\n",
        admin.port()
    );
    fs::write(servers[1].config(), lines).expect("zoo.cfg");
    alone(&mut servers[0], |server| write(server, "/kept"));
    servers[1].run();
    servers[2].run();
    until("they say for whom they wait, and how that ends", || {
        servers[1..].iter().all(|server| {
            let log = server.log();
            log.contains("server 1 does not answer") && log.contains("/initialize")
        })
    });
    assert!(!belongs(&servers[1]) && !belongs(&servers[2]), "{}", servers[2].log());
    let ready = readiness(admin);
    assert!(ready.contains("503") && ready.contains("server 1 does not answer"), "{ready}");
    servers[0].run();
    all_serve(&servers);
    all_have(&servers, "/kept");
    assert!(readiness(admin).contains("200 OK"));
}

#[test]
fn two_lost_volumes_wait_for_the_third() {
    let mut servers = start(3);
    write(&servers[0], "/kept");
    servers.iter_mut().for_each(stop);
    for server in &servers {
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        fs::write(server.config(), format!("{config}\n{LIMIT}")).expect("zoo.cfg");
    }
    wipe(&servers[0]);
    wipe(&servers[1]);
    servers[0].run();
    servers[1].run();
    thread::sleep(THREE_LIMITS);
    servers[2].run();
    until("it is said what the third is, and what ends the wait", || {
        servers[..2].iter().all(|server| {
            let log = server.log();
            log.contains("server 3 belongs to an ensemble") && log.contains("data leave")
        })
    });
    assert!(!belongs(&servers[0]) && !belongs(&servers[1]), "{}", servers[1].log());
    // Their votes are lost, so an operator has to say that it is to go on.
    stop(&mut servers[2]);
    let mut leave = Command::new(env!("CARGO_BIN_EXE_rookeeper"));
    leave.args(["data", "leave"]).arg(servers[2].data());
    assert!(leave.output().expect("it runs").status.success());
    servers[2].run();
    all_serve(&servers);
    all_have(&servers, "/kept");
}

#[test]
fn a_majority_with_the_marker_begins_anew_and_the_marker_is_used_up() {
    let mut servers = prepare(3, LIMIT);
    for server in &mut servers[..2] {
        mark(server);
        server.run();
    }
    all_serve(&servers[..2]);
    assert!(!marker(&servers[0]).exists() && !marker(&servers[1]).exists());
    // It finds an ensemble.
    servers[2].run();
    all_serve(&servers);
}

#[test]
fn a_marker_beside_data_begins_nothing() {
    let mut servers = prepare(3, LIMIT);
    alone(&mut servers[0], |server| write(server, "/kept"));
    servers[0].run();
    for server in &mut servers[1..] {
        mark(server);
    }
    servers[1].run();
    thread::sleep(THREE_LIMITS);
    assert!(!belongs(&servers[1]), "{}", servers[1].log());
    servers[2].run();
    all_serve(&servers);
    all_have(&servers, "/kept");
    assert!(servers[1..].iter().all(|server| !marker(server).exists()));
}

/// `db.autocreate=false`: in Apache ZooKeeper such a server does not vote (its zxid is -1) without the marker.
#[test]
fn members_that_may_create_no_database_wait_for_the_marker() {
    let mut servers = prepare(3, &format!("{LIMIT}db.autocreate=false"));
    servers.iter_mut().for_each(Server::run);
    thread::sleep(THREE_LIMITS);
    assert!(servers.iter().all(|server| !belongs(server)), "{}", servers[0].log());
    // It is looked for as they run.
    mark(&servers[0]);
    thread::sleep(THREE_LIMITS);
    assert!(servers.iter().all(|server| !belongs(server)), "{}", servers[0].log());
    mark(&servers[2]);
    all_serve(&servers);
    write(&servers[0], "/a");
    // One that lost its disk finds an ensemble, and needs no marker.
    stop(&mut servers[1]);
    wipe(&servers[1]);
    servers[1].run();
    all_serve(&servers);
    all_have(&servers, "/a");
}
