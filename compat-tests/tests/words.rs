//! Four-letter words of an idle and of a busy server: line by line the same shape as Apache
//! ZooKeeper's, and the same numbers where nothing but requests makes them.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::four_letter_words::{ask, ask_within, missing_keys, shape};
use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, Ensemble, Kind, RawClient, Server, Session, http};

const WORDS: [&str; 15] = [
    "conf", "cons", "dirs", "dump", "envi", "gtmk", "hash", "isro", "mntr", "ruok", "srvr", "stat",
    "wchc", "wchp", "wchs",
];

/// A word, too: what telnet sends when its user interrupts it.
const TELNET_CLOSE: [u8; 4] = [0xff, 0xf4, 0xff, 0xfd];

/// Lines of `mntr` that only requests make, and so come to the same.
const COUNTED: [&str; 14] = [
    "zk_server_state",
    "zk_znode_count",
    "zk_watch_count",
    "zk_ephemerals_count",
    "zk_approximate_data_size",
    "zk_global_sessions",
    "zk_local_sessions",
    "zk_num_alive_connections",
    "zk_outstanding_requests",
    "zk_packets_received",
    "zk_bytes_received_count",
    "zk_connection_request_count",
    "zk_connection_rejected",
    "zk_stale_sessions_expired",
];

fn call(client: &mut RawClient, op: i32, body: &[u8]) {
    client.call(op, body).expect("a reply");
}

/// A word with bytes after it, in one piece.
fn ask_with(server: &Server, word: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.address()).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    stream.write_all(word).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer and the end of the stream");
    text
}

/// What a word is answered with, without what depends on the run.
fn answer(server: &Server, word: &str) -> Vec<String> {
    let text = ask(server.address(), word).expect("an answer");
    let lines = || text.lines().map(str::to_owned);
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines.dedup();
        lines
    };
    match word {
        // Values are the machine's.
        "envi" => lines().map(|line| line.split('=').next().unwrap_or_default().into()).collect(),
        // Which sessions share a time to expire depends on when they came.
        "dump" => {
            let shapes = shape(word, &text);
            let is_empty_set = |line: &String| line.starts_with("<n> expire at");
            let sets = shapes.iter().filter(|line| is_empty_set(line)).map(|line| date_shape(line));
            sorted(sets.chain(shapes.iter().filter(|line| !is_empty_set(line)).cloned()).collect())
        }
        // The order is that of a hash map.
        "wchc" | "wchp" => {
            let count = format!("{} lines", text.lines().count());
            [sorted(shape(word, &text)), vec![count]].concat()
        }
        // The zxids are those of every 128th transaction in both.
        "hash" => lines()
            .map(|line| {
                let (zxid, digest) = line.split_once(": ").expect("a zxid and a digest");
                assert!(digest.parse::<i64>().is_ok(), "{digest}");
                zxid.to_owned()
            })
            .collect(),
        "mntr" => {
            let counted = lines()
                .filter(|line| COUNTED.contains(&line.split('\t').next().unwrap_or_default()));
            [shape(word, &text), sorted(counted.collect())].concat()
        }
        // An average without a fraction is printed as 0.0, one with as 0.1.
        "srvr" | "stat" => shape(word, &text),
        "gtmk" | "isro" | "ruok" | "wchs" => vec![text],
        _ => shape(word, &text),
    }
}

/// `<n> expire at Sat Nov 21 10:15:59 UTC 2026:` with the letters of the date blotted out.
fn date_shape(line: &str) -> String {
    let (start, date) = line.split_once(" at ").unwrap_or((line, ""));
    let words: Vec<&str> = date.split(' ').collect();
    let [day, month, rest @ ..] = words.as_slice() else { panic!("no date: {line}") };
    format!("{start} at {} {} {}", day.len(), month.len(), rest.join(" "))
}

