//! A member of an ensemble that has lost the others: it serves clients that read only
//! (`readonlymode.enabled`), and they and all others come back without a watch lost.

use std::borrow::Cow;
use std::fs;
use std::io::Write as _;
use std::time::{Duration, Instant};

use bytes::{BufMut as _, BytesMut};
use jute::protocol::{
    AddWatchMode, AddWatchRequest, ChildrenResponse, ConnectRequest, ConnectResponse, Request,
    RequestHeader, SetWatchesRequest, SyncRequest, WatchRequest, put_frame,
};
use jute::{CreateMode, OpCode, Record as _};

use crate::client::{
    Client, Reply, connect_response, create, data_of, ends, get, open, request_frame, set, until,
};
use crate::ensemble::{Patient, leader, mode, prepare, start_with, stop};
use crate::members::with_an_observer;
use crate::process::Server;

const TIMEOUT_MS: i32 = 20_000;
const ENABLED: &str = "readonlymode.enabled=true\nmaxSessionTimeout=20000";
const NOT_READ_ONLY: i32 = -119;
const REFUSED: &str = "the write should be refused, and the connection stay";
/// An event's xid.
const EVENT: i32 = -1;

/// What a client asks a server for.
struct Asks<'a> {
    id: i64,
    password: &'a [u8],
    seen: i64,
    read_only: Option<bool>,
}

impl Asks<'_> {
    const NEW: Self = Asks { id: 0, password: &[0; 16], seen: 0, read_only: Some(true) };

    fn send(&self, server: &Server) -> std::net::TcpStream {
        let mut stream = open(server.address());
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.seen,
            timeout_ms: TIMEOUT_MS,
            session_id: self.id,
            password: Some(Cow::Borrowed(self.password)),
            read_only: self.read_only,
        };
        let mut out = BytesMut::new();
        put_frame(&mut out, |out| request.encode(out));
        stream.write_all(&out).expect("sent");
        stream
    }

    fn connect(&self, server: &Server) -> Client {
        let mut stream = self.send(server);
        let session = connect_response(&mut stream);
        Client::over(stream, session, 0)
    }

    /// It is closed without a word.
    fn is_closed(&self, server: &Server) {
        ends(&mut self.send(server));
    }
}

fn again(session: &ConnectResponse, read_only: bool) -> Asks<'_> {
    let ConnectResponse { session_id: id, password, .. } = session;
    Asks { id: *id, password, seen: 0, read_only: Some(read_only) }
}

fn watched(path: &str) -> WatchRequest<'_> {
    WatchRequest { path: path.into(), watch: true }
}

fn children(reply: &Reply) -> Vec<String> {
    let (list, _) = jute::decode::<ChildrenResponse<'_>>(&reply.body).expect("children");
    let mut names: Vec<String> = list.children.iter().map(ToString::to_string).collect();
    names.sort();
    names
}

/// Everything that is refused, and what is answered afterwards.
fn writes_are_refused(client: &mut Client) {
    let applied = client.ok(&get("/a")).header.zxid;
    let refused = [
        create("/b", vec![], CreateMode::Persistent),
        create("/b", vec![], CreateMode::Ephemeral),
        set("/a", vec![]),
        set("/absent", vec![]),
        Request::Sync(SyncRequest { path: Some("/".into()) }),
        Request::Multi(vec![]),
    ];
    for request in &refused {
        let xid = client.send(std::slice::from_ref(request));
        let reply = client.receive().expect(REFUSED);
        assert_eq!(reply.header.xid, xid);
        assert_eq!((reply.header.err, reply.header.zxid), (NOT_READ_ONLY, applied), "{request:?}");
        assert!(reply.body.is_empty());
    }
    // Whatever is in it: nobody looks (`ReadOnlyRequestProcessor`).
    let operations = [
        OpCode::Create,
        OpCode::Create2,
        OpCode::CreateContainer,
        OpCode::CreateTtl,
        OpCode::Delete,
        OpCode::DeleteContainer,
        OpCode::SetData,
        OpCode::SetAcl,
        OpCode::Reconfig,
        OpCode::Multi,
        OpCode::Check,
        OpCode::Sync,
    ];
    for (operation, xid) in operations.into_iter().zip(1000..) {
        let mut out = BytesMut::new();
        put_frame(&mut out, |out| {
            RequestHeader { xid, op: operation.code() }.encode(out);
            out.put_u8(7);
        });
        client.stream.write_all(&out).expect("sent");
        let reply = client.receive().expect(REFUSED);
        let header = (reply.header.xid, reply.header.zxid, reply.header.err);
        assert_eq!(header, (xid, applied, NOT_READ_ONLY), "{operation:?}");
    }
    assert_eq!(data_of(&client.ok(&get("/a"))), b"1");
}

/// What monitoring shows.
fn says_that_it_is_read_only(server: &Server) {
    assert_eq!(server.word("isro"), "ro");
    for word in ["srvr", "stat"] {
        let text = server.word(word);
        let second = text.lines().nth(1);
        assert_eq!(second, Some("READ-ONLY mode; serving only read-only clients"), "{text}");
        assert!(text.contains("\nMode: read-only\n"), "{text}");
    }
    assert!(server.word("mntr").contains("\nzk_server_state\tread-only\n"));
    assert!(server.log().contains("[FK0483]"), "{}", server.log());
}

