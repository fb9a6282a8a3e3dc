//! A start that is refused says on standard error what to type; that, typed as it is, makes it
//! start.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use ferrokeeper::storage::{
    DataDirectory, DirectoryOptions, Members, Over, RaftState, RaftStateFile, RealDisk,
};
use jute::CreateMode;

use crate::client::create;
use crate::ensemble::{stop, wipe};
use crate::process::{Server, end_of, free_port};

const TIMEOUT_MS: i32 = 10_000;

/// A server that was killed after a snapshot and some transactions.
pub(crate) fn worn() -> Server {
    let mut server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    for number in 0..5 {
        client.ok(&create(&format!("/{number}"), Vec::new(), CreateMode::Persistent));
    }
    server.signal("KILL");
    server.wait();
    server
}

/// What a start says that ends with 3.
pub(crate) fn refusal(server: &Server) -> String {
    let mut child = server.command().stderr(Stdio::piped()).spawn().expect("it runs");
    let ended = end_of(&mut child);
    if ended.is_none() {
        // It serves.
        child.kill().expect("our child");
    }
    let output = child.wait_with_output().expect("our child");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(ended.and_then(|ended| ended.code()), Some(3), "{said}");
    said
}

/// What `data check` says of the server's directories.
fn check(server: &Server) -> Output {
    let binary = env!("CARGO_BIN_EXE_ferrokeeper");
    let mut command = Command::new(binary);
    command.args(["data", "check"]).arg(server.config()).output().expect("it runs")
}

/// Gives what it printed.
pub(crate) fn type_in(command: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_ferrokeeper"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", binary.parent().expect("a folder").display());
    let mut shell = Command::new("sh");
    let ended = shell.args(["-c", command]).env("PATH", path).output().expect("it runs");
    assert!(ended.status.success(), "{command}: {}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

#[test]
fn what_a_refused_start_says_makes_it_start() {
    type Damage = fn(PathBuf);
    let damages: [(&str, Damage, bool); 7] = [
        (
            "session.key",
            |version| fs::write(version.join("session.key"), b"short").expect("written"),
            true,
        ),
        (
            "sessions.before.key",
            |version| {
                fs::write(version.join("sessions.before.key"), b"garbage").expect("written");
            },
            true,
        ),
        (
            "sessions.before.key",
            |version| {
                let another = "0x5\ncrc32 0x00000000\n";
                fs::write(version.join("sessions.before.key"), another).expect("written");
            },
            true,
        ),
        (
            "currentEpoch",
            |version| {
                fs::write(version.join("currentEpoch"), b"garbage").expect("written");
            },
            true,
        ),
        (
            "snapshot.0",
            |version| fs::remove_file(version.join("snapshot.0")).expect("removed"),
            true,
        ),
        (
            "everything",
            |version| {
                for file in ["snapshot.0", "log.1"] {
                    fs::remove_file(version.join(file)).expect("removed");
                }
            },
            false,
        ),
        (
            "log.1",
            |version| {
                let mut log = fs::read(version.join("log.1")).expect("reads");
                log[40] ^= 1;
                fs::write(version.join("log.1"), log).expect("written");
            },
            false,
        ),
    ];
    for (what, damage, keeps) in damages {
        let mut server = worn();
        damage(server.data().join("version-2"));
        let said = refusal(&server);
        let mut words = said.split('`');
        let command = words.nth(1).unwrap_or_else(|| panic!("{what}: no command in {said}"));
        assert!(words.next().is_some_and(|then| then.contains("lost")), "{what}: {said}");
        type_in(command);
        server.run();
        assert_eq!(server.connect(TIMEOUT_MS).exists("/4"), keeps, "{what}: {said}");
    }
}

/// Its disk may not be mounted. In Apache ZooKeeper such a server has zxid -1 without the marker of
/// `zkServer-initialize.sh`.
#[test]
fn a_server_alone_that_may_create_no_database_begins_only_with_the_marker() {
    let mut server = Server::prepare("db.autocreate=false");
    let begins_nothing = |server: &Server| {
        let mut child = server.command().stderr(Stdio::piped()).spawn().expect("it runs");
        let ended = end_of(&mut child).unwrap_or_else(|| {
            child.kill().expect("our child");
            panic!("it serves: {}", server.log())
        });
        let output = child.wait_with_output().expect("our child");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!ended.success() && said.contains("[FK0230]"), "{said}");
        let names = fs::read_dir(server.data().join("version-2")).expect("a folder");
        let names = names.map(|entry| entry.expect("one").file_name());
        names.filter(|name| name.to_string_lossy().starts_with("snapshot.")).count()
    };
    // One that was refused leaves nothing that the next would take for a database.
    for _ in 0..2 {
        assert_eq!(begins_nothing(&server), 0);
    }
    let marker = server.data().join("initialize");
    fs::write(&marker, "").expect("a marker");
    server.run();
    server.connect(TIMEOUT_MS).ok(&create("/kept", vec![], CreateMode::Persistent));
    assert!(!marker.exists(), "it counts once");
    stop(&mut server);
    server.run();
    assert!(server.connect(TIMEOUT_MS).exists("/kept"));
    stop(&mut server);
    wipe(&server);
    begins_nothing(&server);
}

