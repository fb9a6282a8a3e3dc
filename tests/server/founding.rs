//! How an ensemble begins: who is waited for, and what ends that.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use jute::CreateMode;
use rustix::process::{Pid, Signal, kill_process};

use crate::client::{create, until};
use crate::ensemble::{Patient, alone, kill, mark, mode, prepare, start, stop, wipe};
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

fn state(server: &Server) -> PathBuf {
    server.data().join("version-2/raft.state")
}

/// The directory belongs to an ensemble.
fn belongs(server: &Server) -> bool {
    state(server).exists()
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
    let said = leave(&servers[2]);
    assert!(said.contains("no other member of that ensemble may ever serve"), "{said}");
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

/// `db.autocreate=false`: in Apache ZooKeeper such a server does not vote (its zxid is -1) without
/// the marker.
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

fn at_once(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, signal).expect("it is there");
}

/// Each server has data of its own, more than the one before.
fn each_has_more(servers: &mut [Server]) {
    let paths = ["/less", "/kept", "/more"];
    for (count, server) in (1..).zip(servers) {
        alone(server, |server| paths.iter().take(count).for_each(|path| write(server, path)));
    }
}

/// Server 3 has founded an ensemble and has asked nobody yet: the others stand still.
fn founded_alone(more: &str, prepare_data: impl Fn(&mut [Server])) -> Vec<Server> {
    // Whether they are stopped in time is a matter of luck.
    for _ in 0..20 {
        let mut servers = prepare(3, more);
        prepare_data(&mut servers);
        let (others, founder) = servers.split_at_mut(2);
        others.iter_mut().for_each(Server::run);
        let (path, is_over) = (state(&founder[0]), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !path.exists() && !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                others.iter().for_each(|server| at_once(server, Signal::STOP));
            });
            founder[0].run();
            until("it founds", || path.exists());
            is_over.store(true, Ordering::Relaxed);
        });
        if !servers[..2].iter().any(belongs) {
            return servers;
        }
        servers.iter().for_each(|server| at_once(server, Signal::CONT));
    }
    panic!("the others are never stopped in time");
}

#[test]
fn who_is_frozen_while_an_ensemble_is_founded_belongs_to_it_later() {
    let servers = founded_alone("", |_| ());
    thread::sleep(Duration::from_secs(17));
    assert!(!servers[..2].iter().any(belongs));
    servers[..2].iter().for_each(|server| at_once(server, Signal::CONT));
    all_serve(&servers);
    write(&servers[0], "/a");
    all_have(&servers, "/a");
}

/// One that belongs to the ensemble is down, and one that its founder still asks is there.
#[test]
fn a_founder_that_starts_again_goes_on_with_whom_it_still_asks() {
    let mut servers = founded_alone(LIMIT, each_has_more);
    servers[1].signal("KILL");
    servers[1].wait();
    at_once(&servers[0], Signal::CONT);
    until("two of them serve", || [0, 2].iter().all(|at| mode(&servers[*at]) != "none"));
    for at in [0, 2] {
        servers[at].signal("KILL");
        servers[at].wait();
    }
    servers[1..].iter_mut().for_each(Server::run);
    all_serve(&servers[1..]);
}

#[test]
fn a_founder_that_is_killed_before_anybody_answers_asks_again() {
    let mut servers = founded_alone("", |servers| {
        // They have data, and that of the founder is the greatest.
        alone(&mut servers[1], |server| write(server, "/less"));
        alone(&mut servers[2], |server| {
            write(server, "/kept");
            write(server, "/more");
        });
    });
    servers[2].signal("KILL");
    servers[2].wait();
    servers[..2].iter().for_each(|server| at_once(server, Signal::CONT));
    thread::sleep(Duration::from_secs(1));
    servers[2].run();
    all_serve(&servers);
    all_have(&servers, "/kept");
    assert!(servers.iter().all(|server| !Patient::connect(server, TIMEOUT_MS).exists("/less")));
    // Each has its first life, and nobody needed a seat.
    assert!(servers.iter().all(|server| !server.log().contains("member=0x")));
}

