//! What lists all of something: whole for many of them, and nothing that keeps others waiting or
//! memory full.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use compat_tests::four_letter_words::{ask, ask_within};
use compat_tests::request::{self, mode, op};
use compat_tests::{Kind, RawClient, Server, http};
use serde_json::Value;

const ON: &str = "admin.enableServer=true";
const TIMEOUT: i32 = 40_000;
/// How long an answer may be silent.
const PATIENCE: Duration = Duration::from_secs(20);
/// Paths that one session watches alone, more than a slice and more than a piece.
const MANY: usize = 5000;
/// Sessions that watch one path, and own an ephemeral znode each.
const CROWD: usize = 700;
/// Ephemeral znodes of one session.
const OWNED: usize = 1500;

type Lists = BTreeMap<String, BTreeSet<String>>;

fn id(client: &RawClient) -> i64 {
    client.session.as_ref().expect("a session").id
}

/// Heads with what stands below them, each in one place and everything once.
fn lists(text: &str) -> Lists {
    let mut all = Lists::new();
    let mut head = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix('\t') {
            Some(below) => {
                let is_new = all.entry(head.clone()).or_default().insert(below.to_owned());
                assert!(is_new, "{below} stands below {head} twice");
            }
            None => {
                head = line.trim_end_matches(':').to_owned();
                assert!(!all.contains_key(&head), "{head} stands there twice");
            }
        }
    }
    all
}

fn json(server: &Server, command: &str) -> Value {
    let answer = http::get(server.admin(), &format!("/commands/{command}"), &[]);
    let answer = answer.expect("an answer");
    assert_eq!(answer.status, 200);
    serde_json::from_slice(&answer.body).expect("whole")
}

fn json_lists(value: &Value, shown: fn(&Value) -> String) -> Lists {
    let lists = value.as_object().expect("an object").iter().map(|(head, list)| {
        let list = list.as_array().expect("a list");
        let set: BTreeSet<String> = list.iter().map(shown).collect();
        assert_eq!(set.len(), list.len(), "something of {head} stands there twice");
        (head.clone(), set)
    });
    lists.collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn hex(value: &Value) -> String {
    format!("{:#x}", value.as_i64().expect("a number"))
}

/// What everybody watches and owns is in every listing, once, and whoever reads nothing of it keeps
/// nobody waiting.
#[test]
fn all_of_many_are_listed() {
    let server = Server::start(Kind::subject(), &[ON]);
    let mut one = server.connect(TIMEOUT);
    let (mut by_session, mut by_path, mut owned) = (Lists::new(), Lists::new(), Lists::new());
    let mut watch = |client: &mut RawClient, path: &str| {
        client.call(op::EXISTS, &request::path_watch(path, true)).expect("a reply");
        let session = format!("{:#x}", id(client));
        by_session.entry(session.clone()).or_default().insert(path.to_owned());
        by_path.entry(path.to_owned()).or_default().insert(session);
    };
    for number in 0..MANY {
        watch(&mut one, &format!("/watched-by-one-session-only-{number}"));
    }
    let mut crowd: Vec<RawClient> = (0..CROWD).map(|_| server.connect(TIMEOUT)).collect();
    for client in &mut crowd {
        watch(client, "/crowded");
    }
    let mut create = |client: &mut RawClient, path: &str| {
        let reply = client.call(op::CREATE, &request::create(path, None, mode::EPHEMERAL));
        assert_eq!(reply.expect("a reply").err, 0, "{path}");
        owned.entry(format!("{:#x}", id(client))).or_default().insert(path.to_owned());
    };
    for number in 0..OWNED {
        create(&mut one, &format!("/owned-{number}"));
    }
    for (number, client) in crowd.iter_mut().enumerate() {
        create(client, &format!("/own-{number}"));
    }

    // These read nothing.
    let unread = ["wchc", "wchp", "dump", "cons"].map(|word| {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(word.as_bytes()).expect("it takes a word");
        stream
    });
    assert_eq!(ask(server.address(), "ruok").expect("an answer"), "imok");
    drop(unread);

    let word = |word| ask(server.address(), word).expect("an answer");
    assert!(lists(&word("wchc")) == by_session, "wchc");
    assert!(lists(&word("wchp")) == by_path, "wchp");
    let dump = word("dump");
    let ephemerals = dump.split("Sessions with Ephemerals").nth(1).expect("they are there");
    let ephemerals = ephemerals.split("Connections dump:").next().expect("its part");
    assert!(lists(ephemerals.split_once('\n').expect("lines").1) == owned, "dump");
    let sets = dump.lines().next_back().expect("a line");
    assert!(sets.contains("sessionId: 0x"), "{sets}");
    assert_eq!(dump.lines().filter(|line| line.starts_with("\t0x")).count(), CROWD + 1);
    assert_eq!(word("cons").lines().filter(|line| line.contains("sid=")).count(), CROWD + 1);
    let clients = |line: &&str| line.starts_with(" /127.0.0.1");
    assert!(word("stat").lines().filter(clients).count() > CROWD);

    let shown = |session: &String| hex(&serde_json::from_str(session).expect("a number"));
    let by_hex = |lists: Lists| -> Lists {
        lists.into_iter().map(|(session, its)| (shown(&session), its)).collect()
    };
    let watches = json(&server, "watches");
    let watches = json_lists(&watches["session_id_to_watched_paths"], text);
    assert!(by_hex(watches) == by_session, "watches");
    let watches = json(&server, "watches_by_path");
    assert!(json_lists(&watches["path_to_session_ids"], hex) == by_path, "watches_by_path");
    let dump = json(&server, "dump");
    let ephemerals = json_lists(&dump["session_id_to_ephemeral_paths"], text);
    assert!(by_hex(ephemerals) == owned, "dump over HTTP");
    let sessions = json_lists(&dump["expiry_time_to_session_ids"], hex);
    assert_eq!(sessions.values().map(BTreeSet::len).sum::<usize>(), CROWD + 1);
    for command in ["connections", "stats"] {
        let connections = json(&server, command);
        let count = connections["connections"].as_array().expect("a list").len();
        assert!(count > CROWD, "{command}");
    }
}

/// Paths of a listing that is more than all buffers on the way take, in bytes.
const LONG_PATH: usize = 4000;

fn watched_by_long_paths(server: &Server) -> RawClient {
    let mut client = server.connect(TIMEOUT);
    for number in 0..MANY {
        let path = format!("/{number}-{}", "x".repeat(LONG_PATH));
        client.call(op::EXISTS, &request::path_watch(&path, true)).expect("a reply");
    }
    client
}

/// Asks for a listing and reads nothing of it.
fn ask_and_read_nothing(server: &Server, command: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.admin()).expect("a connection");
    let request = format!("GET /commands/{command} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it takes a request");
    stream
}