/// The same course of requests, and what every word says on the way.
fn course(server: &Server) -> Vec<(String, Vec<String>)> {
    let mut said = Vec::new();
    let mut look = |state: &str, words: &[&str]| {
        for word in words {
            said.push((format!("{word}, {state}"), answer(server, word)));
        }
    };
    // The waiting for the server has asked a number of words.
    ask(server.address(), "srst").expect("an answer");
    look("idle", &WORDS);

    let mut owner = server.connect(20_000);
    let mut watcher = server.connect(20_000);
    for path in ["/e1", "/e2"] {
        call(&mut owner, op::CREATE, &request::create(path, Some(b"data"), mode::EPHEMERAL));
    }
    call(&mut owner, op::CREATE, &request::create("/p", None, mode::PERSISTENT));
    call(&mut owner, op::GET_DATA, &request::path_watch("/e1", true));
    call(&mut watcher, op::GET_DATA, &request::path_watch("/e1", true));
    call(&mut watcher, op::EXISTS, &request::path_watch("/missing", true));
    // Words show watches of data only.
    call(&mut watcher, op::GET_CHILDREN, &request::path_watch("/", true));
    call(&mut watcher, op::ADD_WATCH, &request::path_kind("/r", 1));
    call(&mut owner, op::SET_DATA, &request::set_data("/e2", b"", 7));
    look("busy", &WORDS);

    assert_eq!(ask(server.address(), "crst").expect("an answer"), "Connection stats reset.\n");
    let cons = ask(server.address(), "cons").expect("an answer");
    for line in cons.lines().filter(|line| line.contains("sid=")) {
        assert!(line.contains("(queued=0,recved=0,sent=0,") && line.contains("lop=NA,"), "{line}");
    }
    look("after crst", &["cons"]);
    assert_eq!(ask(server.address(), "srst").expect("an answer"), "Server stats reset.\n");
    let srvr = ask(server.address(), "srvr").expect("an answer");
    assert!(srvr.contains("\nReceived: 1\n"), "{srvr}");
    look("after srst", &["mntr"]);

    for _ in 0..300 {
        call(&mut owner, op::SET_DATA, &request::set_data("/p", b"x", -1));
    }
    owner.close().expect("closed");
    look("after 300 writes", &["hash", "dump", "mntr", "wchc", "wchp", "wchs"]);

    let mut mask = b"stmk".to_vec();
    mask.extend(258_i64.to_be_bytes());
    said.push(("stmk".into(), vec![ask_with(server, &mask)]));
    said.push(("gtmk after it".into(), vec![ask_with(server, b"gtmk")]));
    said.push(("telnet's close".into(), vec![ask_with(server, &TELNET_CLOSE)]));
    said.push(("ruok with a line's end".into(), vec![ask_with(server, b"ruok\r\n")]));
    said
}