/// What is beside `version-2` of data that went aside.
fn aside(server: &Server) -> usize {
    let names = fs::read_dir(server.data()).expect("a folder").map(|entry| entry.expect("one"));
    names.filter(|entry| entry.file_name().to_string_lossy().starts_with("before-")).count()
}

#[test]
fn who_has_accepted_takes_no_part_before_the_founder_knows() {
    let mut servers = founded_alone("", |servers| {
        alone(&mut servers[0], |server| write(server, "/less"));
        alone(&mut servers[1], |server| write(server, "/less"));
        alone(&mut servers[2], |server| {
            write(server, "/kept");
            write(server, "/more");
        });
    });
    let paths = [state(&servers[0]), state(&servers[1])];
    thread::scope(|scope| {
        scope.spawn(|| {
            while !paths.iter().any(|path| path.exists()) {
                std::hint::spin_loop();
            }
            at_once(&servers[2], Signal::KILL);
        });
        servers[..2].iter().for_each(|server| at_once(server, Signal::CONT));
    });
    servers[2].wait();
    let accepted = usize::from(!paths[0].exists());
    stop(&mut servers[accepted]);
    servers[accepted].run();
    until("it says for whom it waits", || {
        let log = servers[accepted].log();
        log.contains("server 3 has founded the ensemble and has not confirmed yet")
    });
    assert_eq!(mode(&servers[accepted]), "none");
    assert_eq!(aside(&servers[accepted]), 0, "its data is where it was");
    // As it says: what it held before is used again.
    stop(&mut servers[accepted]);
    let (folder, kept) =
        (servers[accepted].data().join("version-2"), servers[accepted].data().join("kept"));
    let copied = Command::new("cp").arg("-a").args([&folder, &kept]).status().expect("cp runs");
    assert!(copied.success());
    let mut leave = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    leave.args(["data", "leave"]).arg(servers[accepted].data());
    let output = leave.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    alone(&mut servers[accepted], |server| {
        assert!(Patient::connect(server, TIMEOUT_MS).exists("/less"))
    });
    // But the founder is not lost: it asks once more, or has known it when it ended.
    wipe(&servers[accepted]);
    fs::rename(&kept, &folder).expect("moved back");
    servers[accepted].run();
    servers[2].run();
    all_serve(&servers);
    all_have(&servers, "/kept");
    assert!(servers.iter().all(|server| !server.log().contains("member=0x")));
    assert_eq!((aside(&servers[0]), aside(&servers[1])), (1, 1));
}

/// Two of three with data, and the third absent: whatever was acknowledged is on one of the two.
fn founded_by_two_with_data() -> Vec<Server> {
    let mut servers = prepare(3, LIMIT);
    for (at, paths) in [(0, ["/a", "/b"].as_slice()), (1, &["/a", "/b", "/kept"])] {
        alone(&mut servers[at], |server| paths.iter().for_each(|path| write(server, path)));
    }
    servers[..2].iter_mut().for_each(Server::run);
    all_serve(&servers[..2]);
    all_have(&servers[..2], "/kept");
    servers
}

#[test]
fn what_a_latecomer_had_that_was_never_acknowledged_goes_aside() {
    let mut servers = founded_by_two_with_data();
    alone(&mut servers[2], |server| write(server, "/a"));
    servers[2].run();
    all_serve(&servers);
    all_have(&servers, "/kept");
    assert_eq!(aside(&servers[2]), 1);
    // It was asked, and needed no seat.
    assert!(!servers[2].log().contains("member=0x"), "{}", servers[2].log());
}