/// Events, by their paths.
fn told(client: &mut Client, watches: SetWatchesRequest<'_>) -> Vec<String> {
    let events = watches.data_watches.len() + watches.exist_watches.len();
    client.send(&[Request::SetWatches(watches)]);
    let mut paths: Vec<String> = (0..events)
        .map(|_| {
            let event = client.receive().expect("an event");
            assert_eq!(event.header.xid, EVENT, "{event:?}");
            // Type and state, then the path with its length.
            String::from_utf8_lossy(&event.body[12..]).into_owned()
        })
        .collect();
    assert_eq!(client.receive().expect("the answer").header.err, 0);
    paths.sort();
    paths
}

/// Reads, watches and refusals of a client that accepts it: its session, and what it has seen.
fn who_accepts_it_reads(server: &Server) -> (Client, i64) {
    let mut reader = Asks::NEW.connect(server);
    assert_eq!((reader.session.timeout_ms, reader.session.read_only), (TIMEOUT_MS, Some(true)));
    let list = Request::GetChildren(WatchRequest { path: "/".into(), watch: false });
    assert_eq!(children(&reader.ok(&list)), ["a", "zookeeper"]);
    let seen = reader.ok(&Request::GetData(watched("/a"))).header.zxid;
    assert_eq!(reader.call(&Request::Exists(watched("/new"))).header.err, -101);
    let (path, mode_of_watch) = ("/a".into(), AddWatchMode::PersistentRecursive);
    reader.ok(&Request::AddWatch(AddWatchRequest { path, mode: mode_of_watch }));
    reader.ok(&Request::WhoAmI);
    writes_are_refused(&mut reader);

    // Its own session goes on at another connection, and nobody else gets it.
    let wrong = Asks { password: &[1; 16], ..again(&reader.session, true) };
    let refused = wrong.connect(server).session;
    assert_eq!((refused.timeout_ms, refused.session_id, refused.read_only), (0, 0, Some(true)));
    let mut moved = again(&reader.session, true).connect(server);
    assert_eq!(moved.session.session_id, reader.session.session_id);
    assert_eq!(moved.session.read_only, Some(true));
    ends(&mut reader.stream);
    moved.ok(&get("/a"));
    let mut closing = Asks::NEW.connect(server);
    assert_ne!(closing.session.session_id, moved.session.session_id);
    closing.ok(&Request::CloseSession);
    ends(&mut closing.stream);
    // It is no more: kazoo would come with it again and again if it were not told.
    let gone = again(&closing.session, true).connect(server).session;
    assert_eq!((gone.timeout_ms, gone.session_id, gone.read_only), (0, 0, Some(true)));
    (moved, seen)
}

#[test]
fn a_member_alone_is_read_and_comes_back_without_a_watch_lost() {
    let mut servers = start_with(3, ENABLED);
    let mut writer = Patient::connect(&servers[0], TIMEOUT_MS);
    writer.ok(&create("/a", b"1".to_vec(), CreateMode::Persistent));
    // One that must go on afterwards.
    let mut kept = Asks { read_only: Some(true), ..Asks::NEW }.connect(&servers[0]);
    assert_eq!(kept.session.read_only, Some(false));
    let kept_seen = kept.ok(&Request::GetData(watched("/a"))).header.zxid;

    stop(&mut servers[1]);
    stop(&mut servers[2]);
    until("it serves clients that read only", || mode(&servers[0]) == "read-only");
    says_that_it_is_read_only(&servers[0]);
    ends(&mut kept.stream);
    let kept = kept.session;
    for asks in [
        Asks { read_only: Some(false), ..Asks::NEW },
        Asks { read_only: None, ..Asks::NEW },
        again(&kept, false),
        // It is not to be mistaken for one that is no more.
        again(&kept, true),
    ] {
        asks.is_closed(&servers[0]);
    }

    let (mut moved, seen) = who_accepts_it_reads(&servers[0]);

    servers[1].run();
    servers[2].run();
    ends(&mut moved.stream);
    until("all serve", || {
        let lacks_leader = |server: &Server| ["none", "read-only"].contains(&&*mode(server));
        !servers.iter().any(lacks_leader)
    });
    assert_eq!(servers[0].word("isro"), "rw");
    let mut writer = Patient::connect(&servers[1], TIMEOUT_MS);
    writer.ok(&set("/a", b"2".to_vec()));
    writer.ok(&create("/new", vec![], CreateMode::Persistent));

    // Where kazoo comes back with the session that only read, it is told that it is gone.
    let gone = again(&moved.session, true).connect(&servers[0]).session;
    assert_eq!((gone.timeout_ms, gone.session_id, gone.read_only), (0, 0, Some(false)));
    // Java's client comes without it, and sets its watches again.
    let mut back = Asks { seen, ..Asks::NEW }.connect(&servers[2]);
    assert_eq!(back.session.read_only, Some(false));
    let watches = SetWatchesRequest {
        relative_zxid: seen,
        data_watches: vec!["/a".into()],
        exist_watches: vec!["/new".into()],
        child_watches: vec![],
    };
    assert_eq!(told(&mut back, watches), ["/a", "/new"]);
    back.ok(&set("/a", b"3".to_vec()));
    // The session of before is still there.
    let mut kept = Asks { seen: kept_seen, ..again(&kept, true) }.connect(&servers[0]);
    assert!(kept.session.timeout_ms > 0, "the session is lost");
    let watches = SetWatchesRequest {
        relative_zxid: kept_seen,
        data_watches: vec!["/a".into()],
        exist_watches: vec![],
        child_watches: vec![],
    };
    assert_eq!(told(&mut kept, watches), ["/a"]);
}

