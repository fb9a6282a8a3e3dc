//! Servers on small file systems of their own, which other writers fill.

use std::fs;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use jute::CreateMode;
use jute::protocol::{DeleteRequest, Request};

use crate::client::{connect_frame, create, frame, open, set, until};
use crate::ensemble::{Patient, leader, mode, prepare};
use crate::founding::readiness;
use crate::process::Server;
use crate::ready::{is_ready, probe};
use crate::skipped::skipped;

const TIMEOUT_MS: i32 = 4000;
/// Log segments are of a megabyte, so that the reserve is two of them; this is between half of that
/// and all.
const SCARCE: u64 = 3 << 19;
/// Between a quarter and half of it.
const LEAST: u64 = 3 << 18;

/// A word of `unshare` with which this user may mount something that nobody else sees.
pub(crate) fn private_mounts() -> Option<&'static str> {
    let dir = tempfile::tempdir().expect("a directory");
    ["-m", "-rm"].into_iter().find(|word| {
        let mut probe = Command::new("unshare");
        probe.args([word, "mount", "-t", "tmpfs", "tmpfs"]).arg(dir.path()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    })
}

/// Starts it on an own file system of so many megabytes, which has these files of its data
/// directory.
pub(crate) fn run_on_small_disk(
    server: &mut Server,
    word: &str,
    megabytes: u32,
    files: &[(&str, String)],
) {
    let data = server.data();
    let data = data.display();
    let echo = |(name, text): &(&str, String)| format!("echo {text} >{data}/{name} && ");
    let files: String = files.iter().map(echo).collect();
    let script = format!(
        r#"exec unshare {word} sh -c 'mount -t tmpfs -o size={megabytes}m tmpfs {data} && {files}exec "$0" "$@"' "$0" "$@""#
    );
    server.run_as(server.shell(&script));
}

/// Its data directory, which only it sees.
fn inside(server: &Server) -> String {
    format!("/proc/{}/root{}", server.pid(), server.data().display())
}

pub(crate) fn wait_for_spares(server: &Server) {
    until("two spares are ready", || {
        let names = fs::read_dir(format!("{}/version-2", inside(server))).expect("it is mounted");
        let is_spare = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("spare.");
        names.filter(|entry| is_spare(&entry.as_ref().expect("an entry").file_name())).count() == 2
    });
}

/// One more writer on the disk, who leaves so many bytes.
pub(crate) fn fill(server: &Server, left: u64) {
    let inside = inside(server);
    let disk = rustix::fs::statvfs(&inside).expect("the disk tells its room");
    let taken = disk.f_bavail * disk.f_frsize - left;
    fs::write(format!("{inside}/other"), vec![1; usize::try_from(taken).expect("a small disk")])
        .expect("there is room for that");
}

/// It is gone with what it wrote.
pub(crate) fn make_room(server: &Server) {
    fs::remove_file(format!("{}/other", inside(server))).expect("it was there");
}

fn private_mounts_or_skipped() -> Option<&'static str> {
    let word = private_mounts();
    if word.is_none() {
        skipped("this user may not mount a small file system of his own");
    }
    word
}

/// Three servers, each on a small disk.
fn start(megabytes: u32) -> Option<Vec<Server>> {
    run(prepare(3, ""), megabytes)
}

fn run(mut servers: Vec<Server>, megabytes: u32) -> Option<Vec<Server>> {
    let word = private_mounts_or_skipped()?;
    for (id, server) in (1..).zip(&mut servers) {
        run_on_small_disk(server, word, megabytes, &[("myid", format!("{id}"))]);
    }
    until("one leads and the others follow", || {
        servers.iter().filter(|its| mode(its) == "leader").count() == 1
            && servers.iter().filter(|its| mode(its) == "follower").count() == 2
    });
    servers.iter().for_each(wait_for_spares);
    Some(servers)
}

/// Creates one znode after another and gives what came of the last.
struct Growth {
    at: u32,
}

impl Growth {
    fn once(&mut self, client: &mut Patient) -> i32 {
        self.at += 1;
        client.try_it(&create(&format!("/n{}", self.at), vec![], CreateMode::Persistent))
    }
}

#[test]
fn a_leader_whose_disk_is_short_hands_over_to_one_that_has_room() {
    let Some(servers) = start(10) else { return };
    let first = leader(&servers);
    let mut there = Patient::connect(&servers[(first + 1) % 3], TIMEOUT_MS);
    there.ok(&create("/a", vec![], CreateMode::Persistent));
    fill(&servers[first], SCARCE);
    until("another one leads", || {
        let modes: Vec<String> = servers.iter().map(mode).collect();
        modes[first] == "follower" && modes.iter().any(|mode| mode == "leader")
    });
    until("its log says so", || servers[first].log().contains("the disk of the log is short"));
    // Whoever is asked, the others have room.
    let mut growth = Growth { at: 0 };
    for server in &servers {
        let mut client = Patient::connect(server, TIMEOUT_MS);
        until("it grows", || growth.once(&mut client) == 0);
        assert_eq!(growth.once(&mut client), 0);
    }
    assert_eq!(mode(&servers[first]), "follower", "and it stays so");
}

