//! What is acknowledged was synced before, seen from outside: each sync of the server's process is
//! written down when it has succeeded, and before the server goes on.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::request::{self, op};
use compat_tests::syncs::Syncs;
use compat_tests::{Ensemble, Kind, Server};

const DEADLINE: Duration = Duration::from_secs(20);

fn is_log(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log."))
}

fn logs_synced(syncs: &Syncs, server: &Server) -> usize {
    syncs.below(&server.data_dir()).iter().filter(|path| is_log(path)).count()
}

/// Sends writes one after the other. The first that is acknowledged by servers of which fewer than
/// `least` have synced their log since it was sent.
fn first_unsynced(syncs: &Syncs, to: &Server, servers: &[Server], least: usize) -> Option<usize> {
    let mut client = to.connect(10_000);
    (0..30).find(|number| {
        let before: Vec<usize> = servers.iter().map(|its| logs_synced(syncs, its)).collect();
        let path = format!("/of-{}-{number}", to.address().port());
        let reply = client.call(op::CREATE, &request::create(&path, Some(b"data"), 0));
        assert_eq!(reply.expect("an answer").err, 0);
        let has_synced =
            |(server, before): &(&Server, &usize)| logs_synced(syncs, server) > **before;
        servers.iter().zip(&before).filter(has_synced).count() < least
    })
}

fn names(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let its = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
    };
    entries.map(|entry| entry.path()).filter(its).collect()
}

/// Files below `version-2` whose content was never synced after it was written under this or a
/// temporary name, or whose folder was not synced after that.
fn never_synced(syncs: &Syncs, data_dir: &Path, start: &str) -> Vec<PathBuf> {
    let folder = data_dir.join("version-2");
    let synced = syncs.below(data_dir);
    let is_safe = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let temporary = format!("tmp.{name}");
        let its = |synced: &PathBuf| {
            let synced = synced.file_name().unwrap_or_default();
            synced == name.as_str() || synced == temporary.as_str()
        };
        let content = synced.iter().position(its);
        content.is_some_and(|at| synced[at..].contains(&folder))
    };
    let files = names(&folder, start);
    assert!(!files.is_empty(), "there is no {start}");
    files.into_iter().filter(|path| !is_safe(path)).collect()
}

fn wait_for_snapshot(server: &Server, more_than: usize) {
    let deadline = Instant::now() + DEADLINE;
    while names(&server.data_dir().join("version-2"), "snapshot.").len() <= more_than {
        assert!(Instant::now() < deadline, "no snapshot within {DEADLINE:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_write_is_synced_before_it_is_acknowledged_and_each_snapshot_before_it_counts() {
    let syncs = Syncs::new(false);
    // A purge would sync snapshots that were not.
    let line = syncs.line();
    let config = [line.as_str(), "snapCount=20", "autopurge.purgeInterval=0"];
    let servers = [Server::start(Kind::Ferrokeeper, &config)];
    let before = names(&servers[0].data_dir().join("version-2"), "snapshot.").len();
    assert_eq!(first_unsynced(&syncs, &servers[0], &servers, 1), None);
    wait_for_snapshot(&servers[0], before);
    // It has its name before the folder is synced.
    let [mut server] = servers;
    server.stop();
    for start in ["snapshot.", "log."] {
        assert_eq!(never_synced(&syncs, &server.data_dir(), start), Vec::<PathBuf>::new());
    }
}

#[test]
fn a_majority_has_synced_before_anybody_acknowledges_and_promises_are_synced() {
    let syncs = Syncs::new(false);
    let ensemble = Ensemble::start(Kind::Ferrokeeper, &[&syncs.line()]);
    for server in ensemble.servers() {
        assert_eq!(first_unsynced(&syncs, server, ensemble.servers(), 2), None);
        assert_eq!(never_synced(&syncs, &server.data_dir(), "raft.state"), Vec::<PathBuf>::new());
    }
}

/// What these tests are for: if a server's syncs did nothing, they would fail.
#[test]
fn syncs_that_do_nothing_are_found() {
    let syncs = Syncs::new(true);
    let servers = [Server::start(Kind::Ferrokeeper, &[&syncs.line()])];
    assert_eq!(first_unsynced(&syncs, &servers[0], &servers, 1), Some(0));
    assert!(!never_synced(&syncs, &servers[0].data_dir(), "log.").is_empty());
}