/// Java's client leaves a read-only server only for one that says so.
#[test]
fn a_server_with_the_setting_or_with_the_word_in_its_list_says_that_it_takes_writes() {
    // The tests ask by the other two.
    let listed = "4lw.commands.whitelist=ruok,srvr";
    let settings = [format!("{listed}\n{ENABLED}"), format!("{listed},isro"), listed.to_owned()];
    let mut servers = prepare(3, "");
    for (server, setting) in servers.iter().zip(settings) {
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        let config = config.replace("4lw.commands.whitelist=*", &setting);
        fs::write(server.config(), config).expect("zoo.cfg");
    }
    servers.iter_mut().for_each(Server::run);
    until("all serve", || servers.iter().all(|server| mode(server) != "none"));
    assert_eq!([0, 1].map(|at| servers[at].word("isro")), ["rw", "rw"]);
    let refused = "isro is not executed because it is not in the whitelist.";
    assert_eq!(servers[2].word("isro").trim_end(), refused);
}

/// With the mode off its client would have kept it.
#[test]
fn a_session_of_one_server_goes_on_after_the_mode_however_long_that_lasts() {
    const SHORT_MS: i32 = 4000;
    let mut servers = start_with(3, &format!("{ENABLED}\nlocalSessionsEnabled=true"));
    let follower = (leader(&servers) + 1) % 3;
    let mut local = Patient::connect(&servers[follower], SHORT_MS);
    local.ok(&get("/"));
    (0..3).filter(|at| *at != follower).for_each(|at| stop(&mut servers[at]));
    let mut ping = BytesMut::new();
    request_frame(&mut ping, -2, &Request::Ping);
    until("it serves clients that read only", || {
        // Its connection ends with the beginning.
        let _ = local.stream().write_all(&ping);
        mode(&servers[follower]) == "read-only"
    });
    let began = Instant::now();
    until("its timeout is over by far", || {
        assert_eq!(servers[follower].figure("local_sessions"), 1, "{}", servers[follower].log());
        began.elapsed() > Duration::from_secs(8)
    });
    (0..3).filter(|at| *at != follower).for_each(|at| servers[at].run());
    let mut back = local.go_to(&servers[follower]);
    assert_eq!(back.session().session_id, local.session().session_id);
    back.ok(&get("/"));
}

/// It cannot know whether it is still a member: a majority says so at each start.
#[test]
fn a_member_that_starts_without_a_majority_shows_nobody_anything() {
    let mut servers = start_with(3, ENABLED);
    servers.iter_mut().for_each(stop);
    servers[0].run();
    // Longer than it takes where there was a leader.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        assert_eq!(servers[0].word("isro"), "null");
        Asks::NEW.is_closed(&servers[0]);
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(!servers[0].log().contains("FK0483"), "{}", servers[0].log());
}

#[test]
fn without_the_setting_a_member_alone_serves_nobody() {
    let mut servers = start_with(3, "");
    stop(&mut servers[1]);
    stop(&mut servers[2]);
    until("it has let its clients go", || mode(&servers[0]) == "none");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(4) {
        assert_eq!(servers[0].word("isro"), "null");
        Asks::NEW.is_closed(&servers[0]);
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Who does not vote cannot tell by an election that there is no leader.
#[test]
fn an_observer_that_hears_no_leader_is_read_too() {
    let mut servers = with_an_observer(ENABLED);
    let first = leader(&servers);
    let other = 1 - first;
    Patient::connect(&servers[2], TIMEOUT_MS).ok(&create("/a", vec![1], CreateMode::Persistent));
    stop(&mut servers[other]);
    let mut readers = [first, 2].map(|at| {
        until("it serves clients that read only", || mode(&servers[at]) == "read-only");
        Asks::NEW.connect(&servers[at])
    });
    for reader in &mut readers {
        assert_eq!(reader.session.read_only, Some(true));
        assert_eq!(data_of(&reader.ok(&get("/a"))), [1]);
        assert_eq!(reader.call(&set("/a", vec![2])).header.err, NOT_READ_ONLY);
    }
    servers[other].run();
    for reader in &mut readers {
        ends(&mut reader.stream);
    }
    until("all serve", || mode(&servers[2]) == "observer");
    Patient::connect(&servers[2], TIMEOUT_MS).ok(&set("/a", vec![3]));
}
