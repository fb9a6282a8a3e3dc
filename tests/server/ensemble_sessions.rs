//! Sessions of an ensemble: which servers have clients, and where a session can go on.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use bytes::BytesMut;
use jute::protocol::{ConnectResponse, CreateRequest, Request};
use jute::{Acl, CreateMode, perms};

use crate::client::{Client, connect_frame, create, ends, open, request_frame, set, until};
use crate::ensemble::{Patient, alone, leader, mode, prepare, stop, wipe};
use crate::process::Server;

const TIMEOUT_MS: i32 = 4000;
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// As Apache ZooKeeper 3.9.5: the words below, and no answer to a connect request.
fn has_no_clients(server: &Server) {
    let not_serving = ["srvr", "stat", "mntr", "cons", "dump", "conf", "wchs", "dirs"];
    let words = not_serving.map(|word| (word, NOT_SERVING));
    for (word, answer) in words.into_iter().chain([("isro", "null"), ("ruok", "imok")]) {
        // Whoever becomes a leader closes every connection, and that of a word, too.
        until("the answer of who does not serve", || server.word(word) == answer);
    }
    let mut stream = open(server.address());
    stream.write_all(&connect_frame(TIMEOUT_MS, 0, &[0; 16])).expect("sent");
    ends(&mut stream);
}

/// Whom all others follow, if they do.
fn followed(servers: &[Server]) -> Option<usize> {
    let modes: Vec<String> = servers.iter().map(mode).collect();
    let others = modes.iter().filter(|mode| *mode == "follower").count();
    let one = modes.iter().position(|mode| mode == "none")?;
    (others == servers.len() - 1).then_some(one)
}

#[test]
fn a_leader_that_does_not_serve_leaves_its_clients_to_the_others() {
    let mut servers = prepare(3, "leaderServes=no");
    servers.iter_mut().for_each(Server::run);
    let mut first = None;
    until("two follow one that says nothing", || {
        first = followed(&servers);
        first.is_some()
    });
    let first = first.expect("a leader");
    has_no_clients(&servers[first]);
    let followers = [(first + 1) % 3, (first + 2) % 3];
    let mut clients = followers.map(|at| Patient::connect(&servers[at], TIMEOUT_MS));
    clients[0].ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));

    // Frozen, it is missed, and one of the two that have clients leads.
    servers[first].signal("STOP");
    let mut second = None;
    until("one of the others leads, and serves no more", || {
        second = followers.iter().position(|at| mode(&servers[*at]) == "none");
        second.is_some() && mode(&servers[followers[1 - second.unwrap_or(0)]]) == "follower"
    });
    let second = second.expect("a leader");
    has_no_clients(&servers[followers[second]]);
    ends(clients[second].stream());
    let mut elsewhere = clients[second].go_to(&servers[followers[1 - second]]);
    assert_eq!(elsewhere.value("/kept"), b"1");

    servers[first].signal("CONT");
    until("it serves again", || mode(&servers[first]) == "follower");
    assert_eq!(elsewhere.go_to(&servers[first]).value("/kept"), b"1");
}

/// `new java.util.Random(id ^ 0xB3415C00).nextBytes(16)`, which every ZooKeeper server gives
/// (`generatePasswd`): whoever knows a session's id knows it.
pub(crate) fn guessed(session: &ConnectResponse) -> Vec<u8> {
    let modulus = 1_u128 << 48;
    let seed = u128::from((session.session_id ^ 0xB341_5C00).cast_unsigned()) % modulus;
    let mut state = seed ^ 0x5_DEEC_E66D;
    let mut words = Vec::new();
    for _ in 0..4 {
        state = (state * 0x5_DEEC_E66D + 11) % modulus;
        let word = u32::try_from(state / (1 << 16)).expect("32 bits");
        words.extend(word.to_le_bytes());
    }
    words
}

/// Whether a server takes a password for a session.
pub(crate) fn takes(server: &Server, session: &ConnectResponse, password: &[u8]) -> bool {
    let id = session.session_id;
    let attached = Client::attach(server.address(), TIMEOUT_MS, id, password).session;
    attached.session_id == id && attached.timeout_ms > 0
}

pub(crate) fn all_serve(servers: &[Server]) {
    until("all serve", || servers.iter().all(|server| mode(server) != "none"));
}

/// A file with a secret for the servers, which must outlive the servers.
pub(crate) fn secret() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("secret");
    fs::write(&path, "0123456789abcdef0123456789abcdef").expect("written");
    let line = format!("quorum.auth.secretFile={}", path.display());
    (folder, line)
}

pub(crate) fn file(server: &Server, name: &str) -> PathBuf {
    server.data().join("version-2").join(name)
}