/// More of them than all that may wait.
#[test]
fn no_other_command_waits_for_a_listing_that_nobody_reads() {
    let server = Server::start(Kind::subject(), &[ON]);
    let _watching = watched_by_long_paths(&server);
    let _unread: Vec<TcpStream> =
        (0..15).map(|_| ask_and_read_nothing(&server, "watches")).collect();
    for _ in 0..3 {
        for command in ["ruok", "monitor", "watch_summary", "is_read_only"] {
            assert!(json(&server, command)["error"].is_null(), "{command}");
        }
        assert_eq!(ask(server.address(), "ruok").expect("an answer"), "imok");
    }
}

/// They would keep their turns until the server gave up their connections.
#[test]
fn who_reads_is_told_everything_though_others_who_asked_before_do_not() {
    let server = Server::start(
        Kind::subject(),
        &[ON, "admin.idleTimeout=600000", "maxSessionTimeout=40000"],
    );
    let _watching = watched_by_long_paths(&server);
    let _unread = [ask_and_read_nothing(&server, "watches"), {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.write_all(b"wchp").expect("it takes a word");
        stream
    }];
    let text = ask_within(server.address(), "wchc", PATIENCE).expect("an answer");
    assert_eq!(text.lines().filter(|line| line.len() > LONG_PATH).count(), MANY);
    let watches = json(&server, "watches_by_path");
    assert_eq!(watches["path_to_session_ids"].as_object().expect("an object").len(), MANY);
}

/// The end of the connection is all that says that an answer is whole.
#[test]
fn who_pauses_is_told_everything_or_that_it_is_not_everything() {
    /// Longer than whoever does not read keeps others waiting.
    const PAUSE: Duration = Duration::from_secs(5);
    let server = Server::start(Kind::subject(), &[]);
    let _watching = watched_by_long_paths(&server);
    for others_wait in [false, true] {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        stream.write_all(b"wchp").expect("it takes a word");
        let mut bytes = vec![0; 64 << 10];
        stream.read_exact(&mut bytes).expect("a beginning");
        let paused = Instant::now();
        if others_wait {
            let text = ask_within(server.address(), "wchp", PATIENCE).expect("an answer");
            assert_eq!(text.lines().filter(|line| line.len() > LONG_PATH).count(), MANY);
        }
        std::thread::sleep(PAUSE.saturating_sub(paused.elapsed()));
        let ended = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let paths = text.lines().filter(|line| line.len() > LONG_PATH).count();
        match ended {
            Ok(_) => assert_eq!(paths, MANY, "a clean end with others waiting: {others_wait}"),
            Err(error) => {
                assert!(others_wait, "{error}");
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
            }
        }
    }
}

/// As `echo wchc | nc` asks: the end of what is said is not the end of the connection.
#[test]
fn who_says_no_more_is_told_everything() {
    let server = Server::start(Kind::subject(), &[]);
    let mut client = server.connect(TIMEOUT);
    for number in 0..MANY {
        let path = format!("/{number}");
        client.call(op::EXISTS, &request::path_watch(&path, true)).expect("a reply");
    }
    for word in ["wchc", "wchp"] {
        let mut stream = TcpStream::connect(server.address()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        stream.write_all(word.as_bytes()).expect("it takes a word");
        stream.shutdown(std::net::Shutdown::Write).expect("the end");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        assert!(text.ends_with("\n\n"), "{word}");
        assert!(text.lines().count() > MANY, "{word}");
    }
}