#[test]
fn a_latecomer_with_newer_data_keeps_it() {
    let mut servers = founded_by_two_with_data();
    alone(&mut servers[2], |server| {
        for at in 0..9 {
            write(server, &format!("/n{at}"));
        }
    });
    let mut command = servers[2].command();
    let status = command.status().expect("it runs");
    assert_eq!(status.code(), Some(3));
    let log = servers[2].log();
    assert!(log.contains("its data is newer than that of the founder"), "{log}");
    assert!(log.contains("belongs to no ensemble, but the other servers belong to one"), "{log}");
    alone(&mut servers[2], |server| assert!(Patient::connect(server, TIMEOUT_MS).exists("/n8")));
    // The founder does not ask it again: without that data it is somebody new.
    wipe(&servers[2]);
    servers[2].run();
    all_serve(&servers);
    all_have(&servers, "/kept");
    until("its log says so", || servers[2].log().contains("member=0x"));
}

/// The list of the founder has an address at which nobody is, so it asks nobody there. The leader
/// has the right one.
#[test]
fn a_latecomer_whom_the_founder_cannot_reach_gets_a_seat_from_the_leader() {
    let mut servers = founded_by_two_with_data();
    stop(&mut servers[1]);
    let config = fs::read_to_string(servers[1].config()).expect("zoo.cfg");
    let (before, after) = config.split_once("server.3=127.0.0.1:").expect("a line");
    let (_, after) = after.split_once(':').expect("two ports");
    let port = free_port();
    let config = format!("{before}server.3=127.0.0.1:{port}:{after}");
    fs::write(servers[1].config(), config).expect("zoo.cfg");
    servers[1].run();
    servers[2].run();
    until("the latecomer serves", || {
        // Nothing of the founder reaches it, as a leader neither.
        if mode(&servers[1]) == "leader" {
            servers[1].signal("USR1");
        }
        mode(&servers[2]) != "none"
    });
    all_have(&servers[2..], "/kept");
    until("its log says so", || servers[2].log().contains("member=0x"));
}

/// The others went on without the founder, and one of them loses its disk: with the founder it
/// would be a majority.
#[test]
fn a_founder_that_came_to_nothing_gets_nobody_whose_disk_was_emptied() {
    let mut servers = founded_alone(LIMIT, each_has_more);
    servers[2].signal("KILL");
    servers[2].wait();
    servers[..2].iter().for_each(|server| at_once(server, Signal::CONT));
    all_serve(&servers[..2]);
    write(&servers[0], "/acknowledged");
    servers[..2].iter_mut().for_each(stop);
    wipe(&servers[0]);
    // Nobody but the founder can tell it of an ensemble.
    servers[2].run();
    servers[0].run();
    until("it waits for who may know of another", || {
        belongs(&servers[0]) || servers[0].log().contains("server 2 does not answer")
    });
    thread::sleep(THREE_LIMITS);
    assert!(!belongs(&servers[0]), "{}", servers[0].log());
    servers[1].run();
    until("it says what is wrong", || {
        belongs(&servers[0]) || servers[0].log().contains("belong to two ensembles")
    });
    thread::sleep(THREE_LIMITS);
    assert!(!belongs(&servers[0]), "{}", servers[0].log());
    assert!(servers.iter().all(|server| mode(server) == "none"));
    until("it says that the other is not to be touched", || servers[2].log().contains("FK0447"));
    // The founder is the one that is to be emptied.
    stop(&mut servers[2]);
    wipe(&servers[2]);
    servers[2].run();
    all_serve(&servers);
    all_have(&servers, "/acknowledged");
}

/// The only one that knew that it has accepted is gone, and nothing has begun: there is nothing to
/// be shut out from.
#[test]
fn data_beside_an_ensemble_that_has_not_begun_waits() {
    let mut servers = founded_alone(LIMIT, each_has_more);
    kill(&mut servers[2]);
    kill(&mut servers[0]);
    has_accepted(&servers[0], 1, &servers[2], 3);
    wipe(&servers[2]);
    servers[0].run();
    servers[2].run();
    at_once(&servers[1], Signal::CONT);
    until("it says that nothing is lost yet", || {
        let log = servers[1].log();
        let nothing = "server 1 never received the data that the ensemble was founded on";
        log.contains(nothing) || log.contains("belongs to no ensemble, but")
    });
    assert!(!servers[1].log().contains("belongs to no ensemble, but"), "{}", servers[1].log());
    // As both say.
    stop(&mut servers[0]);
    let mut leave = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    leave.args(["data", "leave"]).arg(servers[0].data());
    let output = leave.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    servers[0].run();
    all_serve(&servers);
    all_have(&servers, "/kept");
}