#[test]
fn a_follower_whose_disk_is_full_holds_nobody_up_and_comes_back() {
    let Some(servers) = start(80) else { return };
    let first = leader(&servers);
    let full = (first + 1) % 3;
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    client.ok(&create("/a", vec![0; 4000], CreateMode::Persistent));
    fill(&servers[full], 0);
    // More than its segments have room for.
    let mut last = 0_u32;
    until("it shows nobody what is of the past", || {
        for _ in 0..20 {
            last += 1;
            client.ok(&set("/a", [&last.to_be_bytes()[..], &[0; 4000]].concat()));
        }
        mode(&servers[full]) == "none"
    });
    for _ in 0..400 {
        last += 1;
        client.ok(&set("/a", [&last.to_be_bytes()[..], &[0; 4000]].concat()));
    }
    // Nor does another term, which it cannot write down.
    servers[first].signal("STOP");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    servers[first].signal("CONT");
    assert_eq!(mode(&servers[full]), "none");
    make_room(&servers[full]);
    until("it follows again", || mode(&servers[full]) != "none");
    let mut there = Patient::connect(&servers[full], TIMEOUT_MS);
    assert_eq!(&there.value("/a")[..4], last.to_be_bytes());
    until("its log says so", || servers[full].log().contains("the disk of the log is full"));
}

#[test]
fn where_the_disks_of_a_majority_are_short_what_grows_is_refused_until_they_have_room() {
    let Some(servers) = start(10) else { return };
    let first = leader(&servers);
    let followers = [(first + 1) % 3, (first + 2) % 3];
    let mut client = Patient::connect(&servers[followers[0]], TIMEOUT_MS);
    client.ok(&create("/a", vec![7; 1000], CreateMode::Persistent));
    client.ok(&create("/b", vec![], CreateMode::Persistent));
    let mut growth = Growth { at: 0 };
    fill(&servers[followers[0]], SCARCE);
    until("it has seen that", || {
        servers[followers[0]].log().contains("the disk of the log is nearly full")
    });
    assert_eq!(growth.once(&mut client), 0, "two of three have room");
    fill(&servers[followers[1]], SCARCE);
    until("what grows is refused", || growth.once(&mut client) == -7);
    client.ok(&set("/a", vec![7; 1000]));
    client.ok(&Request::Delete(DeleteRequest { path: "/b".into(), version: -1 }));
    let mut late = Patient::connect(&servers[first], TIMEOUT_MS);
    assert!(late.exists("/a") && !late.exists("/b"));
    make_room(&servers[followers[0]]);
    until("it heals", || growth.once(&mut client) == 0);
}

/// Whether a new client gets a session.
fn opens(server: &Server) -> bool {
    let mut stream = open(server.address());
    stream.write_all(&connect_frame(TIMEOUT_MS, 0, &[0; 16])).expect("sent");
    frame(&mut stream).is_some()
}

fn says(probe: SocketAddr, why: &str) -> bool {
    let ready = readiness(probe);
    ready.contains("503") && ready.contains(why)
}

#[test]
fn a_server_alone_is_not_ready_while_its_disk_has_no_room_for_sessions() {
    let Some(word) = private_mounts_or_skipped() else { return };
    let mut server = Server::prepare("");
    let probe = probe(&server);
    run_on_small_disk(&mut server, word, 10, &[]);
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/a", vec![], CreateMode::Persistent));
    wait_for_spares(&server);
    fill(&server, SCARCE);
    until("what grows is refused", || {
        client.call(&create("/b", vec![], CreateMode::Persistent)).header.err == -7
    });
    assert!(opens(&server) && is_ready(probe), "{}", readiness(probe));
    make_room(&server);
    fill(&server, LEAST);
    // Nobody asks it for anything meanwhile.
    until("it says so", || says(probe, "the disk of the log is all but full"));
    assert!(!opens(&server));
    // Who has a session goes on with it, and can make room.
    let mut client = client.again(server.address());
    client.ok(&Request::Delete(DeleteRequest { path: "/a".into(), version: -1 }));
    make_room(&server);
    until("it is ready", || is_ready(probe));
    assert!(opens(&server));
}

#[test]
fn no_member_is_ready_while_the_disks_of_a_majority_have_no_room_for_sessions() {
    let servers = prepare(3, "");
    let probes: Vec<SocketAddr> = servers.iter().map(probe).collect();
    let Some(servers) = run(servers, 10) else { return };
    let first = leader(&servers);
    let followers = [(first + 1) % 3, (first + 2) % 3];
    until("all are ready", || probes.iter().all(|probe| is_ready(*probe)));
    fill(&servers[followers[0]], LEAST);
    until("it has seen that", || {
        servers[followers[0]].log().contains("the disk of the log is all but full")
    });
    // The others have room, and they are a majority.
    assert!(servers.iter().all(opens));
    assert!(probes.iter().all(|probe| is_ready(*probe)));
    fill(&servers[followers[1]], LEAST);
    until("all say so", || probes.iter().all(|probe| says(*probe, "the disks of a majority")));
    assert!(!servers.iter().any(opens));
    make_room(&servers[followers[0]]);
    until("all are ready", || probes.iter().all(|probe| is_ready(*probe)));
    assert!(servers.iter().all(opens));
}

#[test]
fn a_member_whose_disk_is_full_says_that_it_is_why_it_is_not_ready() {
    let servers = prepare(3, "");
    let probes: Vec<SocketAddr> = servers.iter().map(probe).collect();
    let Some(servers) = run(servers, 10) else { return };
    let full = (leader(&servers) + 1) % 3;
    fill(&servers[full], 0);
    until("it says so", || says(probes[full], "the disk of its log is full"));
    assert!(is_ready(probes[leader(&servers)]));
    make_room(&servers[full]);
    until("it is ready", || is_ready(probes[full]));
}
