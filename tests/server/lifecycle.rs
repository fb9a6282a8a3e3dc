//! Starting, stopping, and what happens to the process in between.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::sync::atomic::{AtomicI32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use jute::CreateMode;
use jute::protocol::{DeleteRequest, Request};

use crate::client::{Client, create, ends, exists, open, set, until};
use crate::process::{Server, end_of, signal};
use crate::skipped::skipped;
use crate::small_disk::{fill, make_room, private_mounts, run_on_small_disk, wait_for_spares};

const TIMEOUT_MS: i32 = 4000;

/// Ends on SIGTERM with code 0, soon.
fn ends_well(server: &mut Server) {
    let began = Instant::now();
    server.signal("TERM");
    let status = server.wait();
    assert_eq!(status.code(), Some(0), "{}", server.log());
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Has more to say than a pipe takes.
fn make_it_talk(server: &Server) {
    for _ in 0..1500 {
        let mut stream = open(server.address());
        stream.write_all(&[0x7f; 4]).expect("sent");
        ends(&mut stream);
    }
}

#[test]
fn a_standard_error_that_nobody_reads_delays_nothing() {
    let mut server = Server::prepare("");
    let mut command = server.command();
    let (unread, stderr) = std::io::pipe().expect("a pipe");
    command.stderr(stderr);
    server.run_as(command);
    make_it_talk(&server);
    let mut client = server.connect(TIMEOUT_MS);
    let asked = Instant::now();
    client.ok(&create("/a", vec![], CreateMode::Persistent));
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    ends_well(&mut server);
    drop(unread);
}

#[test]
fn a_closed_standard_error_ends_nothing() {
    let mut server = Server::prepare("");
    server.run_as(server.shell("exec \"$0\" \"$@\" 2>&-"));
    make_it_talk(&server);
    server.connect(TIMEOUT_MS).ok(&create("/a", vec![], CreateMode::Persistent));
    ends_well(&mut server);
    // A pipe whose reader is gone.
    let (reader, stderr) = std::io::pipe().expect("a pipe");
    let mut command = server.command();
    command.stderr(stderr);
    drop(reader);
    server.run_as(command);
    make_it_talk(&server);
    assert!(server.connect(TIMEOUT_MS).exists("/a"));
    ends_well(&mut server);
}

#[test]
fn sigquit_and_sigusr1_tell_and_it_goes_on() {
    let mut server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    server.signal("QUIT");
    until("the state is told", || server.log().contains(": state "));
    server.signal("USR1");
    until("it says why not", || server.log().contains("this is a standalone server"));
    client.ok(&create("/a", vec![], CreateMode::Persistent));
    ends_well(&mut server);
    ends(&mut client.stream);
}

#[test]
fn sigint_ends_it_as_sigterm_does() {
    let mut server = Server::prepare("");
    server.run_as(server.hearing());
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(0));
}

/// Its clients were alive all the time: their pings wait in the sockets.
#[test]
fn a_server_that_stood_still_expires_nobody_who_lives() {
    let server = Server::start("");
    let mut clients: Vec<Client> = (0..10).map(|_| server.connect(1500)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.ok(&create(&format!("/live{n}"), vec![], CreateMode::Ephemeral));
    }
    server.signal("STOP");
    let began = Instant::now();
    let mut pings = 0;
    while began.elapsed() < Duration::from_millis(3500) {
        for client in &mut clients {
            client.send(&[Request::Ping]);
        }
        pings += 1;
        thread::sleep(Duration::from_millis(250));
    }
    server.signal("CONT");
    for client in &mut clients {
        client.receive_all(pings);
    }
    for n in 0..clients.len() {
        assert!(clients[0].exists(&format!("/live{n}")), "{n} expired: {}", server.log());
    }
}

#[test]
fn one_server_a_directory() {
    let server = Server::start("");
    let mut second = server.command();
    let output = second.stderr(Stdio::piped()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(&format!("process {}", server.pid())), "{text}");
    assert!(text.contains("ferrokeeper: [FK0204] the data directory cannot be used\n"), "{text}");
    server.connect(TIMEOUT_MS).ok(&create("/a", vec![], CreateMode::Persistent));
}

#[test]
fn a_port_in_use_is_code_4() {
    let server = Server::prepare("");
    let _taken =
        TcpListener::bind((Ipv4Addr::UNSPECIFIED, server.address().port())).expect("taken");
    let output = server.command().stderr(Stdio::piped()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(4));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(&server.address().port().to_string()), "{text}");
    assert!(text.contains("ferrokeeper: [FK0702] cannot listen on "), "{text}");
}