/// A session of each server goes on at every other one, and nobody gets it without its password.
pub(crate) fn sessions_go_on_anywhere(servers: &[Server], are_guessed: bool) {
    for server in servers {
        let mut client = Patient::connect(server, TIMEOUT_MS);
        for other in servers {
            client = client.go_to(other);
            client.exists("/");
        }
        let session = client.session();
        assert_eq!(guessed(session) == session.password, are_guessed);
        let wrong = vec![b'x'; 16];
        for other in servers {
            assert!(!takes(other, session, &wrong));
            assert_eq!(takes(other, session, &guessed(session)), are_guessed);
            assert!(takes(other, session, &session.password));
        }
    }
}

#[test]
fn members_that_know_each_other_share_a_key_for_passwords_and_who_comes_later_gets_it() {
    let (_secret, line) = secret();
    let mut servers = prepare(3, &line);
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    sessions_go_on_anywhere(&servers, false);
    let key = fs::read(file(&servers[0], "session.key")).expect("a key");
    for server in &servers {
        assert_eq!(fs::read(file(server, "session.key")).expect("a key"), key);
        for name in ["session.key", "raft.state"] {
            let mode = fs::metadata(file(server, name)).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    // One that has lost its disk, and a session of before.
    let session = Patient::connect(&servers[0], 20_000);
    stop(&mut servers[2]);
    wipe(&servers[2]);
    servers[2].run();
    all_serve(&servers);
    session.go_to(&servers[2]).exists("/");
    sessions_go_on_anywhere(&servers, false);

    // What stands in the file is the ensemble's, whatever somebody made of it.
    stop(&mut servers[1]);
    fs::write(file(&servers[1], "session.key"), [1; 32]).expect("written");
    servers[1].run();
    all_serve(&servers);
    assert_eq!(fs::read(file(&servers[1], "session.key")).expect("a key"), key);
    sessions_go_on_anywhere(&servers, false);

    // Nobody who could be anybody gets it.
    servers.iter_mut().for_each(stop);
    wipe(&servers[2]);
    let lenient = |server: &Server| {
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        fs::write(server.config(), format!("{config}\nportUnification=true\n")).expect("zoo.cfg");
    };
    servers.iter().for_each(lenient);
    servers.iter_mut().for_each(Server::run);
    until("it is told why it has no seat", || {
        servers[2].log().contains("gives it only to servers that authenticate")
    });
    assert!(!file(&servers[2], "raft.state").exists());
}

#[test]
fn members_that_do_not_know_each_other_have_zookeepers_passwords() {
    let mut servers = prepare(3, "");
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    sessions_go_on_anywhere(&servers, true);
    assert!(servers.iter().all(|server| !file(server, "session.key").exists()));
}

/// The first to stop lacks what the others acknowledge after that. As the documentation says, all
/// leave when all have stopped, and the newest data counts.
#[test]
fn an_ensemble_whose_passwords_are_changed_loses_no_write_and_no_session() {
    let (_secret, line) = secret();
    let mut servers = prepare(3, "");
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    let session = Patient::connect(&servers[1], 20_000);
    stop(&mut servers[0]);
    let mut client = Patient::connect(&servers[1], TIMEOUT_MS);
    client.ok(&create("/last", b"1".to_vec(), CreateMode::Persistent));
    servers[1..].iter_mut().for_each(stop);
    for server in &servers {
        for tool in ["leave", "seal"] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_ferrokeeper"));
            command.args(["data", tool]).arg(server.data());
            let output = command.output().expect("it runs");
            assert!(output.status.success(), "{output:?}");
        }
        let config = fs::read_to_string(server.config()).expect("zoo.cfg");
        fs::write(server.config(), format!("{config}\n{line}\n")).expect("zoo.cfg");
    }
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    for server in &servers {
        assert_eq!(Patient::connect(server, TIMEOUT_MS).value("/last"), b"1");
    }
    session.go_to(&servers[0]).exists("/");
    sessions_go_on_anywhere(&servers, false);
}

/// A session of a lone server, which becomes one of three.
fn session_of_before(servers: &mut [Server]) -> ConnectResponse {
    let session = alone(&mut servers[1], |server| {
        let mut client = server.connect(20_000);
        client.ok(&create("/mine", vec![], CreateMode::Ephemeral));
        client.session
    });
    servers.iter_mut().for_each(Server::run);
    all_serve(servers);
    session
}

#[test]
fn sessions_of_a_lone_server_go_on_in_its_ensemble_if_its_key_can_be_handed_over() {
    let (_secret, line) = secret();
    let mut servers = prepare(3, &line);
    // As `data seal` leaves it: this session is older than the key.
    let older = alone(&mut servers[1], |server| server.connect(20_000).session);
    let lines = format!("{:#x}\n", older.session_id);
    fs::write(file(&servers[1], "sessions.before.key"), lines).expect("written");
    let session = session_of_before(&mut servers);
    for server in &servers {
        assert!(!takes(server, &older, &older.password));
        assert!(takes(server, &older, &guessed(&older)));
        assert!(!takes(server, &session, &guessed(&session)));
        assert!(takes(server, &session, &session.password));
        assert!(Patient::connect(server, TIMEOUT_MS).exists("/mine"));
    }
    sessions_go_on_anywhere(&servers, false);
}

#[test]
fn sessions_of_a_lone_server_end_with_a_warning_if_its_key_cannot_be_handed_over() {
    let mut servers = prepare(3, "");
    let session = session_of_before(&mut servers);
    until("its log says so", || {
        servers[1].log().contains("these sessions end: their passwords depend on session.key")
    });
    until("its log says so", || servers[1].log().contains("sessions=1"));
    for server in &servers {
        assert!(!takes(server, &session, &session.password));
        assert!(!file(server, "session.key").exists());
    }
    sessions_go_on_anywhere(&servers, true);
}

#[test]
fn sessions_of_one_server_go_on_there_only_and_those_with_an_ephemeral_everywhere() {
    let config = "localSessionsEnabled=true\nlocalSessionsUpgradingEnabled=true";
    let mut servers = prepare(3, config);
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    until("one leads", || servers.iter().any(|server| mode(server) == "leader"));
    let first = leader(&servers);
    let (here, other) = ((first + 1) % 3, (first + 2) % 3);
    let mut local = Patient::connect(&servers[here], 20_000);
    local.ok(&create("/kept", b"1".to_vec(), CreateMode::Persistent));
    let mut owner = Patient::connect(&servers[here], 20_000);
    owner.ok(&create("/mine", vec![], CreateMode::Ephemeral));
    until("there is one of each kind", || {
        servers[here].figure("local_sessions") == 1 && servers[here].figure("global_sessions") == 1
    });

    // It does not even end with its leader, as ZooKeeper's does.
    servers[first].signal("KILL");
    servers[first].wait();
    assert_eq!(local.value("/kept"), b"1");
    assert!(local.exists("/mine"));
    let session = *local.session();
    assert!(!takes(&servers[other], &session, &session.password));
    assert!(takes(&servers[here], &session, &session.password));
    let mut moved = owner.go_to(&servers[other]);
    assert!(moved.exists("/mine"));
    moved.ok(&Request::CloseSession);
    let mut watcher = Patient::connect(&servers[here], TIMEOUT_MS);
    until("its znode is gone", || !watcher.exists("/mine"));
}

/// Each of the three is left once and come to once, the leader as well.
#[test]
fn a_session_that_moved_writes_only_through_its_new_server() {
    let mut servers = prepare(3, "");
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        let (mine, late) = (format!("/mine{from}"), format!("/late{from}"));
        let mut old = Patient::connect(&servers[from], TIMEOUT_MS);
        old.ok(&create(&mine, vec![], CreateMode::Ephemeral));
        let mut new = old.go_to(&servers[to]);
        assert_eq!(new.session().session_id, old.session().session_id);
        let mut bytes = BytesMut::new();
        request_frame(&mut bytes, 7, &create(&late, vec![], CreateMode::Persistent));
        // The connection may have ended before.
        let _ = old.stream().write_all(&bytes);
        ends(old.stream());
        assert!(!new.exists(&late), "from server {from} to {to}");
        assert!(new.exists(&mine), "from server {from} to {to}");
        new.ok(&create(&late, vec![], CreateMode::Persistent));
    }
}

/// A server checks ACLs where the order is decided, whatever this key says, and what they refuse
/// has no place in it: nobody is sent it, and nobody writes it.
#[test]
fn a_write_that_an_acl_refuses_takes_no_place_in_the_order() {
    let mut servers = prepare(3, "enableEagerACLCheck=true");
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    let mut clients: Vec<Patient> =
        servers.iter().map(|server| Patient::connect(server, 20_000)).collect();
    clients[0].ok(&Request::Create(CreateRequest {
        path: "/closed".into(),
        data: None,
        acl: Some(vec![Acl::anyone(perms::READ)]),
        flags: CreateMode::Persistent.flags(),
    }));
    clients[0].ok(&create("/open", vec![], CreateMode::Persistent));
    // An election has a place, too.
    until("two writes have places side by side", || {
        let before = clients[0].ok(&set("/open", vec![])).header.zxid;
        for client in &mut clients {
            let below = create("/closed/a", vec![], CreateMode::Persistent);
            assert_eq!([&below, &set("/closed", vec![1])].map(|its| client.try_it(its)), [-102; 2]);
        }
        clients[0].ok(&set("/open", vec![])).header.zxid == before + 1
    });
}
