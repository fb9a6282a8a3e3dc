//! Read-only mode (`readonlymode.enabled`) with the clients that accept it: Java's with
//! `canBeReadOnly` and kazoo's with `read_only`. Of three servers of either kind, two are lost and
//! come back; the clients see the same on both kinds. After ZooKeeper's own `ReadOnlyModeTest`.

use std::thread;
use std::time::{Duration, Instant};

use compat_tests::four_letter_words::ask;
use compat_tests::{Ensemble, Java, Kind, Program, classpath, python, repository};

/// ZooKeeper gives a session to read with only where sessions can be local.
const CONFIG: [&str; 2] = ["readonlymode.enabled=true", "localSessionsEnabled=true"];
const DEADLINE: Duration = Duration::from_secs(60);

/// What a client says of servers of this kind.
fn transcript(kind: Kind, start: &dyn Fn(String) -> Program) -> Vec<String> {
    let mut ensemble = Ensemble::start(kind, &CONFIG);
    let mut client = start(ensemble.hosts());
    let mut said = Vec::new();
    while let Some(line) = client.next_line() {
        match line.as_str() {
            "@lose" => {
                ensemble.kill_some(&[1, 2]);
                let deadline = Instant::now() + DEADLINE;
                while ask(ensemble.server(0).address(), "isro").ok().as_deref() != Some("ro") {
                    assert!(Instant::now() < deadline, "{kind:?} does not become read-only");
                    thread::sleep(Duration::from_millis(20));
                }
                client.say("lost");
            }
            "@return" => {
                ensemble.begin(1);
                ensemble.begin(2);
                ensemble.settle_some(&[0, 1, 2]);
                client.say("there");
            }
            _ => said.push(line),
        }
    }
    let (succeeded, _) = client.finish();
    assert!(succeeded, "{kind:?}: {said:?}");
    said
}

fn both_say_the_same(start: &dyn Fn(String) -> Program) -> Vec<String> {
    let subject = transcript(Kind::subject(), start);
    let reference = transcript(Kind::Reference, start);
    assert_eq!(subject, reference);
    subject
}

#[test]
fn java_reads_and_comes_back_with_its_watches() {
    let java = Java::compile(&["read_only"], classpath());
    let said = both_say_the_same(&|hosts| java.run("ReadOnly", &[hosts]));
    assert_eq!(
        said,
        [
            "state CONNECTEDREADONLY",
            "data 1",
            "new null",
            "children [data, zookeeper]",
            "create NOTREADONLY",
            "ephemeral NOTREADONLY",
            "set NOTREADONLY",
            "delete NOTREADONLY",
            "setACL NOTREADONLY",
            "multi NOTREADONLY",
            "sync NOTREADONLY",
            "still 1",
            "who wants to write: CONNECTING",
            "state CONNECTED",
            "event NodeDataChanged /data",
            "event NodeCreated /new",
            "more events 0",
            "end",
        ]
    );
}

#[test]
fn kazoo_reads_and_writes_again_afterwards() {
    let script = repository().join("compat-tests/clients/read_only/read_only.py");
    let said = both_say_the_same(&|hosts| {
        let words = [python().display().to_string(), script.display().to_string(), hosts];
        Program::start(&words, &[])
    });
    assert_eq!(said.first().map(String::as_str), Some("state CONNECTED_RO"));
    assert!(said.iter().any(|line| line == "create NotReadOnlyCallError"), "{said:?}");
    assert_eq!(said.last().map(String::as_str), Some("end"));
}