/// A member of an ensemble has what no majority may have.
#[test]
fn the_directory_of_a_member_is_not_served_alone() {
    let mut server = worn();
    let options =
        DirectoryOptions { data_dir: server.data(), data_log_dir: server.data(), create: false };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let members = Members { voters: vec![1, 2, 3], ..Members::default() };
    let state = RaftState { id: 2, term: 1, members, ..RaftState::default() };
    RaftStateFile::create(&directory, &state, None).expect("a member");
    drop(directory);
    let said = refusal(&server);
    assert!(said.contains("member 0x2 of an ensemble of 3 voters"), "{said}");
    let command = said.split('`').nth(1).expect("a command");
    let state = server.data().join("version-2/raft.state");
    let told = type_in(&format!("{command} --dry-run"));
    assert!(told.contains("would be detached from its ensemble: it was member 0x2"), "{told}");
    assert!(told.contains("later transactions of the other members are lost"), "{told}");
    assert!(state.exists());
    let told = type_in(&format!("{command} --json"));
    assert!(told.contains(r#""done":true"#) && told.contains(r#""voters":3"#), "{told}");
    server.run();
    assert!(server.connect(TIMEOUT_MS).exists("/4"));
    assert!(state.with_extension("state.left").exists());
}

/// What the others have refused is no member's any more, and whoever looks at it hears that, too.
#[test]
fn an_older_copy_is_refused_by_a_start_and_a_check() {
    let server = worn();
    let options =
        DirectoryOptions { data_dir: server.data(), data_log_dir: server.data(), create: false };
    let directory = DataDirectory::open(Arc::new(RealDisk), &options).expect("opens");
    let members = Members { voters: vec![0x101, 0x102, 0x103], ..Members::default() };
    let state =
        RaftState { id: 0x102, members, over: Some(Over::OlderCopy), ..RaftState::default() };
    RaftStateFile::create(&directory, &state, None).expect("a member");
    drop(directory);
    fs::write(server.data().join("myid"), "2").expect("myid");
    let list = |id| format!("server.{id}=127.0.0.1:{}:{}\n", free_port(), free_port());
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    let config = config + "initLimit=10\nsyncLimit=5\n" + &[1, 2, 3].map(list).concat();
    fs::write(server.config(), config).expect("zoo.cfg");
    let said = refusal(&server);
    assert!(said.contains("[FK0410]") && said.contains("is an older copy"), "{said}");
    let checked = check(&server);
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(said.contains("A START WOULD BE REFUSED: [FK0410]"), "{said}");
    assert!(!checked.status.success());
}

/// A first start that is broken off anywhere is no reason to refuse the second.
#[test]
fn what_a_first_start_leaves_that_was_broken_off_is_a_beginning() {
    for (removed, keeps_key) in [(&["session.key"][..], false), (&[], true)] {
        let mut server = Server::start("preAllocSize=0");
        server.signal("KILL");
        server.wait();
        let version = server.data().join("version-2");
        for name in removed {
            fs::remove_file(version.join(name)).expect("it is there");
        }
        let before = fs::read(version.join("session.key"));
        server.run();
        let after = fs::read(version.join("session.key")).expect("a key");
        assert_eq!(before.is_ok_and(|key| key == after), keeps_key);
        server.connect(TIMEOUT_MS).ok(&create("/a", Vec::new(), CreateMode::Persistent));
    }
}

/// Of a server that went on for a while without its log, which then came back.
#[test]
fn a_log_of_another_history_than_the_snapshot_is_not_cut() {
    let mut server = worn();
    let version = server.data().join("version-2");
    // It may have gone on in a second segment, when the space for one was there.
    let logs = || {
        let files = fs::read_dir(&version).expect("a folder").map(|file| file.expect("an entry"));
        let is_log = |name: &OsString| name.to_string_lossy().starts_with("log.");
        files.map(|file| file.file_name()).filter(is_log).collect::<Vec<OsString>>()
    };
    let of_one = logs();
    for log in &of_one {
        fs::rename(version.join(log), server.data().join(log)).expect("moved");
    }
    fs::remove_file(version.join("ferrokeeper.logged")).expect("removed");
    server.run();
    server.connect(TIMEOUT_MS).ok(&create("/other", Vec::new(), CreateMode::Persistent));
    server.signal("TERM");
    server.wait();
    for log in logs() {
        fs::remove_file(version.join(log)).expect("removed");
    }
    for log in &of_one {
        fs::rename(server.data().join(log), version.join(log)).expect("moved back");
    }
    let said = refusal(&server);
    assert!(said.contains("FK0217") && !said.contains("data truncate"), "{said}");
    let check = check(&server);
    let told = String::from_utf8_lossy(&check.stdout);
    assert_eq!(check.status.code(), Some(1), "{check:?}");
    assert!(told.contains("snapshot.") && !told.contains("data truncate"), "{told}");
    let command = said.split('`').nth(1).expect("a command");
    assert!(command.contains("snapshot.") && !command.contains("snapshot.0"), "{said}");
    type_in(command);
    server.run();
    let mut client = server.connect(TIMEOUT_MS);
    assert!(client.exists("/4") && !client.exists("/other"));
}

/// ZooKeeper serves what the newest snapshot shows, and gives the zxids after it once more.
#[test]
fn a_folder_of_logs_that_is_not_there_is_not_taken_for_a_log_that_has_not_begun() {
    for snap_count in ["100000", "4"] {
        let mut server = Server::prepare(&format!("snapCount={snap_count}"));
        let log_dir = server.data().with_file_name("logs");
        let mut config = fs::read_to_string(server.config()).expect("zoo.cfg");
        config.push_str(&format!("dataLogDir={}\n", log_dir.display()));
        fs::write(server.config(), config).expect("zoo.cfg");
        // Nobody has been here: nothing is missing.
        server.run();
        server.signal("KILL");
        server.wait();
        fs::remove_dir_all(&log_dir).expect("removed");
        server.run();
        let mut client = server.connect(TIMEOUT_MS);
        for number in 0..9 {
            client.ok(&create(&format!("/{number}"), Vec::new(), CreateMode::Persistent));
        }
        server.signal("KILL");
        server.wait();

        let away = log_dir.with_file_name("logs.away");
        fs::rename(&log_dir, &away).expect("moved");
        // A second attempt finds what the first one made.
        for _ in 0..2 {
            let said = refusal(&server);
            assert!(said.contains("FK0232"), "{said}");
            assert!(said.contains(log_dir.to_str().expect("text")), "{said}");
        }
        let check = check(&server);
        assert_eq!(check.status.code(), Some(1), "{check:?}");
        fs::remove_dir_all(&log_dir).expect("removed");
        fs::rename(&away, &log_dir).expect("moved");
        server.run();
        assert!(server.connect(TIMEOUT_MS).exists("/8"));
        server.signal("KILL");
        server.wait();

        // Without the setting, the logs are looked for beside the snapshots.
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        let config: String = config
            .lines()
            .filter(|line| !line.starts_with("dataLogDir"))
            .fold(String::new(), |all, line| all + line + "\n");
        fs::write(server.config(), config).expect("zoo.cfg");
        let said = refusal(&server);
        assert!(
            said.contains("FK0232") && said.contains(log_dir.to_str().expect("text")),
            "{said}"
        );
        // To give it up for good is to be said.
        let command = said.split('`').nth(1).expect("a command");
        assert!(said.contains("lost: every transaction after"), "{said}");
        type_in(command);
        server.run();
        // What a snapshot shows is a matter of when it was taken.
        assert!(snap_count == "4" || !server.connect(TIMEOUT_MS).exists("/0"));
    }
}

/// A container whose `/data` alone is kept, or a `dataLogDir` in memory: ZooKeeper starts there.
#[test]
fn a_log_that_the_last_snapshot_made_superfluous_is_not_missed() {
    for (signal, force_sync, starts) in
        [("TERM", "yes", true), ("KILL", "yes", false), ("KILL", "no", true)]
    {
        let mut server = Server::prepare(&format!("forceSync={force_sync}"));
        let log_dir = server.data().with_file_name("logs");
        let mut config = fs::read_to_string(server.config()).expect("zoo.cfg");
        config.push_str(&format!("dataLogDir={}\n", log_dir.display()));
        fs::write(server.config(), config).expect("zoo.cfg");
        // The second time the log is one that a start found.
        for path in ["/a", "/b"] {
            server.run();
            let mut client = server.connect(TIMEOUT_MS);
            client.ok(&create(path, Vec::new(), CreateMode::Persistent));
            server.signal("TERM");
            server.wait();
        }
        server.run();
        if signal == "KILL" {
            let mut client = server.connect(TIMEOUT_MS);
            client.ok(&create("/c", Vec::new(), CreateMode::Persistent));
        }
        server.signal(signal);
        server.wait();
        fs::remove_dir_all(&log_dir).expect("removed");
        if !starts {
            assert!(refusal(&server).contains("FK0232"));
            continue;
        }
        server.run();
        let mut client = server.connect(TIMEOUT_MS);
        assert!(client.exists("/a") && client.exists("/b"), "{signal} {force_sync}");
        client.ok(&create("/d", Vec::new(), CreateMode::Persistent));
        server.signal("KILL");
        server.wait();
        fs::remove_dir_all(&log_dir).expect("removed");
        if force_sync == "yes" {
            assert!(refusal(&server).contains("FK0232"));
        }
    }
}