#[test]
fn a_mapped_address_is_shown_as_what_it_is() {
    let server = Server::start("");
    let _client = server.connect(TIMEOUT_MS);
    let cons = server.word("cons");
    assert_eq!(cons.matches("/127.0.0.1:").count(), 2, "{cons}");
    assert!(!cons.contains("ffff:"), "{cons}");
}

#[test]
fn properties_of_the_command_line_count() {
    let mut server = Server::prepare("");
    let mut command = server.command();
    command.arg("-Dzookeeper.nio.sessionlessCnxnTimeout=300");
    server.run_as(command);
    let took = ends(&mut open(server.address()));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

/// Creates `/n0`, `/n1` and so on, pipelined, until the connection ends. Counts what was
/// acknowledged.
fn create_until_the_end(client: &mut Client, prefix: &str, size: usize, acknowledged: &AtomicI32) {
    let mut next = 0;
    loop {
        let requests: Vec<Request<'_>> = (next..next + 20)
            .map(|n| create(&format!("/{prefix}{n}"), vec![7; size], CreateMode::Persistent))
            .collect();
        next += 20;
        let mut out = bytes::BytesMut::new();
        for request in &requests {
            crate::client::request_frame(&mut out, 1, request);
        }
        if client.stream.write_all(&out).is_err() {
            return;
        }
        for _ in 0..20 {
            let Ok(reply) = client.try_receive() else { return };
            assert_eq!(reply.header.err, 0);
            acknowledged.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Everything acknowledged is there, and what is there beyond it has no gaps.
fn check(server: &Server, prefix: &str, acknowledged: i32) {
    let mut client = server.connect(TIMEOUT_MS);
    let mut there = 0;
    while client.exists(&format!("/{prefix}{there}")) {
        there += 1;
    }
    assert!(there >= acknowledged, "{acknowledged} acknowledged, {there} there");
    for beyond in there..there + 40 {
        assert!(!client.exists(&format!("/{prefix}{beyond}")), "{beyond}, but not {there}");
    }
}

#[test]
fn sigterm_loses_nothing_acknowledged() {
    // The second snapshots all the time.
    for config in ["", "snapCount=200"] {
        let mut server = Server::start(config);
        for round in 0..3 {
            let acknowledged = [const { AtomicI32::new(0) }; 2];
            let prefixes = [format!("a{round}x"), format!("b{round}x")];
            thread::scope(|scope| {
                for (prefix, acknowledged) in prefixes.iter().zip(&acknowledged) {
                    let mut client = server.connect(TIMEOUT_MS);
                    scope.spawn(move || {
                        create_until_the_end(&mut client, prefix, 500, acknowledged);
                    });
                }
                until("there is something to lose", || {
                    acknowledged.iter().all(|count| count.load(Ordering::SeqCst) > 300)
                });
                ends_well(&mut server);
            });
            server.run();
            for (prefix, acknowledged) in prefixes.iter().zip(&acknowledged) {
                check(&server, prefix, acknowledged.load(Ordering::SeqCst));
            }
        }
    }
}

/// A file that may not grow, as on a full disk. The process ends at once; with space again nothing
/// is missing.
#[test]
fn a_log_that_cannot_be_written_ends_the_process() {
    let mut server = Server::prepare("preAllocSize=65536");
    server.run_as(server.shell("trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\""));
    let acknowledged = AtomicI32::new(0);
    let mut client = server.connect(TIMEOUT_MS);
    let other = server.connect(TIMEOUT_MS);
    create_until_the_end(&mut client, "n", 5000, &acknowledged);
    let refused = Instant::now();
    let status = server.wait();
    assert_eq!(status.code(), Some(1), "{}", server.log());
    assert!(refused.elapsed() < Duration::from_secs(3), "{:?}", refused.elapsed());
    let log = server.log();
    assert!(log.contains("ferrokeeper: [FK0301] the server had to stop\n"), "{log}");
    assert!(log.contains("the transaction log cannot be written"), "{log}");
    drop(other);
    let acknowledged = acknowledged.load(Ordering::SeqCst);
    assert!(acknowledged > 20, "{acknowledged}");
    server.run();
    check(&server, "n", acknowledged);
    ends_well(&mut server);
}

#[test]
fn a_snapshot_that_cannot_be_written_ends_nothing() {
    let mut server = Server::start("snapCount=50");
    let mut client = server.connect(TIMEOUT_MS);
    for n in 0..40 {
        client.ok(&create(&format!("/n{n}"), vec![1; 1000], CreateMode::Persistent));
    }
    // Its file's name is taken by a folder, whatever the zxid.
    let folder = server.data().join("version-2");
    for zxid in 0..400 {
        let _ = fs::create_dir(folder.join(format!("snapshot.{zxid:x}")));
    }
    for n in 40..300 {
        client.ok(&create(&format!("/n{n}"), vec![1; 1000], CreateMode::Persistent));
    }
    until("it is counted", || server.figure("snapshot_failed_count") > 0);
    for entry in fs::read_dir(&folder).expect("a folder").flatten() {
        if entry.path().is_dir() {
            fs::remove_dir(entry.path()).expect("removed");
        }
    }
    client.ok(&set("/n0", vec![]));
    ends_well(&mut server);
    server.run();
    check(&server, "n", 300);
}

/// Sessions come back after a restart, with their time ahead, and ephemerals with them.
#[test]
fn sessions_outlive_the_process() {
    let mut server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/mine", vec![], CreateMode::Ephemeral));
    client.ok(&exists("/mine", true));
    ends_well(&mut server);
    server.run();
    let mut again = client.again(server.address());
    assert_eq!(again.session.session_id, client.session.session_id);
    assert!(again.exists("/mine"));
    assert_eq!(server.figure("watch_count"), 0);
}

/// Whenever the signal comes, also before anything listens for it.
#[test]
fn a_start_that_is_interrupted_ends() {
    for delay_ms in [0, 2, 5, 10, 20, 40] {
        let server = Server::prepare("");
        let mut child = server.command().spawn().expect("it starts");
        thread::sleep(Duration::from_millis(delay_ms));
        signal(child.id(), "TERM");
        let status = end_of(&mut child);
        let _ = child.kill();
        assert!(status.is_some(), "{}", server.log());
    }
}

#[test]
fn a_nearly_full_disk_refuses_what_grows_and_heals() {
    let Some(word) = private_mounts() else {
        skipped("this user may not mount a small file system of his own");
        return;
    };
    // Log segments of a megabyte: two of them are the reserve.
    let mut server = Server::prepare("");
    run_on_small_disk(&mut server, word, 10, &[]);
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/a", vec![7; 1000], CreateMode::Persistent));
    client.ok(&create("/b", vec![], CreateMode::Persistent));
    wait_for_spares(&server);

    // One more writer on the disk, who leaves a megabyte and a half: whether the log has a spare by
    // now is chance.
    fill(&server, 3 << 19);
    let mut at = 0;
    let mut grows = |client: &mut Client| {
        at += 1;
        client.call(&create(&format!("/n{at}"), vec![], CreateMode::Persistent)).header.err
    };
    until("what grows is refused", || grows(&mut client) == -7);
    assert_eq!(client.call(&set("/b", b"more".to_vec())).header.err, -7);
    client.ok(&set("/a", vec![7; 1000]));
    assert!(client.exists("/b"));
    client.ok(&Request::Delete(DeleteRequest { path: "/b".into(), version: -1 }));
    let mut late = server.connect(TIMEOUT_MS);
    assert!(late.exists("/a"));
    late.ok(&Request::CloseSession);

    make_room(&server);
    until("it heals", || grows(&mut client) == 0);
    let told = server.log().matches("the disk of the log is nearly full").count();
    assert_eq!(told, 1, "{}", server.log());
    ends_well(&mut server);
}

/// What stood in the log is in the server's memory only.
#[test]
fn a_log_that_is_removed_under_a_running_server_loses_nothing() {
    let mut server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/before", vec![], CreateMode::Persistent));
    let version_2 = server.data().join("version-2");
    let names = || {
        let entries = fs::read_dir(&version_2).expect("it is there");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
    };
    names()
        .filter(|name| name.starts_with("log."))
        .for_each(|name| fs::remove_file(version_2.join(name)).expect("it goes"));
    client.ok(&create("/after", vec![], CreateMode::Persistent));
    assert!(server.log().contains("FK0339"), "{}", server.log());
    until("there is a snapshot of it", || {
        names().any(|name| name.starts_with("snapshot.") && name != "snapshot.0")
    });
    server.signal("KILL");
    server.wait();
    server.run();
    let mut client = server.connect(TIMEOUT_MS);
    assert!(client.exists("/before") && client.exists("/after"));
}
