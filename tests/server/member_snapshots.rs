//! When members take their snapshots, and what goes then.

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
