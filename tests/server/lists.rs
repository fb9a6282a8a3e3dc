//! Servers that leave the list of an ensemble for good, and servers that come into it.

use std::fs;
use std::thread;
use std::time::Duration;

use jute::CreateMode;

use crate::client::{create, set, until};
use crate::ensemble::{Patient, leader, mark, mode, seat, start, stop, wipe};
use crate::process::{Server, free_port};

const TIMEOUT_MS: i32 = 4000;

/// Changes the lines of its zoo.cfg, and starts it again.
fn restart_with(server: &mut Server, change: impl FnOnce(&mut Vec<String>)) {
    stop(server);
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    let mut lines: Vec<String> = config.lines().map(str::to_owned).collect();
    change(&mut lines);
    fs::write(server.config(), lines.join("\n")).expect("zoo.cfg");
    server.run();
}

fn serve(servers: &[Server], which: &[usize]) {
    until("one leads, the others follow", || {
        let modes: Vec<String> = which.iter().map(|at| mode(&servers[*at])).collect();
        modes.iter().filter(|mode| *mode == "leader").count() == 1
            && modes.iter().all(|mode| mode != "none")
    });
}

fn changes(servers: &[Server], change: &str) -> usize {
    servers.iter().map(|server| server.log().matches(change).count()).sum()
}

/// Its disk is kept: what it holds is of a member that is no more.
#[test]
fn who_was_taken_out_and_is_listed_again_comes_back_by_itself() {
    let mut servers = start(3);
    let first = leader(&servers);
    let (gone, other) = ((first + 1) % 3, (first + 2) % 3);
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    client.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    until("it has it", || Patient::connect(&servers[gone], TIMEOUT_MS).value("/kept") == b"1");
    stop(&mut servers[gone]);
    let start_of_line = format!("server.{}=", gone + 1);
    let config = fs::read_to_string(servers[gone].config()).expect("zoo.cfg");
    let line = config.lines().find(|its| its.starts_with(&start_of_line)).expect("its line");
    for at in [other, first] {
        let omit = |lines: &mut Vec<String>| lines.retain(|its| *its != line);
        restart_with(&mut servers[at], omit);
        serve(&servers, &[first, other]);
    }
    until("two are all", || {
        [first, other].iter().all(|at| servers[*at].figure("quorum_size") == 2)
    });
    Patient::connect(&servers[first], TIMEOUT_MS).ok(&set("/kept", b"2".to_vec()));
    for at in [other, first] {
        restart_with(&mut servers[at], |lines| lines.push(line.to_owned()));
        serve(&servers, &[first, other]);
    }
    // It is not known there that it was taken out.
    servers[gone].run_to_its_end();
    let log = servers[gone].log();
    assert!(log.contains("FK0405"), "{log}");
    let before = fs::read_dir(servers[gone].data().join("version-2")).expect("lists").count();
    servers[gone].run();
    until("it follows", || mode(&servers[gone]) == "follower");
    let vote = format!("Vote({})", seat(&servers[gone]));
    until("it votes", || changes(&servers, &vote) == 1);
    assert_eq!(Patient::connect(&servers[gone], TIMEOUT_MS).value("/kept"), b"2");
    let folders = fs::read_dir(servers[gone].data()).expect("lists");
    let folders = folders.map(|entry| entry.expect("an entry").path());
    let aside: Vec<_> = folders.filter(|path| path.to_string_lossy().contains("before-")).collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    let kept = fs::read_dir(&aside[0]).expect("lists").count();
    assert!(kept > 1 && kept < before, "{kept} of {before}");
    // Two of the three are enough, and it is one of them.
    servers[first].signal("KILL");
    servers[first].wait();
    Patient::connect(&servers[gone], TIMEOUT_MS).ok(&set("/kept", b"3".to_vec()));
}

/// It is put back by mistake, while the other one may come again at any time.
#[test]
fn the_directory_of_before_gets_no_seat_beside_another_one() {
    let mut servers = start(3);
    let first = leader(&servers);
    let wiped = (first + 1) % 3;
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    client.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    stop(&mut servers[wiped]);
    let (folder, before) =
        (servers[wiped].data().join("version-2"), servers[wiped].data().join("kept"));
    fs::rename(&folder, &before).expect("moved");
    servers[wiped].run();
    until("it follows", || mode(&servers[wiped]) == "follower");
    let id = seat(&servers[wiped]);
    until("it votes", || changes(&servers, &format!("Vote({id})")) == 1);
    stop(&mut servers[wiped]);
    let good = servers[wiped].data().join("good");
    fs::rename(&folder, &good).expect("moved");
    fs::rename(&before, &folder).expect("moved");
    servers[wiped].run_to_its_end();
    let log = servers[wiped].log();
    assert!(log.contains("FK0405"), "{log}");
    servers[wiped].run();
    let reason = format!(
        "this server may already be member {id:#x}, with another data directory: start it with \
         that directory. If there is none"
    );
    until("it is told", || servers[wiped].log().contains(&reason));
    assert_eq!(mode(&servers[wiped]), "none");
    stop(&mut servers[wiped]);
    assert_eq!(changes(&servers, &format!("Seat({})", wiped + 1)), 1);
    fs::remove_dir_all(&folder).expect("removed");
    fs::rename(&good, &folder).expect("moved");
    servers[wiped].run();
    until("it follows", || mode(&servers[wiped]) == "follower");
    assert_eq!(Patient::connect(&servers[wiped], TIMEOUT_MS).value("/kept"), b"1");
}

