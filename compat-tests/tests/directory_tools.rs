//! ferrokeeper's tools on data directories: against what ZooKeeper's own tools print, and on
//! servers that are writing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use compat_tests::load::{Load, Writes};
use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, RawClient, Server, classpath, ferrokeeper, tree};
use serde_json::Value;

/// What a tool of ferrokeeper prints that finds nothing wrong.
fn tool(words: &[&str]) -> String {
    let output = Command::new(ferrokeeper()).args(words).output().expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}\n{text}\n{errors}", output.status);
    text
}

fn json(words: &[&str]) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).expect("JSON");
    tool(words).lines().map(parse).collect()
}

/// What a tool of Apache ZooKeeper 3.9.5 prints.
fn java(class: &str, arguments: &[&str]) -> String {
    let output = Command::new("java")
        .args(["-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-cp", &classpath(), class])
        .args(arguments)
        .output()
        .expect("java runs");
    assert!(output.status.success(), "{class}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The files of a kind, oldest first.
fn files(server: &Server, prefix: &str) -> Vec<PathBuf> {
    let folder = server.data_dir().join("version-2");
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<(i64, PathBuf)> = paths
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_prefix(prefix)?;
            Some((i64::from_str_radix(name, 16).ok()?, path))
        })
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path).collect()
}

fn write(client: &mut RawClient, op: i32, body: &[u8]) -> i64 {
    let reply = client.call(op, body).expect("a reply");
    assert_eq!(reply.err, 0, "op {op}");
    reply.zxid
}

/// A transaction of every kind; the session is left open.
fn a_bit_of_everything(server: &Server) {
    let mut client = server.connect(20_000);
    for (path, mode) in [
        ("/plain", mode::PERSISTENT),
        ("/plain/own", mode::EPHEMERAL),
        ("/plain/s-", mode::SEQUENTIAL),
        ("/snö-雪", mode::PERSISTENT),
        ("/gone", mode::PERSISTENT),
    ] {
        write(&mut client, op::CREATE, &request::create(path, Some(b"data"), mode));
    }
    write(&mut client, op::CREATE2, &request::create("/two", None, mode::PERSISTENT));
    write(&mut client, op::CREATE_CONTAINER, &request::create("/box", None, mode::CONTAINER));
    for version in 0..40 {
        write(&mut client, op::SET_DATA, &request::set_data("/plain", b"again", version));
    }
    write(&mut client, op::DELETE, &request::path_version("/gone", -1));
    let acl = request::set_acl("/two", &[(31, "world", "anyone"), (1, "ip", "10.0.0.0/8")]);
    write(&mut client, op::SET_ACL, &acl);
    // A refused one takes a zxid in Apache ZooKeeper.
    assert_ne!(client.call(op::DELETE, &request::path_version("/none", -1)).expect("one").err, 0);
    let parts = [
        (op::CREATE, request::create("/multi", Some(b"1"), mode::PERSISTENT)),
        (op::SET_DATA, request::set_data("/plain", b"in it", -1)),
    ];
    write(&mut client, op::MULTI, &request::multi(&parts));
    let mut other = server.connect(20_000);
    write(&mut other, op::CREATE, &request::create("/plain/closed", None, mode::EPHEMERAL));
    other.close().expect("the session closes");
}

/// The text after the name of the operation, as ZooKeeper's toolkit would print it, as far as that
/// is told here.
fn begins_like(line: &Value) -> String {
    let path = line["path"].as_str().unwrap_or_default();
    match line["op"].as_str().expect("an op") {
        "createSession" => line["timeout_ms"].to_string(),
        "closeSession" => {
            let paths = line["deletes"].as_array().expect("paths").iter();
            let paths: Vec<String> =
                paths.map(|path| format!("'{}", path.as_str().expect("a path"))).collect();
            format!("v{{{}}}", paths.join(","))
        }
        "delete" | "deleteContainer" => format!("'{path}"),
        "setACL" => format!("'{path},"),
        "setData" | "create" | "create2" | "createContainer" => format!("{path},"),
        "error" => line["code"].to_string(),
        _ => String::new(),
    }
}