/// What it says.
fn leave(server: &Server) -> String {
    let mut leave = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    leave.args(["data", "leave"]).arg(server.data());
    let output = leave.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Its data is the greatest, and a majority has data: after `initLimit` the others would go on
/// without one that is silent.
#[test]
fn a_server_that_reads_its_directory_is_waited_for() {
    let mut servers = prepare(3, LIMIT);
    each_has_more(&mut servers);
    // Whoever opens it to read waits for somebody who writes.
    let fifo = servers[2].data().join("version-2/snapshot.ffffffff");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("it runs").success());
    servers.iter_mut().for_each(Server::run);
    until("they say for whom they wait", || {
        let says =
            |server: &Server| server.log().contains("server 3 still reads its data directory");
        servers.iter().any(belongs) || servers[..2].iter().all(says)
    });
    assert!(!servers.iter().any(belongs), "{}", servers[1].log());
    assert!(servers.iter().all(|server| !server.log().contains("touch")));
    let writer = fs::File::options().write(true).open(&fifo).expect("somebody reads");
    fs::remove_file(&fifo).expect("removed");
    drop(writer);
    all_serve(&servers);
    all_have(&servers, "/more");
}

/// What it has made for the ensemble is no transaction of anybody's.
#[test]
fn a_founder_that_leaves_before_anybody_answers_has_what_it_had() {
    // All are heard before any is given up.
    let mut servers = founded_alone("initLimit=100\n", each_has_more);
    let first = servers[2].data().join("version-2/snapshot.100000001");
    until("it has made what the ensemble begins with", || first.exists());
    servers.iter_mut().for_each(kill);
    let said = leave(&servers[2]);
    assert!(said.contains("has not begun") && said.contains("held before is used again"), "{said}");
    assert!(!said.contains("empty") && !said.contains("never been acknowledged"), "{said}");
    alone(&mut servers[1], |server| {
        for at in 0..9 {
            write(server, &format!("/n{at}"));
        }
    });
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    all_have(&servers, "/n8");
    assert!(servers.iter().all(|server| !Patient::connect(server, TIMEOUT_MS).exists("/more")));
}

/// Two empty directories of servers that may not begin by themselves can be those of disks that are
/// not mounted. In Apache ZooKeeper nobody leads here either: such servers do not vote.
#[test]
fn data_founds_nothing_beside_disks_that_may_not_be_mounted() {
    let mut servers = prepare(3, &format!("{LIMIT}db.autocreate=false"));
    mark(&servers[0]);
    alone(&mut servers[0], |server| write(server, "/kept"));
    servers.iter_mut().for_each(Server::run);
    until("it says what may be wrong", || {
        servers.iter().any(belongs)
            || servers
                .iter()
                .all(|server| server.log().contains("check that their disks are mounted"))
    });
    assert!(!servers.iter().any(belongs), "{}", servers[0].log());
    for server in &mut servers[1..] {
        let log = server.log();
        assert!(log.contains("set db.autocreate=true") && !log.contains("touch"), "{log}");
        stop(server);
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        let config = config.replace("db.autocreate=false", "db.autocreate=true");
        fs::write(server.config(), config).expect("zoo.cfg");
        server.run();
    }
    all_serve(&servers);
    all_have(&servers, "/kept");
}

/// The first life of a server.
fn first_life(number: u8) -> [u8; 8] {
    (1 << 8 | u64::from(number)).to_be_bytes()
}

