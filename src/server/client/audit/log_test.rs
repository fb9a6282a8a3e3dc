use std::os::unix::net::UnixDatagram;
use std::sync::mpsc;

use jute::protocol::{CheckVersionRequest, DeleteRequest, MultiOp, Request};

use super::super::{Noted, Operation};
use super::*;
use crate::engine::access::acl::Identities;

/// An audit log of a few facts, whose thread is given by the returned sender what to do with
/// each write.
fn audit(fails_closed: bool) -> Arc<Audit> {
    Arc::new(Audit::new(4096, fails_closed, Arc::default()))
}

fn gone(audit: &Audit, znode: &str) {
    audit.ephemerals_gone(SessionId(1), vec![znode.to_owned()]);
}

/// Writes what there is.
fn write(audit: &Audit) {
    let (entries, newest, lost) = audit.take().expect("a fact");
    audit.took(&mut entries.into_iter().map(|entry| (0, entry)).collect(), 0);
    audit.written(newest, lost);
}

#[test]
fn what_has_no_place_is_lost_and_told_behind_what_had() {
    let audit = audit(false);
    for number in 0..100 {
        gone(&audit, &format!("/{number}"));
    }
    let kept = audit.queue.lock().newest;
    assert!((8..20).contains(&kept), "{kept}");
    assert!(!audit.has_room());
    let (written, lines) = mpsc::channel();
    let its = Arc::clone(&audit);
    let thread = thread::spawn(move || {
        its.write_for_ever(false, |lines| {
            written.send(String::from_utf8_lossy(lines).into_owned()).expect("read");
            Ok(lines.len())
        });
    });
    audit.end();
    thread.join().expect("it ends");
    let text: String = lines.iter().collect();
    assert_eq!(text.matches("znode=/").count() as u64, kept, "{text}");
    assert!(text.ends_with(&format!(": {} lines lost\n", 100 - kept)), "{text}");
    assert_eq!(audit.stats.series.total(Counter::AuditLinesLost), 100 - kept);
    assert!(audit.has_room() && audit.open_up_to().load(Ordering::SeqCst) == kept);
    assert_eq!(audit.held_bytes(), 0);
}

#[test]
fn a_change_is_held_from_the_request_until_its_line_is_written() {
    let audit = audit(false);
    let mut noted = Noted::default();
    let address = [127, 0, 0, 1].into();
    let note = |noted: &mut Noted, path: &str| {
        let request = Request::Delete(DeleteRequest { path: path.into(), version: -1 });
        noted.note(&audit, None, &request, SessionId(1), &Identities::default(), address);
    };
    noted.note(&audit, None, &Request::Ping, SessionId(1), &Identities::default(), address);
    assert_eq!(audit.held_bytes(), 0, "a read");
    let path = format!("/{}", "a".repeat(999));
    note(&mut noted, &path);
    let one = audit.held_bytes();
    assert!((1000..2000).contains(&one), "{one}");
    note(&mut noted, &path);
    assert!(audit.held_bytes() == 2 * one && !audit.has_room());
    assert!(noted.pop().is_none());
    audit.never_answered(noted.pop().expect("a change"));
    assert_eq!(audit.held_bytes(), 2 * one, "it is counted once");
    write(&audit);
    assert!(audit.held_bytes() == one && audit.has_room());
    noted.take_all().for_each(drop);
    assert_eq!(audit.held_bytes(), 0);
}

#[test]
fn parts_of_a_multi_that_change_nothing_are_counted_too() {
    let audit = audit(false);
    let check = MultiOp::Check(CheckVersionRequest { path: "/".into(), version: -1 });
    let request = Request::Multi(vec![check; 1000]);
    let mut noted = Noted::default();
    let address = [127, 0, 0, 1].into();
    noted.note(&audit, None, &request, SessionId(1), &Identities::default(), address);
    assert!(audit.held_bytes() >= 1000 * size_of::<Option<Operation>>());
}

#[test]
fn a_line_that_is_taken_in_pieces_comes_once() {
    let audit = audit(false);
    gone(&audit, "/a");
    gone(&audit, "/b");
    let mut taken = Vec::new();
    let mut calls = 0;
    let its = Arc::clone(&audit);
    thread::scope(|scope| {
        scope.spawn(|| {
            its.write_for_ever(false, |lines| {
                calls += 1;
                if calls % 2 == 0 {
                    return Err(io::ErrorKind::Interrupted.into());
                }
                let some = lines.len().min(7);
                taken.extend_from_slice(&lines[..some]);
                Ok(some)
            });
        });
        audit.end();
    });
    let text = String::from_utf8(taken).expect("UTF-8");
    let znodes: Vec<&str> = text.lines().filter_map(|line| line.split("znode=").nth(1)).collect();
    assert_eq!(znodes, ["/a\tresult=success", "/b\tresult=success"]);
}

/// Whoever listens for syslog, and the audit log whose lines go there.
fn on_syslog() -> (tempfile::TempDir, UnixDatagram, Arc<Audit>) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let sink = Sink::syslog(&path).expect("somebody listens");
    let audit = Audit::onto(sink, 64 << 20, false, Arc::default()).expect("a thread");
    (folder, socket, audit)
}

