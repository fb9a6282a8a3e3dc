//! Clients that leave unread what the server has for them: memory is bounded, and who reads notices
//! nothing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use jute::protocol::{AddWatchMode, AddWatchRequest, ReadOp, Request, SetWatches2Request};
use jute::{CreateMode, ErrorCode};
use socket2::SockRef;

use crate::client::{Client, DEADLINE, create, data_of, get, set, until};
use crate::process::Server;

const TIMEOUT_MS: i32 = 60_000;
const MEGABYTE: u64 = 1 << 20;
const LARGE: usize = 1_000_000;
/// What all clients may leave unread.
const LIMIT: i64 = 8 << 20;
/// An event's xid.
const EVENT: i32 = -1;

fn start() -> Server {
    Server::start(&format!(
        "unreadLimitInKb={}\nmaxClientCnxns=0\nmaxSessionTimeout=60000",
        LIMIT >> 10
    ))
}

fn watch_all() -> Request<'static> {
    Request::AddWatch(AddWatchRequest { path: "/".into(), mode: AddWatchMode::PersistentRecursive })
}

/// A path that makes an event of about a kilobyte.
fn long_path() -> String {
    format!("/{:0900}", 0)
}

/// The answers that come before the connection ends, at most so many.
fn answers(client: &mut Client, most: usize) -> usize {
    let answers = (0..most).map_while(|_| client.try_receive().ok());
    answers.filter(|reply| reply.header.err == 0).count()
}

/// Waits until nothing is made and nothing is read any more.
fn until_all_stand_still(server: &Server) {
    let look = || (server.figure("unread_bytes"), server.figure("response_bytes"));
    let mut before = look();
    until("all stand still", || {
        thread::sleep(Duration::from_millis(600));
        std::mem::replace(&mut before, look()) == before
    });
}

#[test]
fn who_has_read_nothing_for_the_longest_is_closed_first() {
    const READS: usize = 20;
    let server = start();
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/large", vec![1; LARGE], CreateMode::Persistent));
    let is_open = |client: &Client| {
        let port = client.stream.local_addr().expect("an address").port();
        server.word("cons").contains(&format!(":{port}["))
    };
    let mut clients: Vec<Client> = Vec::new();
    while server.figure("unread_closed_count") < 3 {
        assert!(clients.len() < 20, "nobody is closed");
        let mut client = server.connect(TIMEOUT_MS);
        // A megabyte or two of them wait, and the rest of its requests.
        client.send(&vec![get("/large"); READS]);
        clients.push(client);
        until_all_stand_still(&server);
        let open: Vec<bool> = clients.iter().map(&is_open).collect();
        assert!(open.is_sorted(), "in the order of their standstill: {open:?}");
        assert!(server.figure("unread_bytes") <= LIMIT);
    }
    // Small requests do not wait, and their client is not closed.
    client.ok(&set("/large", vec![2]));
    let (closed, mut open): (Vec<Client>, Vec<Client>) =
        clients.into_iter().partition(|client| !is_open(client));
    assert!(closed.len() >= 3 && open.len() >= 2, "{} and {}", closed.len(), open.len());
    let mut last = open.pop().expect("an open one");
    assert_eq!(answers(&mut last, READS), READS, "it reads again, and has lost nothing");
    for mut client in closed {
        assert!(answers(&mut client, READS) < READS);
        let mut again = client.again(server.address());
        assert_eq!(again.session.session_id, client.session.session_id);
        again.ok(&get("/large"));
    }
}

