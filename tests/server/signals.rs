//! Signals: from the first instant on, those that a parent had ignored, and the second one.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::client::until;
use crate::process::{Server, end_of, full_pipe, signal};
use crate::skipped::skipped;

const HUP: u32 = 1;
const INT: u32 = 2;
const TERM: u32 = 15;

/// Whether a mask of `/proc/PID/status` has a signal.
fn has(pid: u32, mask: &str, signal: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(mask)?.strip_prefix(':'));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

fn ends_with(server: &mut Server, code: i32) {
    assert_eq!(server.wait().code(), Some(code), "{}", server.log());
}

/// `nohup` has the signal ignored, and a shell has Ctrl-C ignored in what it starts in the
/// background.
#[test]
fn what_the_parent_ignores_stays_ignored() {
    let mut server = Server::prepare("");
    server.run_as(server.shell("trap '' HUP INT; exec \"$0\" \"$@\""));
    for ignored in [HUP, INT] {
        assert!(has(server.pid(), "SigIgn", ignored), "signal {ignored} is not ignored any more");
    }
    server.signal("HUP");
    server.signal("INT");
    assert_eq!(server.word("ruok"), "imok");
    server.signal("TERM");
    ends_with(&mut server, 0);
}

/// A JVM unblocks them as well.
#[test]
fn what_the_parent_blocks_is_heard() {
    for name in ["TERM", "INT"] {
        let mut server = Server::prepare("");
        let mut command = Command::new("env");
        command.arg("--block-signal=TERM,INT,HUP,QUIT,USR1").arg("env");
        command.args(server.hearing().get_args());
        server.settle(&mut command);
        server.run_as(command);
        server.signal(name);
        ends_with(&mut server, 0);
    }
}

#[test]
fn a_terminal_that_goes_ends_what_did_not_say_otherwise() {
    let mut server = Server::prepare("");
    server.run_as(server.hearing());
    server.signal("HUP");
    ends_with(&mut server, 0);
}

/// A start that waits for its zoo.cfg: nobody writes into that pipe.
fn slow_start(server: &Server) {
    fs::remove_file(server.config()).expect("a zoo.cfg");
    mknodat(CWD, server.config(), FileType::Fifo, Mode::from(0o600), 0).expect("a pipe");
}

/// Waits until it has its handlers.
fn handled(child: &mut Child, server: &Server) {
    let ended = child.try_wait().expect("our child");
    assert!(ended.is_none(), "{ended:?}: {}", server.log());
    hears(child.id(), server);
}

fn hears(pid: u32, server: &Server) {
    until(&format!("it has its handlers: {}", server.log()), || has(pid, "SigCgt", TERM));
}

#[test]
fn a_start_hears_every_signal() {
    let server = Server::prepare("");
    slow_start(&server);
    let mut child = server.command().spawn().expect("it starts");
    handled(&mut child, &server);
    for harmless in ["QUIT", "USR1", "QUIT"] {
        signal(child.id(), harmless);
    }
    signal(child.id(), "TERM");
    let status = end_of(&mut child);
    let _ = child.kill();
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{}", server.log());
}

/// As in a container: the kernel does nothing by itself to process 1 of a namespace.
#[test]
fn process_1_hears_a_signal_while_it_starts() {
    let Some(word) = ["-pf", "-rpf"].into_iter().find(|word| {
        let mut probe = Command::new("unshare");
        probe.args([word, "true"]).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }) else {
        skipped("this user may not have process ids of his own");
        return;
    };
    let server = Server::prepare("");
    slow_start(&server);
    let script = format!("exec unshare {word} --kill-child \"$0\" \"$@\"");
    let mut outer = server.shell(&script).spawn().expect("it starts");
    let children = format!("/proc/{0}/task/{0}/children", outer.id());
    let mut inner = None;
    until("its process 1 runs", || {
        let text = fs::read_to_string(&children).unwrap_or_default();
        inner = text.split_whitespace().next().and_then(|pid| pid.parse().ok());
        inner.is_some()
    });
    let inner = inner.expect("a process");
    hears(inner, &server);
    signal(inner, "TERM");
    let status = end_of(&mut outer);
    let _ = outer.kill();
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{}", server.log());
}

/// Nothing can be read of a log whose reader has nothing to give.
#[test]
fn a_start_that_reads_its_directory_ends_when_it_is_told_to() {
    let mut server = Server::start("");
    server.signal("TERM");
    ends_with(&mut server, 0);
    let folder = server.data().join("version-2");
    mknodat(CWD, folder.join("log.100"), FileType::Fifo, Mode::from(0o600), 0).expect("a pipe");
    let mut child = server.command().spawn().expect("it starts");
    until("it begins to read", || server.log().matches("ferrokeeper 0").count() == 2);
    handled(&mut child, &server);
    signal(child.id(), "QUIT");
    until("it says where it is", || server.log().contains("this server is starting"));
    signal(child.id(), "TERM");
    let status = end_of(&mut child);
    let _ = child.kill();
    assert_eq!(status.and_then(|status| status.code()), Some(0), "{}", server.log());
    assert!(server.log().contains("ending: the start is abandoned"), "{}", server.log());
    fs::remove_file(folder.join("log.100")).expect("the pipe");
    server.run();
}

/// The first one waits for what has to be written; here for an audit log that nobody reads.
#[test]
fn the_second_signal_ends_it_at_once() {
    for (second, code) in [("TERM", 143), ("INT", 130)] {
        let mut server = Server::prepare("audit.enable=true\naudit.log=stdout");
        let (unread, stdout) = full_pipe();
        let mut command = server.hearing();
        command.stdout(stdout);
        server.run_as(command);
        server.signal("TERM");
        until("it says how to force it", || {
            server.log().contains(
                "a second signal, at least one second after the first, ends the server at once",
            )
        });
        // As supervisors send several at once: none of them forces anything.
        ["HUP", "TERM", "INT"].iter().for_each(|same| server.signal(same));
        thread::sleep(Duration::from_millis(1100));
        server.signal(second);
        ends_with(&mut server, code);
        drop(unread);
    }
}