fn receive(socket: &UnixDatagram) -> String {
    let mut line = vec![0; 1 << 20];
    let len = socket.recv(&mut line).expect("a line");
    String::from_utf8_lossy(&line[..len]).into_owned()
}

#[test]
fn a_long_line_does_not_end_the_log_on_syslog() {
    let (_folder, socket, audit) = on_syslog();
    gone(&audit, &format!("/{}", "a".repeat(300_000)));
    gone(&audit, "/next");
    let long = receive(&socket);
    // rsyslog takes 8 KiB of a message.
    assert!(long.len() < 8192, "{}", long.len());
    assert!(long.ends_with("aaa…\tresult=success"), "{long}");
    assert!(receive(&socket).contains("znode=/next\t"));
    audit.end();
    assert_eq!(audit.stats.series.total(Counter::AuditLinesLost), 0);
}

#[test]
fn a_line_that_syslog_never_takes_is_lost_and_told() {
    let audit = audit(false);
    gone(&audit, &format!("/{}", "a".repeat(3000)));
    gone(&audit, "/next");
    let (written, lines) = mpsc::channel();
    let its = Arc::clone(&audit);
    let thread = thread::spawn(move || {
        its.write_for_ever(true, |line| {
            if line.len() > 2000 {
                return Err(rustix::io::Errno::MSGSIZE.into());
            }
            written.send(String::from_utf8_lossy(line).into_owned()).expect("read");
            Ok(line.len())
        });
    });
    let next = || lines.recv_timeout(Duration::from_secs(20)).expect("a line");
    assert!(next().contains("znode=/next\t"));
    assert!(next().ends_with(": 1 lines lost"));
    assert_eq!(audit.stats.series.total(Counter::AuditLinesLost), 1);
    assert_eq!(audit.end(), 0);
    thread.join().expect("it ends");
}

/// A slow place: it takes a little at a time.
#[test]
fn what_is_written_is_free_and_its_answers_leave_whatever_comes_behind_it() {
    const COUNTS: [usize; 6] = [1, 3000, 1, 0, 2, 3000];
    let audit = Audit::new(64 << 20, false, Arc::default());
    let mut lines_up_to = Vec::new();
    let mut held_up_to = Vec::new();
    for (fact, count) in COUNTS.into_iter().enumerate() {
        let znodes = (0..count).map(|number| format!("/{fact}-{number}")).collect();
        audit.ephemerals_gone(SessionId(1), znodes);
        lines_up_to.push(lines_up_to.last().unwrap_or(&0) + count);
        held_up_to.push(audit.held_bytes());
    }
    audit.queue.lock().ends = true;
    let mut written = 0;
    audit.write_for_ever(false, |lines| {
        let facts = lines_up_to.iter().take_while(|lines| **lines <= written).count();
        assert_eq!(audit.open_up_to().load(Ordering::SeqCst), facts as u64, "{written} lines");
        let all = held_up_to.last().expect("facts");
        let freed = facts.checked_sub(1).map_or(0, |last| held_up_to[last]);
        assert_eq!(audit.held_bytes(), all - freed, "{written} lines");
        let some = &lines[..lines.len().min(5000)];
        written += some.iter().filter(|byte| **byte == b'\n').count();
        Ok(some.len())
    });
    assert_eq!(written, COUNTS.iter().sum::<usize>());
    assert_eq!((audit.open_up_to().load(Ordering::SeqCst), audit.held_bytes()), (6, 0));
}

#[test]
fn nothing_is_waited_for_once_it_has_taken_nothing_for_a_while() {
    let audit = audit(true);
    gone(&audit, "/a");
    let (entries, newest, lost) = audit.take().expect("a fact");
    assert_eq!((entries.len(), newest, lost), (1, 1, 0));
    let now = Instant::now();
    assert!(!audit.begins_to_fail(now) && !audit.refuses());
    assert!(audit.begins_to_fail(now + PATIENCE) && audit.refuses() && audit.has_room());
    assert_eq!(audit.open_up_to().load(Ordering::SeqCst), u64::MAX);
    assert!(!audit.begins_to_fail(now + 2 * PATIENCE), "it is said once");
    audit.took(&mut entries.into_iter().map(|entry| (0, entry)).collect(), 0);
    assert_eq!(audit.held_bytes(), 0);
    assert!(audit.refuses(), "there may be much more to write");
    assert_eq!(audit.open_up_to().load(Ordering::SeqCst), u64::MAX);
    audit.written(newest, lost);
    assert!(!audit.refuses());
    assert_eq!(audit.open_up_to().load(Ordering::SeqCst), 1);
    assert!(!audit.begins_to_fail(now + 9 * PATIENCE), "nothing waits");
}

#[test]
fn what_is_not_written_at_the_end_is_told() {
    let audit = audit(false);
    for _ in 0..3 {
        gone(&audit, "/a");
    }
    audit.take().expect("facts");
    assert!(audit.begins_to_fail(Instant::now() + PATIENCE));
    audit.ephemerals_gone(SessionId(1), vec!["/b".to_owned(), "/c".to_owned()]);
    assert_eq!(audit.end(), 5);
    assert_eq!(audit.stats.series.total(Counter::AuditLinesLost), 5);
    let audit = self::audit(false);
    gone(&audit, "/a");
    write(&audit);
    audit.is_failing.store(true, Ordering::SeqCst);
    assert_eq!(audit.end(), 0);
}
