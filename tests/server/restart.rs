//! What a start makes of what was written under other conditions, and which files are purged.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use jute::CreateMode;

use crate::client::{DEADLINE, create, get, request_frame, set, until};
use crate::process::Server;

const TIMEOUT_MS: i32 = 10_000;

/// ZOOKEEPER-3496, ZOOKEEPER-2101: what was written under a large `jute.maxbuffer` could not be
/// read at the next start under a smaller one, and what `jute.maxbuffer` let in by a hair not at
/// all.
#[test]
fn what_a_larger_limit_let_in_is_read_under_a_smaller_one() {
    const LARGE: usize = 3 << 20;
    let mut server = Server::prepare("jute.maxbuffer=4194304");
    server.run();
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/large", vec![7; LARGE], CreateMode::Persistent));
    // As large as the limit lets in: the transaction has more bytes than the request.
    let request = create("/limit", Vec::new(), CreateMode::Persistent);
    let mut frame = BytesMut::new();
    request_frame(&mut frame, 1, &request);
    let most = (4 << 20) - (frame.len() - 4);
    client.ok(&create("/limit", vec![8; most], CreateMode::Persistent));
    server.signal("KILL");
    server.wait();

    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    fs::write(server.config(), config.replace("jute.maxbuffer=4194304", "jute.maxbuffer=1000"))
        .expect("zoo.cfg");
    // From the log, and then from a snapshot.
    for _ in 0..2 {
        server.run();
        let mut client = server.connect(TIMEOUT_MS);
        for (path, len) in [("/large", LARGE), ("/limit", most)] {
            let body = client.ok(&get(path)).body;
            let found = u32::from_be_bytes(body[..4].try_into().expect("a length"));
            assert_eq!(found as usize, len, "{path}");
        }
        server.signal("TERM");
        assert_eq!(server.wait().code(), Some(0));
    }
}

/// Puts files that ZooKeeper wrote into an empty folder, and gives their names and lengths.
fn put_zookeepers(folder: &Path) -> BTreeMap<String, u64> {
    const RECORDED: &str = "src/storage/testdata/zookeeper-3.9.5";
    fs::create_dir(folder).expect("a folder");
    let mut theirs = BTreeMap::new();
    for entry in fs::read_dir(RECORDED).expect("what ZooKeeper wrote") {
        let entry = entry.expect("an entry");
        let bytes = fs::copy(entry.path(), folder.join(entry.file_name())).expect("a copy");
        theirs.insert(entry.file_name().into_string().expect("a name"), bytes);
    }
    theirs
}

fn are_untouched(folder: &Path, theirs: &BTreeMap<String, u64>) {
    for (name, bytes) in theirs {
        assert_eq!(fs::metadata(folder.join(name)).expect(name).len(), *bytes);
    }
}

/// What comes within an hour can fill a disk.
#[test]
fn a_standalone_server_purges_when_it_has_taken_a_snapshot() {
    let mut server = Server::prepare("snapCount=4");
    let folder = server.data().join("version-2");
    let theirs = put_zookeepers(&folder);
    server.run();
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/x", Vec::new(), CreateMode::Persistent));
    // Its first ones: after ZooKeeper's last transaction, 0xc. Three snapshots are kept.
    let (snapshot, log) = (folder.join("snapshot.c"), folder.join("log.d"));
    until("it takes a snapshot", || snapshot.exists() && log.exists());
    until("its first files go", || {
        for _ in 0..20 {
            client.ok(&set("/x", vec![1]));
        }
        !snapshot.exists() && !log.exists()
    });
    are_untouched(&folder, &theirs);
    let all: u64 = theirs.values().sum();
    until("what waits is told", || server.figure("unsealed_bytes").cast_unsigned() == all);
}

/// Apache ZooKeeper's operators complain of full disks first, and most have no purge in their
/// zoo.cfg.
#[test]
fn own_files_are_purged_in_zookeepers_directory_too_and_what_waits_for_the_seal_is_told() {
    const NEVER: &str = "autopurge.purgeInterval=0";
    let mut server = Server::prepare(&format!("snapCount=4\n{NEVER}"));
    let folder = server.data().join("version-2");
    let theirs = put_zookeepers(&folder);
    let names = || -> BTreeSet<String> {
        let entries = fs::read_dir(&folder).expect("a folder");
        let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name");
        entries.map(|entry| name(entry.expect("an entry"))).collect()
    };
    let snapshots = || {
        let names = names().into_iter();
        names.filter(|name| name.starts_with("snapshot.")).collect::<BTreeSet<_>>()
    };
    let until = |what: &str, is_so: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < DEADLINE, "{what}: {:?}", snapshots());
            thread::sleep(Duration::from_millis(10));
        }
    };
    server.run();
    let mut client = server.connect(TIMEOUT_MS);
    let mut written = 0;
    let began = Instant::now();
    while snapshots().len() < theirs.len() + 6 {
        assert!(began.elapsed() < DEADLINE, "{written}: {:?}", snapshots());
        client.ok(&create(&format!("/n{written}"), vec![1], CreateMode::Persistent));
        written += 1;
    }
    server.signal("KILL");
    server.wait();

    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    fs::write(server.config(), config.replace(NEVER, "")).expect("zoo.cfg");
    server.run();
    let of_theirs = theirs.keys().filter(|name| name.starts_with("snapshot.")).count();
    // Three stay, and the one that this start takes after a long log.
    until("its old ones go", &|| snapshots().len() <= of_theirs + 4);
    // The one that the oldest snapshot is in can reach beyond it; those before are not needed.
    until("its old logs go", &|| {
        let zxid = |name: &String| {
            let hex = name.split_once('.').map(|(_, hex)| i64::from_str_radix(hex, 16));
            hex.expect("a suffix").expect("a zxid")
        };
        let names = names();
        let own = |kind: &str| -> Vec<i64> {
            let is_own = |name: &&String| name.starts_with(kind) && !theirs.contains_key(*name);
            names.iter().filter(is_own).map(zxid).collect()
        };
        let oldest = own("snapshot.").into_iter().min().expect("a snapshot");
        own("log.").into_iter().filter(|log| *log <= oldest).count() <= 1
    });
    are_untouched(&folder, &theirs);
    let all: u64 = theirs.values().sum();
    until("it is told", &|| server.figure("unsealed_bytes").cast_unsigned() == all);
    until("it is logged", &|| server.log().contains(&format!("bytes={all}")));
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));

    // Sealed, theirs go as well, and what is left is all that was written.
    let mut seal = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    assert!(
        seal.args(["data", "seal"]).arg(server.data()).output().expect("runs").status.success()
    );
    server.run();
    until("theirs go", &|| theirs.keys().all(|name| !folder.join(name).exists()));
    until("nothing waits", &|| server.figure("unsealed_bytes") == 0);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0));
    server.run();
    let mut client = server.connect(TIMEOUT_MS);
    for number in 0..written {
        client.ok(&get(&format!("/n{number}")));
    }
}