#[test]
fn logs_and_snapshots_are_shown_as_zookeepers_tools_show_them() {
    let mut server = Server::start(Kind::Reference, &["snapCount=20"]);
    a_bit_of_everything(&server);
    server.stop();

    let mut shown = Vec::new();
    for log in files(&server, "log.") {
        let toolkit = "org.apache.zookeeper.server.persistence.TxnLogToolkit";
        let printed = java(toolkit, &[text(&log)]);
        // The ACL of a create goes over several lines; each transaction begins with its time.
        let lines: Vec<&str> =
            printed.lines().filter(|line| line.contains(" session 0x")).collect();
        let ours = json(&["log", "show", "--json", text(&log)]);
        assert_eq!(lines.len(), ours.len(), "{}", log.display());
        for (line, ours) in lines.iter().zip(&ours) {
            let word = |name: &str| ours[name].as_str().expect("a string").to_owned();
            let expected = format!(
                " session {} cxid {:#x} zxid {} {} {}",
                word("session"),
                ours["cxid"].as_i64().expect("a number"),
                word("zxid"),
                word("op"),
                begins_like(ours)
            );
            assert!(line.contains(expected.trim_end()), "{line}\n{expected}");
            if word("op") == "setData" {
                assert!(line.ends_with(&format!(",{}", ours["version"])), "{line}\n{ours}");
            }
        }
        shown.extend(ours);
    }
    for op in [
        "createSession",
        "closeSession",
        "create",
        "create2",
        "createContainer",
        "delete",
        "setData",
        "setACL",
        "multi",
        "error",
    ] {
        assert!(shown.iter().any(|line| line["op"] == op), "no {op}");
    }

    let snapshots = files(&server, "snapshot.");
    assert!(snapshots.len() > 1, "{snapshots:?}");
    for snapshot in &snapshots {
        let printed =
            java("org.apache.zookeeper.server.SnapshotFormatter", &["-d", text(snapshot)]);
        let ours = json(&["snapshot", "show", "--json", "--data", text(snapshot)]);
        let ours: BTreeMap<String, Value> = ours
            .into_iter()
            .filter(|line| line["type"] == "znode")
            .map(|line| (line["path"].as_str().expect("a path").to_owned(), line))
            .collect();
        // After the znodes come the zxid and the sessions.
        let parts = printed.split("----\n").filter(|part| part.starts_with('/'));
        let znodes = parts.map(|znode| {
            let mut lines = znode.lines();
            let path = lines.next().expect("a path").to_owned();
            let fields: BTreeMap<&str, &str> =
                lines.filter_map(|line| line.trim().split_once(" =")).collect();
            (path, fields.into_iter().map(|(k, v)| (k.to_owned(), v.trim().to_owned())).collect())
        });
        let znodes: BTreeMap<String, BTreeMap<String, String>> = znodes.collect();
        assert_eq!(znodes.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
        for (path, fields) in znodes {
            let line = &ours[&path];
            let hex = |name: &str| {
                let word = line[name].as_str().expect("a string").trim_start_matches("0x");
                u64::from_str_radix(word, 16).expect("hexadecimal")
            };
            let printed = |name: &str| {
                let word = fields[name].trim_start_matches("0x");
                u64::from_str_radix(word, 16).expect("hexadecimal")
            };
            for (theirs, ours) in [
                ("cZxid", "czxid"),
                ("mZxid", "mzxid"),
                ("pZxid", "pzxid"),
                ("ephemeralOwner", "ephemeral_owner"),
            ] {
                assert_eq!(printed(theirs), hex(ours), "{path}: {theirs}");
            }
            for (theirs, ours) in
                [("cversion", "cversion"), ("dataVersion", "version"), ("aclVersion", "aversion")]
            {
                assert_eq!(fields[theirs], line[ours].to_string(), "{path}: {theirs}");
            }
            assert_eq!(fields["data"], line["data"].as_str().unwrap_or_default(), "{path}");
        }
    }
}

/// The zxid and the digest of the state in a directory.
fn state(dir: &Path) -> (Value, Value) {
    let report = json(&["data", "check", "--json", text(dir)]).remove(0);
    (report["last_zxid"].clone(), report["digest"].clone())
}

/// The digest that the server wrote down with a transaction.
fn digest_of(dir: &Path, zxid: &Value) -> Value {
    let zxid = zxid.as_str().expect("a zxid");
    json(&["log", "show", "--json", "--zxid", zxid, text(dir)]).remove(0)["digest"].clone()
}

/// Puts a backup into the directory of a stopped server.
fn put(backup: &Path, server: &Server, more: &[&str]) {
    let dir = server.data_dir();
    tool(&[&["restore", text(backup), text(&dir), "--replace"], more].concat());
}

#[test]
fn a_backup_of_a_busy_server_has_all_that_was_acknowledged() {
    for kind in [Kind::Ferrokeeper, Kind::Reference] {
        // Its directory must show each state that was backed up.
        let config = ["snapCount=700", "preAllocSize=128", "autopurge.purgeInterval=0"];
        let server = Server::start(kind, &config);
        let load = Load::start(server.address(), 4, 0, Writes::SetsAndCreates);
        thread::sleep(Duration::from_millis(400));
        let before = load.stop();
        let load = Load::start(server.address(), 4, 1, Writes::SetsAndCreates);
        let root = tempfile::tempdir().expect("a folder");
        let mut taken = Vec::new();
        for round in 0..4 {
            let backup = root.path().join(round.to_string());
            tool(&["backup", text(&server.data_dir()), text(&backup)]);
            taken.push((state(&backup), backup));
        }
        load.stop();
        let mut other = Server::start(Kind::Ferrokeeper, &[]);
        other.stop();
        for ((zxid, digest), backup) in taken {
            assert_eq!(digest_of(&server.data_dir(), &zxid), digest, "{kind:?} at {zxid}");
            put(&backup, &other, &[]);
            other.restart();
            let mut client = other.connect(20_000);
            before.check(&mut client);
            client.close().expect("the session closes");
            other.stop();
        }
    }
}

#[test]
fn an_earlier_state_is_that_of_a_server_stopped_there() {
    for (from, to) in [
        (Kind::Ferrokeeper, Kind::Ferrokeeper),
        (Kind::Reference, Kind::Reference),
        (Kind::Ferrokeeper, Kind::Reference),
        (Kind::Reference, Kind::Ferrokeeper),
    ] {
        let mut server = Server::start(from, &["snapCount=30", "autopurge.purgeInterval=0"]);
        let mut client = server.connect(20_000);
        write(&mut client, op::CREATE, &request::create("/a", None, mode::PERSISTENT));
        let mut stops = Vec::new();
        for round in 0..4 {
            let mut zxid = 0;
            for _ in 0..25 {
                let create = request::create("/a/s-", Some(b"x"), mode::SEQUENTIAL);
                zxid = write(&mut client, op::CREATE, &create);
            }
            if round % 2 == 1 {
                let gone = format!("/a/s-{:010}", round * 7);
                zxid = write(&mut client, op::DELETE, &request::path_version(&gone, -1));
            }
            stops.push((zxid, tree::walk(&mut client).expect("the tree")));
        }
        client.close().expect("the session closes");
        server.stop();
        let mut other = Server::start(to, &[]);
        other.stop();
        for (zxid, expected) in stops {
            put(&server.data_dir(), &other, &["--to-zxid", &format!("{zxid:#x}")]);
            other.restart();
            let mut client = other.connect(20_000);
            let now = tree::walk(&mut client).expect("the tree");
            let differences = tree::differences(&expected, &now);
            assert!(differences.is_empty(), "{from:?} to {to:?} at {zxid:#x}: {differences:?}");
            client.close().expect("the session closes");
            other.stop();
        }
    }
}

#[test]
fn a_running_zookeeper_can_be_checked_and_not_be_cut() {
    let server = Server::start(Kind::Reference, &[]);
    a_bit_of_everything(&server);
    let config = server.config_file();
    let report = json(&["migrate", "check", "--json", text(&config)]).remove(0);
    assert_eq!((&report["can_migrate"], &report["sessions"]), (&true.into(), &1.into()));
    assert_eq!((&report["ephemerals"], &report["longest_multi"]), (&1.into(), &2.into()));
    let words = ["data", "truncate", text(&config), "--to-zxid", "0x3"];
    let output = Command::new(ferrokeeper()).args(words).output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && errors.contains("(java)"), "{errors}");
}

