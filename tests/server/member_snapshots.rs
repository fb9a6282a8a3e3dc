//! When members take their snapshots, and what goes then.

use std::ffi::OsString;
use std::{fs, io};

use jute::CreateMode;

use crate::client::{create, set, until};
use crate::ensemble::{Patient, SNAPSHOTS_SOON, TIMEOUT_MS, leader, start_with};
use crate::process::Server;

/// When a server began its snapshots and when they were done, as its log says.
fn snapshots(server: &Server) -> Vec<(String, String)> {
    let log = server.log();
    let times = |what: &str| -> Vec<String> {
        let lines = log.lines().filter(|line| line.contains(what));
        lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    };
    times(": taking a snapshot").into_iter().zip(times(": took a snapshot")).collect()
}

#[test]
fn one_server_takes_a_snapshot_at_a_time_and_the_leader_last() {
    // By bytes, so that all of them are due at the same moment.
    let servers = start_with(3, "snapSizeLimitInKb=8192\n");
    let first = leader(&servers);
    let mut client = Patient::connect(&servers[first], TIMEOUT_MS);
    for at in 0..20 {
        client.ok(&create(&format!("/n{at}"), vec![7; 500 << 10], CreateMode::Persistent));
    }
    until("each has taken one", || servers.iter().all(|its| !snapshots(its).is_empty()));
    let mut taken: Vec<(String, String, usize)> = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        taken.extend(snapshots(server).into_iter().map(|(began, ended)| (began, ended, at)));
    }
    taken.sort();
    // On a busy machine another may have been elected meanwhile.
    let is_last = taken[2].2 == first || leader(&servers) != first;
    assert!(taken.len() == 3 && is_last, "{first} leads: {taken:?}");
    assert!(taken.windows(2).all(|two| two[0].1 <= two[1].0), "at the same time: {taken:?}");
}

/// As its operator has it purge again: nobody writes, so no snapshot comes.
#[test]
fn a_member_purges_when_it_starts() {
    const NEVER: &str = "autopurge.purgeInterval=0";
    let mut servers = start_with(3, &format!("snapCount=20\n{NEVER}"));
    let mut client = Patient::connect(&servers[0], TIMEOUT_MS);
    client.ok(&create("/x", Vec::new(), CreateMode::Persistent));
    let count = |server: &Server| {
        let entries = fs::read_dir(server.data().join("version-2")).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let is_one = |name: &OsString| name.to_string_lossy().starts_with("snapshot.");
        entries.map(name).filter(is_one).count()
    };
    until("each has more snapshots than are kept", || {
        client.all(&(0..20).map(|_| set("/x", vec![1])).collect::<Vec<_>>());
        servers.iter().all(|its| count(its) > 4)
    });
    for server in &mut servers {
        server.signal("TERM");
        server.wait();
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        fs::write(server.config(), config.replace(NEVER, "")).expect("zoo.cfg");
    }
    servers.iter_mut().for_each(Server::run);
    until("its old snapshots go", || servers.iter().all(|its| count(its) == 3));
}

/// Apache ZooKeeper's servers fill their disks where nobody sets up a purge.
#[test]
fn each_member_purges_when_it_has_taken_a_snapshot() {
    let servers = start_with(3, SNAPSHOTS_SOON);
    let mut client = Patient::connect(&servers[0], TIMEOUT_MS);
    client.ok(&create("/x", Vec::new(), CreateMode::Persistent));
    // It is there from the beginning, and three are kept.
    let has_first = |server: &Server| server.data().join("version-2/snapshot.0").exists();
    assert!(servers.iter().any(has_first), "there was none");
    until("the first snapshots go", || {
        client.all(&(0..20).map(|_| set("/x", vec![1])).collect::<Vec<_>>());
        !servers.iter().any(has_first)
    });
}