/// A raft.state with its slots changed.
fn changed(mut state: Vec<u8>, change: impl Fn(&mut [u8])) -> Vec<u8> {
    for slot in state[..8192].chunks_exact_mut(4096) {
        change(slot);
        let checksum = crc32fast::hash(&slot[..4092]).to_be_bytes();
        slot[4092..].copy_from_slice(&checksum);
    }
    state
}

/// A server has accepted what the other one has founded, which does not know it: its data is still
/// where it was.
fn has_accepted(server: &Server, number: u8, founder: &Server, of_founder: u8) {
    let bytes = changed(fs::read(state(founder)).expect("a member"), |slot| {
        slot[16..24].copy_from_slice(&first_life(number));
        // It knows nothing to be committed, its data goes aside, and it has nothing to make and
        // nobody to ask.
        slot[40..48].fill(0);
        slot[64] = 1;
        slot[4010] = 0;
        slot[4019..4051].fill(0);
        slot[4051..4059].copy_from_slice(&first_life(of_founder));
    });
    fs::write(state(server), bytes).expect("written");
}

/// A server has voted in what the other one has founded, and nothing of it has come: its data is
/// still where it was.
fn has_voted(server: &Server, number: u8, founder: &Server, of_founder: u8) {
    let mut check = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    check.args(["data", "check", "--json"]).arg(server.data());
    let output = check.output().expect("it runs");
    let report = String::from_utf8(output.stdout).expect("text");
    let (_, last) = report.split_once("\"last_zxid\":\"0x").expect("a zxid");
    let (last, _) = last.split_once('"').expect("its end");
    let last = i64::from_str_radix(last, 16).expect("a number");
    let bytes = changed(fs::read(state(founder)).expect("a member"), |slot| {
        slot[16..24].copy_from_slice(&first_life(number));
        let term = u64::from_be_bytes(slot[24..32].try_into().expect("eight bytes"));
        slot[24..32].copy_from_slice(&(term + 1).to_be_bytes());
        slot[32..40].copy_from_slice(&first_life(of_founder));
        slot[40..48].fill(0);
        slot[64] = 1;
        slot[4010] = 0;
        slot[4019..4059].fill(0);
        slot[4059..4067].copy_from_slice(&(last >> 32).to_be_bytes());
        slot[4067..4075].copy_from_slice(&last.to_be_bytes());
    });
    fs::write(state(server), bytes).expect("written");
}

/// Two have voted for the founder, and its disk is lost before anything of it has come to them: all
/// that was acknowledged lies where they have it.
#[test]
fn a_founder_whose_disk_is_lost_once_it_is_elected_takes_nothing_with_it() {
    let mut servers = founded_alone(LIMIT, each_has_more);
    servers.iter_mut().for_each(kill);
    has_voted(&servers[0], 1, &servers[2], 3);
    has_voted(&servers[1], 2, &servers[2], 3);
    wipe(&servers[2]);
    servers.iter_mut().for_each(Server::run);
    let both = "stop servers 1 and 2, run `ferrokeeper data leave` on the dataDir of both";
    until("all say what ends that", || servers.iter().all(|server| server.log().contains(both)));
    let leaves = |server: &mut Server| {
        stop(server);
        let said = leave(server);
        assert!(said.contains("held before is used again"), "{said}");
        assert!(!said.contains("empty"), "{said}");
        server.run();
    };
    // The other one waits, and does not end beside it.
    leaves(&mut servers[0]);
    until("it says that the other one is to leave", || {
        servers[0].log().contains("stop server 2, run `ferrokeeper data leave` on its dataDir")
    });
    leaves(&mut servers[1]);
    all_serve(&servers);
    all_have(&servers, "/kept");
    assert!(servers.iter().all(|server| !server.log().contains("FK0408")));
}

/// A server that has accepted, and whose founder has not said that it knows: with nothing else in
/// its directory.
fn has_only_accepted(server: &Server, founder: u8) {
    let bytes = changed(fs::read(state(server)).expect("a member"), |slot| {
        slot[4051..4059].copy_from_slice(&first_life(founder));
    });
    wipe(server);
    fs::create_dir(server.data().join("version-2")).expect("a folder");
    fs::write(state(server), bytes).expect("written");
}

