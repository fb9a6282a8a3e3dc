//! The audit log: a line is there before its answer, and a log that takes nothing ends nothing.

use std::fs;
use std::io::{BufRead as _, BufReader, PipeReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use jute::CreateMode;
use jute::protocol::{MultiOp, Request, SetDataRequest};
use parking_lot::Mutex;

use crate::client::{create, exists, set, until};
use crate::founding::readiness;
use crate::process::{Server, free_port, full_pipe};
use crate::ready::is_ready;

/// Sessions outlive what an answer waits for the log, also those of clients that send no pings.
const PATIENT: &str = "maxSessionTimeout=60000\n";
const TIMEOUT_MS: i32 = 20_000;
/// It expires while others still wait for the log.
const SHORT_MS: i32 = 400;

fn to_a_file() -> (Server, PathBuf) {
    let mut server = Server::prepare("audit.enable=true");
    let folder = server.data().join("logs");
    let mut command = server.command();
    command.env("ZOO_LOG_DIR", &folder);
    server.run_as(command);
    (server, folder.join("zookeeper_audit.log"))
}

fn sets(text: &str) -> usize {
    text.matches("operation=setData\t").count()
}

#[test]
fn a_line_is_there_before_its_answer() {
    let (server, path) = to_a_file();
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/a", vec![], CreateMode::Persistent));
    let requests: Vec<Request<'_>> = (0..50).map(|_| set("/a", vec![])).collect();
    for round in 0..10 {
        client.send(&requests);
        for answer in 1..=50 {
            assert_eq!(client.receive().expect("an answer").header.err, 0);
            let there = sets(&fs::read_to_string(&path).expect("an audit log"));
            assert!(there >= round * 50 + answer, "{there} lines, {} answers", round * 50 + answer);
        }
    }
    // Its parts, all of them.
    let parts: Vec<MultiOp<'_>> = (0..3000)
        .map(|_| MultiOp::SetData(SetDataRequest { path: "/a".into(), data: None, version: -1 }))
        .collect();
    client.ok(&Request::Multi(parts));
    assert_eq!(sets(&fs::read_to_string(&path).expect("an audit log")), 3500);
}

/// The end of a session is told by them.
#[test]
fn the_lines_of_its_ephemerals_are_there_before_a_session_is_closed() {
    const ZNODES: usize = 5000;
    let (server, path) = to_a_file();
    for round in 1..=5 {
        let mut client = server.connect(TIMEOUT_MS);
        let znodes = (0..ZNODES)
            .map(|number| create(&format!("/{round}-{number}"), vec![], CreateMode::Ephemeral));
        client.send(&znodes.collect::<Vec<_>>());
        client.receive_all(ZNODES as i32);
        client.ok(&Request::CloseSession);
        let text = fs::read_to_string(&path).expect("an audit log");
        let lines = text.matches("operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\t");
        assert_eq!(lines.count(), round * ZNODES);
    }
}

#[test]
fn none_is_missing_after_a_storm() {
    const EACH: i32 = 5000;
    let (mut server, path) = to_a_file();
    server.connect(TIMEOUT_MS).ok(&create("/a", vec![], CreateMode::Persistent));
    thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.connect(TIMEOUT_MS);
            scope.spawn(move || {
                let requests: Vec<Request<'_>> = (0..EACH).map(|_| set("/a", vec![])).collect();
                client.send(&requests);
                client.receive_all(EACH);
            });
        }
    });
    assert_eq!(sets(&fs::read_to_string(&path).expect("an audit log")), 4 * EACH as usize);
    assert_eq!(server.figure("audit_lines_lost"), 0);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
    let text = fs::read_to_string(&path).expect("an audit log");
    assert!(text.ends_with("operation=serverStop\tresult=invoked\n"), "{text}");
    let time = text.split(' ').take(2).collect::<Vec<_>>().join(" ");
    assert!(time.len() == 24 && time.ends_with('Z'), "{time}: no zone");
}

/// A server whose audit log nobody reads.
fn unread(config: &str) -> (Server, PipeReader) {
    let mut server =
        Server::prepare(&format!("{PATIENT}audit.enable=true\naudit.log=stdout\n{config}"));
    let (reader, stdout) = full_pipe();
    let mut command = server.command();
    command.stdout(stdout);
    server.run_as(command);
    (server, reader)
}

/// Reads lines until the end.
fn read_on(reader: PipeReader) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let here = Arc::clone(&text);
    thread::spawn(move || {
        for line in BufReader::new(reader).lines().map_while(Result::ok) {
            here.lock().push_str(&(line + "\n"));
        }
    });
    text
}