#[test]
fn who_reads_gets_every_event_in_order_while_others_do_not_read() {
    const STALLED: usize = 8;
    let server = start();
    let path = long_path();
    let mut writer = server.connect(TIMEOUT_MS);
    writer.ok(&create(&path, vec![], CreateMode::Persistent));
    let mut victim = server.connect(TIMEOUT_MS);
    victim.ok(&watch_all());
    let mut stalled: Vec<Client> = (0..STALLED)
        .map(|_| {
            let mut client = server.connect(TIMEOUT_MS);
            SockRef::from(&client.stream).set_recv_buffer_size(64 << 10).expect("a small buffer");
            client.ok(&watch_all());
            client
        })
        .collect();
    let before = server.peak_memory();
    let (mut sent, seen) = (0, AtomicUsize::new(0));
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut last = 0;
            loop {
                let event = victim.receive().expect("an event");
                assert_eq!(event.header.xid, EVENT);
                assert!(event.header.zxid > last, "in order");
                last = event.header.zxid;
                // What ends it is an event, too.
                let is_end = event.body.windows(4).any(|bytes| bytes == b"/end");
                if is_end {
                    return;
                }
                seen.fetch_add(1, Ordering::SeqCst);
            }
        });
        while server.figure("unread_closed_count") < 3 {
            assert!(sent < 200_000, "nobody is closed");
            writer.send(&vec![set(&path, vec![]); 200]);
            for reply in writer.receive_all(200) {
                assert_eq!(reply.header.err, 0);
            }
            sent += 200;
            let unread = server.figure("unread_bytes");
            assert!(unread <= LIMIT, "{unread} bytes are unread");
            until("the victim reads", || seen.load(Ordering::SeqCst) + 1000 >= sent);
        }
        writer.ok(&create("/end", vec![], CreateMode::Persistent));
        reader.join().expect("the victim");
    });
    assert_eq!(seen.load(Ordering::SeqCst), sent);
    let grown = server.peak_memory() - before;
    assert!(grown < 64 * MEGABYTE, "{} MiB", grown / MEGABYTE);
    until("its log says so", || server.log().contains("FK0511"));
    // Whoever is closed comes back as after any lost connection.
    let closed = stalled.iter_mut().find_map(|client| {
        let mut again = client.again(server.address());
        (again.session.session_id == client.session.session_id).then(|| {
            again.ok(&Request::SetWatches2(SetWatches2Request {
                relative_zxid: i64::MAX,
                data_watches: vec![],
                exist_watches: vec![],
                child_watches: vec![],
                persistent_watches: vec![],
                persistent_recursive_watches: vec!["/".into()],
            }));
            again
        })
    });
    let mut again = closed.expect("a session that goes on");
    writer.ok(&set(&path, vec![1]));
    assert_eq!(again.receive().expect("an event").header.xid, EVENT);
}

#[test]
fn large_answers_that_nobody_reads_wait_for_room() {
    const PARTS: usize = 10;
    let server = start();
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/large", vec![1; LARGE], CreateMode::Persistent));
    let many = || Request::MultiRead(vec![ReadOp::GetData("/large".into()); PARTS]);
    let before = server.peak_memory();
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect(TIMEOUT_MS)).collect();
    for client in &mut clients {
        client.send(&vec![many(); 3]);
    }
    // It waits for its turn, after them, and is answered.
    client.stream.set_read_timeout(Some(3 * DEADLINE)).expect("a timeout");
    let reply = client.ok(&many());
    // A quarter of what all may leave unread, and the part that goes beyond it; the others are
    // refused.
    let refused = ErrorCode::BadArguments.code().to_be_bytes();
    assert!((3 * LARGE..4 * LARGE).contains(&reply.body.len()), "{}", reply.body.len());
    assert!(reply.body.windows(4).any(|bytes| bytes == refused));
    let grown = server.peak_memory() - before;
    assert!(grown < 64 * MEGABYTE, "{} MiB", grown / MEGABYTE);
    assert!(server.figure("unread_bytes") <= LIMIT);
}

#[test]
fn who_wants_no_more_than_a_znode_has_it_while_many_leave_much_unread() {
    const HOARDERS: usize = 24;
    const PARTS: usize = 10;
    let server = start();
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/large", vec![1; LARGE], CreateMode::Persistent));
    let mut hoarders: Vec<Client> = (0..HOARDERS).map(|_| server.connect(TIMEOUT_MS)).collect();
    let many = Request::MultiRead(vec![ReadOp::GetData("/large".into()); PARTS]);
    for hoarder in &mut hoarders {
        SockRef::from(&hoarder.stream).set_recv_buffer_size(64 << 10).expect("a small buffer");
        hoarder.send(&vec![many.clone(); 6]);
    }
    // What did not wait takes the rest.
    let mut others: Vec<Client> = (0..8).map(|_| server.connect(TIMEOUT_MS)).collect();
    for other in &mut others {
        SockRef::from(&other.stream).set_recv_buffer_size(64 << 10).expect("a small buffer");
        other.send(&vec![get("/large"); 20]);
    }
    until("it is scarce", || server.figure("unread_bytes") > LIMIT / 4 * 3);
    client.stream.set_read_timeout(Some(6 * DEADLINE)).expect("a timeout");
    // However many of them are closed for it meanwhile, the one who reads is not.
    for _ in 0..20 {
        assert!(data_of(&client.ok(&get("/large"))) == [1; LARGE]);
    }
}