/// It belongs to nothing, and what it has is older than what was lost: nobody is sent to its
/// directory as to a member's.
#[test]
fn nobody_waits_for_a_server_that_was_taken_out() {
    let mut servers = start(3);
    let first = leader(&servers);
    let (gone, other) = ((first + 1) % 3, (first + 2) % 3);
    stop(&mut servers[gone]);
    let (folder, before) =
        (servers[gone].data().join("version-2"), servers[gone].data().join("kept"));
    fs::rename(&folder, &before).expect("moved");
    servers[gone].run();
    until("it follows", || mode(&servers[gone]) == "follower");
    let id = seat(&servers[gone]);
    until("it votes", || changes(&servers, &format!("Vote({id})")) == 1);
    stop(&mut servers[gone]);
    fs::remove_dir_all(&folder).expect("removed");
    fs::rename(&before, &folder).expect("moved");
    servers[gone].run_to_its_end();
    let log = servers[gone].log();
    assert!(log.contains("FK0405"), "{log}");
    for at in [first, other] {
        stop(&mut servers[at]);
        wipe(&servers[at]);
    }
    servers.iter_mut().for_each(Server::run);
    let reason = format!("server {} was removed from an ensemble", gone + 1);
    until("they say what is lost, and how that ends", || {
        [first, other].iter().all(|at| servers[*at].log().contains("/initialize"))
    });
    for at in [first, other] {
        let log = servers[at].log();
        assert!(
            log.contains(&reason) && !log.contains("no leader of that ensemble admits"),
            "{log}"
        );
        mark(&servers[at]);
    }
    serve(&servers, &[first, other]);
    assert_eq!(mode(&servers[gone]), "none");
}

#[test]
fn who_is_gone_and_listed_no_more_votes_no_more_and_another_comes_in_its_place() {
    let mut servers = start(3);
    let first = leader(&servers);
    let (gone, other) = ((first + 1) % 3, (first + 2) % 3);
    Patient::connect(&servers[first], TIMEOUT_MS).ok(&create(
        "/kept",
        b"1".to_vec(),
        CreateMode::Persistent,
    ));
    servers[gone].signal("KILL");
    servers[gone].wait();
    let line = format!("server.{}=", gone + 1);
    let omit = |lines: &mut Vec<String>| lines.retain(|its| !its.starts_with(&line));
    restart_with(&mut servers[other], omit);
    serve(&servers, &[first, other]);
    // It leads, but one of two is no majority of those who stay, however long it waits.
    servers[first].signal("USR1");
    until("it leads", || mode(&servers[other]) == "leader" && mode(&servers[first]) != "none");
    thread::sleep(Duration::from_secs(5));
    assert_eq!(servers[first].figure("quorum_size"), 3);
    assert_eq!(changes(&servers, "Remove("), 0);
    restart_with(&mut servers[first], omit);
    serve(&servers, &[first, other]);
    until("two are all", || {
        [first, other].iter().all(|at| mode(&servers[*at]) != "none")
            && [first, other].iter().all(|at| servers[*at].figure("quorum_size") == 2)
    });
    assert_eq!(changes(&servers, &format!("Remove({})", 1 << 8 | (gone + 1))), 1);
    Patient::connect(&servers[first], TIMEOUT_MS).ok(&set("/kept", b"2".to_vec()));
    // It comes back by mistake: nobody listens to it.
    servers[gone].run();
    until("it is told", || servers[gone].log().contains("is not in the list of server"));
    assert_eq!(mode(&servers[gone]), "none");
    stop(&mut servers[gone]);

    let line = format!("server.4=127.0.0.1:{}:{}", free_port(), free_port());
    for at in [other, first] {
        restart_with(&mut servers[at], |lines| lines.push(line.clone()));
        serve(&servers, &[first, other]);
    }
    let config = fs::read_to_string(servers[first].config()).expect("zoo.cfg");
    let shared = |line: &&str| line.starts_with("server.") || line.contains("Limit=");
    let config: Vec<&str> = config.lines().filter(shared).collect();
    let mut new = Server::prepare(&config.join("\n"));
    fs::write(new.data().join("myid"), "4").expect("myid");
    new.run();
    servers.push(new);
    until("it follows", || mode(&servers[3]) == "follower");
    until("it votes", || changes(&servers, &format!("Vote({})", seat(&servers[3]))) == 1);
    until("three are all", || servers[3].figure("quorum_size") == 3);
    // Two of these three are enough.
    servers[first].signal("KILL");
    servers[first].wait();
    let mut client = Patient::connect(&servers[3], TIMEOUT_MS);
    client.ok(&set("/kept", b"3".to_vec()));
    assert_eq!(Patient::connect(&servers[other], TIMEOUT_MS).value("/kept"), b"3");

    // The one that was taken out is listed again, and its disk was emptied: it is somebody new.
    servers[first].run();
    let line = format!("server.{}=", gone + 1);
    let listed = fs::read_to_string(servers[gone].config()).expect("zoo.cfg");
    let listed = listed.lines().find(|its| its.starts_with(&line)).expect("its line").to_owned();
    for at in [first, other, 3] {
        serve(&servers, &[first, other, 3]);
        restart_with(&mut servers[at], |lines| lines.push(listed.clone()));
    }
    serve(&servers, &[first, other, 3]);
    let new = fs::read_to_string(servers[3].config()).expect("zoo.cfg");
    let new = new.lines().find(|its| its.starts_with("server.4=")).expect("its line").to_owned();
    let config = fs::read_to_string(servers[gone].config()).expect("zoo.cfg");
    fs::write(servers[gone].config(), config + "\n" + &new + "\n").expect("zoo.cfg");
    wipe(&servers[gone]);
    servers[gone].run();
    until("it follows", || mode(&servers[gone]) == "follower");
    let vote = format!("Vote({})", seat(&servers[gone]));
    until("it votes again", || changes(&servers, &vote) == 1);
}
