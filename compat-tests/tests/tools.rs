//! ZooKeeper's command-line tools on a running server and on its files.

use std::path::PathBuf;
use std::process::{Command, Output};

use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, Server, classpath, ferrokeeper, repository};

/// A tool of Apache ZooKeeper 3.9.5.
fn tool(class: &str, arguments: &[&str]) -> Output {
    Command::new("java")
        .args(["-XX:TieredStopAtLevel=1", "-Dlog4j2.level=OFF", "-cp", &classpath(), class])
        .args(arguments)
        .output()
        .expect("java runs")
}

/// What a tool prints that succeeds.
fn printed(class: &str, arguments: &[&str]) -> String {
    let output = tool(class, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{class}: {}\n{text}\n{errors}", output.status);
    text
}

/// The files of a kind, oldest first.
fn files(server: &Server, prefix: &str) -> Vec<String> {
    let mut files: Vec<(i64, PathBuf)> = std::fs::read_dir(server.data_dir().join("version-2"))
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?;
            let zxid = i64::from_str_radix(name.strip_prefix(prefix)?, 16).ok()?;
            Some((zxid, path))
        })
        .collect();
    files.sort();
    files.into_iter().map(|(_, path)| path.display().to_string()).collect()
}

#[test]
fn logs_and_snapshots_are_readable() {
    let mut server = Server::start(Kind::subject(), &["snapCount=20", "autopurge.purgeInterval=0"]);
    let mut client = server.connect(10_000);
    let mut write = |op, body: &[u8]| assert_eq!(client.call(op, body).expect("a reply").err, 0);
    write(op::CREATE, &request::create("/kept", Some(b"12345"), mode::PERSISTENT));
    write(op::CREATE, &request::create("/kept/own", None, mode::EPHEMERAL));
    for _ in 0..60 {
        write(op::SET_DATA, &request::set_data("/kept", b"123456789", -1));
    }
    let parts = [
        (op::CREATE, request::create("/kept/multi", None, mode::PERSISTENT)),
        (op::DELETE, request::path_version("/kept/own", -1)),
    ];
    write(op::MULTI, &request::multi(&parts));
    server.stop();

    let mut sets = 0;
    let mut multis = 0;
    for log in files(&server, "log.") {
        let text = printed("org.apache.zookeeper.server.persistence.TxnLogToolkit", &[&log]);
        assert!(text.contains("EOF reached after ") && !text.contains("CRC ERROR"), "{text}");
        sets += text.matches(" setData /kept,").count();
        multis += text.matches(" multi ").count();
    }
    assert_eq!((sets, multis), (60, 1), "transactions in the logs");

    let snapshots = files(&server, "snapshot.");
    assert!(snapshots.len() > 1, "{snapshots:?}");
    let last = snapshots.last().expect("a snapshot");
    let formatter = "org.apache.zookeeper.server.SnapshotFormatter";
    let text = printed(formatter, &["-d", last]);
    assert!(text.contains("\n/kept\n") && text.contains("Last zxid: 0x"), "{text}");

    let comparer = "org.apache.zookeeper.server.SnapshotComparer";
    let first = snapshots.first().expect("a snapshot");
    let text = printed(comparer, &["-l", first, "-r", last, "-b", "1", "-n", "0"]);
    assert!(text.contains("Node /kept found only in right tree."), "{text}");
    assert!(text.contains("All layers compared."), "{text}");
}

#[test]
fn zkcli_ends_with_what_the_server_said() {
    let server = Server::start(Kind::subject(), &[]);
    for (words, code) in [
        (&["create", "/a", "x"][..], 0),
        (&["create", "/a", "x"][..], 1),
        (&["get", "/a"][..], 0),
        (&["get", "/nothing"][..], 1),
        (&["delete", "/"][..], 1),
    ] {
        let address = server.host_port();
        let arguments = [&["-server", address.as_str()][..], words].concat();
        let output = tool("org.apache.zookeeper.ZooKeeperMain", &arguments);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
    }
}

#[test]
fn zkserver_says_the_mode() {
    let mut server = Server::start(Kind::subject(), &[]);
    let status = |server: &Server| {
        let mut command = Command::new("/usr/share/zookeeper/bin/zkServer.sh");
        command.arg("status").arg(server.config_file()).output().expect("the script runs")
    };
    let output = status(&server);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("\nMode: standalone\n"), "{text}");
    server.stop();
    assert!(!status(&server).status.success(), "it has ended");
}

/// `ferrokeeper explain` knows each code by ZooKeeper's number and name.
#[test]
fn every_error_code_of_zookeeper_is_explained() {
    let program = repository().join("compat-tests/clients/ErrorCodes.java");
    let codes = printed(&program.display().to_string(), &[]);
    assert!(codes.lines().count() > 30, "{codes}");
    for line in codes.lines() {
        let (number, name) = line.split_once(' ').expect("a number and a name");
        for word in [number, name] {
            let output =
                Command::new(ferrokeeper()).args(["explain", word]).output().expect("it runs");
            let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
            let begin = format!("{number} {}, an error code", name.to_lowercase());
            assert!(said.starts_with(&begin), "{word}: {said}");
        }
    }
}