#[test]
fn busy_and_idle() {
    let expected = course(&Server::start(Kind::Reference, &["tickTime=2000"]));
    let actual = course(&Server::start(Kind::subject(), &["tickTime=2000"]));
    let mut differences = String::new();
    for ((what, expected), (_, actual)) in expected.iter().zip(&actual) {
        if expected != actual {
            differences.push_str(&format!("{what}\n  {expected:#?}\n  {actual:#?}\n"));
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert_eq!(expected.len(), actual.len());
}

#[test]
fn words_that_are_not_in_the_whitelist() {
    for kind in [Kind::Reference, Kind::subject()] {
        let server = Server::start(kind, &["4lw.commands.whitelist= ruok , nope"]);
        assert_eq!(ask_with(&server, b"ruok"), "imok");
        assert!(ask_with(&server, b"srvr").starts_with("Zookeeper version: "));
        for word in WORDS.into_iter().chain(["crst", "srst", "stmk"]) {
            if word != "ruok" && word != "srvr" {
                let refusal =
                    format!("{word} is not executed because it is not in the whitelist.\n");
                assert_eq!(ask_with(&server, word.as_bytes()), refusal, "{kind:?}");
            }
        }
        let refusal = "telnet close is not executed because it is not in the whitelist.\n";
        assert_eq!(ask_with(&server, &TELNET_CLOSE), refusal, "{kind:?}");
    }
}

/// Words of a member that serves, but for `mntr`.
const OF_A_MEMBER: [&str; 6] = ["conf", "dirs", "dump", "isro", "srvr", "stat"];

/// What each role says, and the keys of its `mntr`.
fn of_each_role(kind: Kind) -> Vec<(String, Vec<String>, Vec<String>)> {
    let ensemble = Ensemble::start(kind, &["tickTime=2000"]);
    let mut said = Vec::new();
    for server in ensemble.servers() {
        let srvr = answer(server, "srvr");
        let role = srvr.iter().find_map(|line| line.strip_prefix("Mode: ")).expect("a role");
        let is_new = said.iter().all(|(known, _, _): &(String, _, _)| known != role);
        if is_new {
            let words = OF_A_MEMBER.iter().flat_map(|word| match *word {
                // The servers' ports are another test run's each time.
                "conf" => shape_of_members(&answer(server, word)),
                word => answer(server, word),
            });
            let mntr = ask(server.address(), "mntr").expect("an answer");
            let keys = mntr.lines().map(|line| line.split('\t').next().unwrap_or_default().into());
            said.push((role.to_owned(), words.collect(), keys.collect()));
        }
    }
    said.sort();
    said
}

fn shape_of_members(lines: &[String]) -> Vec<String> {
    let blot = |line: &String| match line.split_once('=') {
        Some((key, value)) if key.starts_with("server.") || key.ends_with("Port") => {
            let shape: String =
                value.chars().map(|c| if c.is_ascii_digit() { 'n' } else { c }).collect();
            format!("{key}={}", shape.replace("nnnnn", "nnnn"))
        }
        Some(("serverId", _)) => "serverId".to_owned(),
        _ => line.clone(),
    };
    lines.iter().map(blot).collect()
}

#[test]
fn of_a_leader_and_of_a_follower() {
    let (theirs, ours) = (of_each_role(Kind::Reference), of_each_role(Kind::subject()));
    assert_eq!(theirs.len(), 2);
    for ((role, expected, their_keys), (our_role, actual, our_keys)) in theirs.iter().zip(&ours) {
        assert_eq!(role, our_role);
        assert_eq!(expected, actual, "{role}");
        // Some collectors take no more.
        assert!(our_keys.len() < 500, "{role}: {} lines", our_keys.len());
        // Summaries that never have a value are left out; the rest is in the same order.
        let common = |of: &[String], other: &[String]| -> Vec<String> {
            of.iter().filter(|key| other.contains(key)).cloned().collect()
        };
        assert_eq!(common(their_keys, our_keys), common(our_keys, their_keys), "{role}");
        let missing = missing_keys(their_keys, our_keys);
        assert_eq!(missing, [""; 0], "{role}: missing, and docs/metrics.md does not say so");
    }
}

/// The newest snapshot of a directory, that opens when somebody writes it: until then a start
/// waits. It is none then.
struct WaitedFor {
    path: PathBuf,
}

impl WaitedFor {
    fn plant(server: &Server) -> Self {
        let path = server.data_dir().join("version-2/snapshot.7fffffffff");
        let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo runs");
        assert!(made.success(), "mkfifo {}", path.display());
        Self { path }
    }

    /// The start goes on. Whoever looks at the snapshot again finds a short file.
    fn let_go(self) {
        // Without waiting for a reader: there is one, or the server does not read its directory.
        const O_NONBLOCK: i32 = 0o4000;
        let deadline = Instant::now() + Duration::from_secs(20);
        let end: File = loop {
            match OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&self.path) {
                Ok(end) => break end,
                Err(error) => assert!(Instant::now() < deadline, "nobody reads it: {error}"),
            }
            thread::sleep(Duration::from_millis(10));
        };
        let short = self.path.with_file_name("short");
        fs::write(&short, b"").expect("written");
        fs::rename(&short, &self.path).expect("renamed");
        drop(end);
    }
}

/// What a connect request is answered with until the end of the stream, and nothing if that never
/// comes.
fn connect(server: &Server, request: &ConnectRequest) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(server.address()).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    let payload = request.bytes();
    let len = u32::try_from(payload.len()).expect("it is short");
    stream.write_all(&[&len.to_be_bytes()[..], &payload].concat()).expect("sent");
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // Whoever closes with bytes unread resets.
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Some(answer),
        read => read.ok().map(|_| answer),
    }
}