#[test]
fn sessions_of_before_the_seal_go_on_and_later_ones_are_keyed() {
    let mut server = Server::start(Kind::Reference, &[]);
    let client = server.connect(20_000);
    let session = client.session.clone().expect("a session");
    server.stop();
    server.hand_over_to(Kind::Ferrokeeper);
    server.restart();
    server.stop();
    tool(&["data", "seal", text(&server.data_dir())]);
    server.restart();
    let again = compat_tests::ConnectRequest::again(&session);
    let (_, attached) = RawClient::open(server.address(), &again).expect("a session");
    assert_eq!((attached.id, &attached.password), (session.id, &session.password));
    // ZooKeeper's password of a session is computed from its id alone: those of now are not.
    let now = server.connect(20_000).session.expect("a session");
    let mut guessed = now.clone();
    guessed.password = zookeepers_password(now.id).into();
    assert_ne!(guessed.password, now.password);
    let (_, refused) =
        RawClient::open(server.address(), &compat_tests::ConnectRequest::again(&guessed))
            .expect("an answer");
    assert!(refused.refused(), "a guessed password opened a session");
}

/// `new Random(id ^ 0xB3415C00L).nextBytes(16)`.
fn zookeepers_password(id: i64) -> Vec<u8> {
    let mask = (1_u64 << 48) - 1;
    let mut state = ((id ^ 0xb341_5c00).cast_unsigned() ^ 0x5_deec_e66d) & mask;
    let mut bytes = Vec::new();
    for _ in 0..4 {
        state = state.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & mask;
        bytes.extend_from_slice(&u32::try_from(state >> 16).expect("32 bits").to_le_bytes());
    }
    bytes
}