#[test]
fn who_has_accepted_takes_a_seat_if_its_founder_does_not_come_back() {
    let mut servers = start(5);
    write(&servers[1], "/kept");
    stop(&mut servers[4]);
    stop(&mut servers[0]);
    has_only_accepted(&servers[0], 5);
    servers[0].run();
    all_serve(&servers[..4]);
    all_have(&servers[..1], "/kept");
    until("its log says so", || servers[0].log().contains("member=0x"));
    // It was not lost, and whom it would ask is another member.
    servers[4].run();
    all_serve(&servers);
    write(&servers[4], "/later");
    all_have(&servers, "/later");
}

/// It may be what is needed, and nobody gives it up for a list.
#[test]
fn who_is_refused_says_by_whom_and_why() {
    let mut servers = prepare(3, LIMIT);
    for server in &servers[..2] {
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        let lines: Vec<&str> = config.lines().filter(|its| !its.starts_with("server.3=")).collect();
        fs::write(server.config(), lines.join("\n")).expect("zoo.cfg");
    }
    servers.iter_mut().for_each(Server::run);
    until("it says who refuses", || {
        let log = servers[2].log();
        log.contains("FK0441") && log.contains("server 3 is not in the list of server 1")
    });
    let log = servers[2].log();
    assert!(log.contains("server 1 refuses: server 3 is not in the list of server 1"), "{log}");
    assert!(!log.contains("initialize`") && !log.contains("do not answer"), "{log}");
}

/// Its `myid` is that of a server that runs.
#[test]
fn a_second_process_hears_from_the_leader_that_the_first_one_speaks() {
    let servers = start(3);
    until("another one leads", || {
        let modes: Vec<String> = servers.iter().map(mode).collect();
        if modes[2] == "leader" {
            servers[2].signal("USR1");
        }
        modes[2] == "follower"
    });
    says_who_has_its_place(&servers, 3);
}

/// It does not ask the leader, whose number is its own.
#[test]
fn a_second_process_of_the_leader_hears_from_the_others_that_the_first_one_speaks() {
    let servers = start(3);
    let mut leads = None;
    until("one leads", || {
        leads = servers.iter().position(|server| mode(server) == "leader");
        leads.is_some()
    });
    says_who_has_its_place(&servers, leads.expect("one leads") + 1);
}

/// Another process of this server, of which there is one already.
fn says_who_has_its_place(servers: &[Server], number: usize) {
    let config = fs::read_to_string(servers[0].config()).expect("zoo.cfg");
    let line = format!("server.{number}=");
    let is_another = |its: &&str| its.starts_with("server.") && !its.starts_with(&line);
    let others: Vec<&str> = config.lines().filter(is_another).collect();
    let own = format!("{line}127.0.0.1:{}:{}", free_port(), free_port());
    let mut second = Server::prepare(&format!("{LIMIT}syncLimit=5\n{}\n{own}", others.join("\n")));
    fs::write(second.data().join("myid"), number.to_string()).expect("myid");
    second.run();
    let speaks = format!("another process runs as server {number} from 127.0.0.1");
    until("it says who has its place", || second.log().contains(&speaks));
    assert!(!second.log().contains("data leave"), "{}", second.log());
}

/// What ends that is in its log, and not only in that of one that starts again.
#[test]
fn a_member_that_lost_its_majority_says_what_ends_that() {
    let mut servers = start(3);
    servers[..2].iter_mut().for_each(stop);
    until("it says so", || {
        let log = servers[2].log();
        log.contains("no majority of its ensemble answers: start servers 1 and 2")
            && log.contains("stop server 3, run `ferrokeeper data leave` on its dataDir")
    });
    servers[..2].iter_mut().for_each(Server::run);
    all_serve(&servers);
}
