//! From one server to three, back to one and to three again, each with the directory that it had.

use std::fs;
use std::process::Command;

use jute::CreateMode;

use crate::client::{create, until};
use crate::ensemble::{Patient, alone, mode, prepare, stop};
use crate::ensemble_sessions::all_serve;
use crate::process::Server;

const TIMEOUT_MS: i32 = 4000;
/// `initLimit`, a tick being 200 ms.
const LIMIT: &str = "initLimit=2\n";

fn write(server: &Server, path: &str) {
    Patient::connect(server, TIMEOUT_MS).ok(&create(path, vec![], CreateMode::Persistent));
}

fn all_have(servers: &[Server], paths: &[&str]) {
    for server in servers {
        let mut client = Patient::connect(server, TIMEOUT_MS);
        for path in paths {
            assert!(client.exists(path), "{path}: {}", server.log());
        }
    }
}

/// One server alone, and then three, of which the one with the data is the last to start.
fn three_of_one() -> Vec<Server> {
    let mut servers = prepare(3, LIMIT);
    alone(&mut servers[0], |server| write(server, "/alone"));
    servers[1..].iter_mut().for_each(Server::run);
    until("they say for whom they wait", || {
        servers[1..].iter().all(|server| server.log().contains("server 1 does not answer"))
    });
    servers[0].run();
    all_serve(&servers);
    servers.iter().zip(["/a", "/b", "/c"]).for_each(|(server, path)| write(server, path));
    servers
}

/// What `data leave` says.
fn leave(server: &Server, dry_run: bool) -> String {
    let mut leave = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    leave.args(["data", "leave"]).arg(server.data()).args(dry_run.then_some("--dry-run"));
    let output = leave.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Where a directory ends, as `data leave` says it.
fn end(said: &str) -> i64 {
    let (_, end) = said.split_once("it ends at 0x").expect("an end");
    let digits = end.split(|end: char| !end.is_ascii_hexdigit()).next().expect("digits");
    i64::from_str_radix(digits, 16).expect("a zxid")
}

/// All that a server has of an ensemble is moved aside, as `data leave` says it of the others.
fn move_aside(server: &Server) {
    let data = server.data();
    fs::rename(data.join("version-2"), data.join("version-2.aside")).expect("moved");
}

/// Back to one server, as the documentation says: all are stopped, the one whose directory ends
/// last leaves, and the others keep what they had aside. Which one goes on.
fn back_to_one(servers: &mut [Server], path: &str) -> usize {
    servers.iter_mut().for_each(stop);
    let ends: Vec<i64> = servers.iter().map(|server| end(&leave(server, true))).collect();
    let last = ends.iter().max().expect("three");
    let stays = ends.iter().position(|end| end == last).expect("one of them");
    let said = leave(&servers[stays], false);
    assert!(said.contains("on all others, and only there, move `version-2`"), "{said}");
    for server in servers.iter().filter(|its| its.data() != servers[stays].data()) {
        move_aside(server);
    }
    alone(&mut servers[stays], |server| {
        all_have(std::slice::from_ref(server), &["/alone", "/a", "/b", "/c"]);
        write(server, path);
    });
    stays
}

#[test]
fn one_to_three_to_one_and_to_three_again_loses_nothing_that_was_acknowledged() {
    let mut servers = three_of_one();
    let stays = back_to_one(&mut servers, "/alone-again");
    // The one with the data is the last again.
    let others: Vec<usize> = (0..3).filter(|at| *at != stays).collect();
    let began: Vec<usize> = servers.iter().map(|server| server.log().len()).collect();
    others.iter().for_each(|at| servers[*at].run());
    let waits_for = format!("server {} does not answer", stays + 1);
    until("they say for whom they wait", || {
        others.iter().all(|at| servers[*at].log()[began[*at]..].contains(&waits_for))
    });
    assert!(others.iter().all(|at| mode(&servers[*at]) == "none"));
    servers[stays].run();
    all_serve(&servers);
    servers.iter().zip(["/d", "/e", "/f"]).for_each(|(server, path)| write(server, path));
    let all = ["/alone", "/a", "/b", "/c", "/alone-again", "/d", "/e", "/f"];
    all_have(&servers, &all);
}