/// What a server says while it reads its data directory, and the session of before it then gives
/// back.
fn while_it_reads(kind: Kind) -> (Vec<(String, Vec<String>)>, bool) {
    let mut server = Server::start(kind, &["admin.enableServer=true"]);
    let request = ConnectRequest::new(20_000);
    let (mut client, session): (_, Session) =
        RawClient::open(server.address(), &request).expect("a session");
    call(&mut client, op::CREATE, &request::create("/e", None, mode::EPHEMERAL));
    server.kill();
    let snapshot = WaitedFor::plant(&server);
    server.begin();
    let deadline = Instant::now() + Duration::from_secs(40);
    let patience = Duration::from_millis(300);
    while !ask_within(server.address(), "ruok", patience).is_ok_and(|said| said == "imok") {
        assert!(Instant::now() < deadline, "it does not answer");
        thread::sleep(Duration::from_millis(20));
    }

    let mut said = Vec::new();
    for word in WORDS.into_iter().chain(["crst", "srst"]) {
        let text = match word {
            // Values are the machine's.
            "envi" => answer(&server, word),
            _ => vec![ask_with(&server, word.as_bytes())],
        };
        said.push((word.to_owned(), text));
    }
    let mut mask = b"stmk".to_vec();
    mask.extend(258_i64.to_be_bytes());
    said.push(("stmk".into(), vec![ask_with(&server, &mask)]));
    said.push(("telnet's close".into(), vec![ask_with(&server, &TELNET_CLOSE)]));
    for (what, request) in [("a new session", request), ("again", ConnectRequest::again(&session))]
    {
        said.push((what.into(), vec![format!("{:?}", connect(&server, &request))]));
    }
    for command in ["ruok", "server_stats", "monitor", "leader"] {
        let path = format!("/commands/{command}");
        let text = http::get(server.admin(), &path, &[]).expect("an answer").text();
        let state = |line: &&str| line.contains("server_state") || line.contains("\"error\"");
        let lines = text.lines().filter(state).map(str::to_owned).collect();
        said.push((path, lines));
    }
    if kind == Kind::Ferrokeeper {
        let ready = http::get(server.admin(), "/health/ready", &[]).expect("an answer");
        assert_eq!(ready.status, 503, "{}", ready.text());
    }

    snapshot.let_go();
    server.wait_until_serving().expect("it serves");
    let (mut client, again) =
        RawClient::open(server.address(), &ConnectRequest::again(&session)).expect("a connection");
    let reply = client.call(op::EXISTS, &request::path_watch("/e", false)).expect("a reply");
    assert_eq!(reply.err, 0, "{kind:?}");
    (said, again.id == session.id)
}

/// Nobody is told anything that is final.
#[test]
fn while_the_data_directory_is_read() {
    let (expected, theirs) = while_it_reads(Kind::Reference);
    let (actual, ours) = while_it_reads(Kind::subject());
    let serves_nobody = "This ZooKeeper instance is not currently serving requests\n";
    assert!(expected.contains(&("srvr".into(), vec![serves_nobody.into()])), "{expected:#?}");
    assert_eq!(expected, actual);
    assert!(theirs && ours, "the session goes on: {theirs} {ours}");
}