#[test]
fn a_log_that_takes_nothing_holds_up_answers_for_a_while_and_nothing_else() {
    let (mut server, reader) = unread("minSessionTimeout=200");
    let fails = |server: &Server| server.log().contains("[FK0608] audit lines cannot be written");
    // Its creates wait as well; whoever only reads does not.
    let mut silent = server.connect(SHORT_MS);
    silent.send(&[create("/mine", vec![], CreateMode::Ephemeral)]);
    let mut watcher = server.connect(TIMEOUT_MS);
    until("it is there", || watcher.exists("/mine"));
    let mut client = server.connect(TIMEOUT_MS);
    client.send(&[create("/a", vec![], CreateMode::Persistent), exists("/a", false)]);
    until("the silent session expires", || !watcher.exists("/mine"));
    assert!(watcher.exists("/a"));
    assert!(!fails(&server), "an expiry waited for the audit log: {}", server.log());
    for answer in client.receive_all(2) {
        assert_eq!(answer.header.err, 0);
    }
    // Log lines are written by another thread.
    until("the log says why the answers came without their lines", || fails(&server));
    assert_eq!([server.figure("audit_failing"), server.figure("ready")], [1, 1]);
    client.ok(&set("/a", vec![1]));
    assert_eq!(server.figure("audit_lines_lost"), 0);

    let text = read_on(reader);
    until("it heals", || server.log().contains("audit lines are written again"));
    assert_eq!(server.figure("audit_failing"), 0);
    client.ok(&set("/a", vec![2]));
    for (operation, count) in [
        ("serverStart", 1),
        ("create", 2),
        ("setData", 2),
        ("ephemeralZNodeDeletionOnSessionCloseOrExpire", 1),
    ] {
        let line = format!("operation={operation}\t");
        until(operation, || text.lock().matches(&line).count() == count);
    }
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(0), "{}", server.log());
}

/// Reads so slowly that what waits hardly becomes less, until it is told to read on.
fn trickle(mut reader: PipeReader) -> (Sender<()>, Arc<Mutex<String>>) {
    let (read, told) = mpsc::channel();
    let text = Arc::new(Mutex::new(String::new()));
    let here = Arc::clone(&text);
    thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(len) = reader.read(&mut some)
            && len > 0
        {
            here.lock().push_str(&String::from_utf8_lossy(&some[..len]));
            let _ = told.recv_timeout(Duration::from_millis(50));
        }
    });
    (read, text)
}

#[test]
fn changes_wait_while_the_lines_of_others_take_all_the_room() {
    const PARTS: usize = 20_000;
    // An eighth of that is reserved, and a quarter of it is the audit log's: 8 MiB, half of which
    // nobody waits for.
    let (server, reader) = unread("memoryLimitInKb=262144");
    let (read_on, text) = trickle(reader);
    let [mut first, mut second, mut observer] = [(); 3].map(|()| server.connect(TIMEOUT_MS));
    first.ok(&create("/a", vec![], CreateMode::Persistent));
    let part = MultiOp::SetData(SetDataRequest { path: "/a".into(), data: None, version: -1 });
    let multi = || Request::Multi(vec![part.clone(); PARTS]);
    first.send(&[multi(), multi()]);
    until("both are on their way", || server.figure("audit_held_bytes") > 6 << 20);
    second.send(&[exists("/a", false), create("/b", vec![], CreateMode::Persistent)]);
    assert_eq!(second.receive().expect("an answer").header.err, 0);
    for _ in 0..20 {
        assert!(!observer.exists("/b"), "nothing is written yet that makes room");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(server.figure("audit_held_bytes") < 8 << 20);
    drop(read_on);
    assert_eq!(second.receive().expect("an answer").header.err, 0);
    assert!(observer.exists("/b"));
    first.receive_all(2);
    assert_eq!(server.figure("audit_lines_lost"), 0);
    assert!(!server.log().contains("[FK0608]"), "{}", server.log());
    until("all is told", || sets(&text.lock()) == 2 * PARTS);
}

#[test]
fn changes_are_refused_where_the_log_is_to_fail_closed() {
    let probe: SocketAddr = (Ipv4Addr::LOCALHOST, free_port()).into();
    let admin = format!(
        "admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.serverPort={}",
        probe.port()
    );
    let (server, reader) = unread(&format!("audit.failClosed=true\n{admin}"));
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/a", vec![], CreateMode::Persistent));
    until("the log says why the answer came", || server.log().contains("[FK0608]"));
    let ready = readiness(probe);
    assert!(ready.contains("503") && ready.contains("audit.failClosed"), "{ready}");
    assert_eq!([server.figure("audit_failing"), server.figure("ready")], [1, 0]);
    client.send(&[exists("/a", false), set("/a", vec![1]), exists("/a", false)]);
    let codes: Vec<i32> = client.receive_all(3).iter().map(|reply| reply.header.err).collect();
    assert_eq!(codes, [0, -7, 0]);
    let text = read_on(reader);
    // Nobody asks it for anything meanwhile.
    until("it is ready", || is_ready(probe));
    client.ok(&set("/a", vec![2]));
    until("it is told", || sets(&text.lock()) == 1);
}

/// A disk that refuses, as if it were full.
#[test]
fn a_disk_that_refuses_ends_nothing() {
    let server = Server::start(&format!("{PATIENT}audit.enable=true\naudit.log=/dev/full"));
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/a", vec![], CreateMode::Persistent));
    client.ok(&set("/a", vec![]));
    until("the log says why", || {
        let log = server.log();
        log.contains("[FK0608]") && log.contains("No space left")
    });
}

#[test]
fn an_audit_log_that_cannot_be_begun_is_told_with_its_place_and_key() {
    let server = Server::prepare("audit.enable=true");
    let path = server.data().join("a-file/audit.log");
    fs::write(server.data().join("a-file"), "").expect("a file");
    let mut command = server.command();
    command.env("SERVER_JVMFLAGS", format!("-Dzookeeper.audit.log={}", path.display()));
    let output = command.stderr(Stdio::piped()).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    for part in ["FK0703", path.to_str().expect("text"), "audit.log"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
