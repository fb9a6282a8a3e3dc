//! The AdminServer of an idle and of a busy server, alone and in an ensemble: every answer has the
//! shape of Apache ZooKeeper's, line by line, and the same values where nothing but requests makes
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::http::{self, Answer};
use compat_tests::request::{self, mode, op};
use compat_tests::{
    ConnectRequest, Ensemble, Kind, RawClient, Server, four_letter_words, metrics_page, tree,
};

/// Each command with its other names, but for those that take a snapshot or a body.
const COMMANDS: [(&str, &[&str]); 26] = [
    ("configuration", &["conf", "config"]),
    ("connections", &["cons"]),
    ("dirs", &[]),
    ("dump", &[]),
    ("environment", &["env", "envi"]),
    ("get_trace_mask", &["gtmk"]),
    ("hash", &[]),
    ("initial_configuration", &["icfg"]),
    ("is_read_only", &["isro"]),
    ("last_snapshot", &["lsnp"]),
    ("leader", &["lead"]),
    ("monitor", &["mntr"]),
    ("observers", &["obsr"]),
    ("ruok", &[]),
    ("server_stats", &["srvr"]),
    ("set_trace_mask", &["stmk"]),
    ("stats", &["stat"]),
    ("system_properties", &["sysp"]),
    ("voting_view", &[]),
    ("watch_summary", &["wchs"]),
    ("watches", &["wchc"]),
    ("watches_by_path", &["wchp"]),
    ("zabstate", &[]),
    ("connection_stat_reset", &["crst"]),
    ("observer_connection_stat_reset", &["orst"]),
    ("stat_reset", &["srst"]),
];

/// Figures of `monitor` that only requests make, and so come to the same.
const COUNTED: [&str; 9] = [
    "server_state",
    "peer_state",
    "znode_count",
    "watch_count",
    "ephemerals_count",
    "approximate_data_size",
    "local_sessions",
    "outstanding_requests",
    "stale_sessions_expired",
];

/// ZooKeeper has it of every thousandth transaction only.
const OF_EVERY_THOUSANDTH: &str = "_ack_latency";

const ON: &str = "admin.enableServer=true";
const AUTHORIZED: &str = "Authorization: digest u:p";
/// `u:p` as the scheme digest keeps it.
const DIGEST_OF_U: &str = "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=";
const ALL: i32 = 31;

fn call(client: &mut RawClient, op: i32, body: &[u8]) {
    let reply = client.call(op, body).expect("a reply");
    assert_eq!(reply.err, 0, "op {op}");
}

fn get(server: &Server, path: &str) -> Answer {
    http::get(server.admin(), path, &[]).expect("an answer")
}

/// Numbers blotted out, and what a server says of itself.
fn blot(line: &str) -> String {
    let quoted = line.trim().trim_start_matches("\"version\" : \"3.9.5-").trim_end_matches(',');
    if quoted.len() < line.trim().len() - 1 && quoted.ends_with(" UTC\"") {
        return "version".to_owned();
    }
    let mut out = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' if out.ends_with("<n>") => {}
            '0'..='9' => out.push_str("<n>"),
            _ => out.push(c),
        }
    }
    out.replace(" -<n>", " <n>")
}

fn without_comma(line: &str) -> String {
    line.trim_end_matches(',').to_owned()
}

/// A command's answer without what depends on the run.
fn shape(server: &Server, command: &str, text: &str) -> Vec<String> {
    let blotted = || text.split('\n').map(blot);
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    match command {
        // Values are the machine's.
        "environment" => text
            .split('\n')
            .map(|line| line.split(" : ").next().unwrap_or_default().into())
            .collect(),
        // There is no JVM.
        "system_properties" => {
            let lines: Vec<String> = blotted().collect();
            lines[lines.len() - 3..].to_vec()
        }
        // The order of getters is that of the JVM.
        "server_stats" | "stats" => sorted(blotted().map(|line| without_comma(&line)).collect()),
        // ZooKeeper keeps sets that nobody is in any more.
        "dump" => blotted()
            .filter(|line| !line.contains("\"<n>\" : [ ]"))
            .map(|line| without_comma(&line))
            .collect(),
        // The order is that of a hash map.
        "watches" | "watches_by_path" => {
            let words = text.split_whitespace().map(|word| blot(word.trim_end_matches(',')));
            sorted(words.collect())
        }
        "configuration" => text
            .split('\n')
            .map(|line| match line.split_once(" : ") {
                Some((key @ ("  \"client_port\"" | "  \"server_id\""), _)) => {
                    format!("{key} : <n>")
                }
                Some((key, value)) if value.contains("/data/version-2\"") => key.to_owned(),
                _ => line.to_owned(),
            })
            .collect(),
        "connections" => {
            let blotted = blotted().map(|line| match line.split_once("\"last_operation\" : \"") {
                Some((ahead, _)) => format!("{ahead}last_operation"),
                None => line,
            });
            blotted.collect()
        }
        "initial_configuration" => {
            let folder = server.data_dir().display().to_string();
            text.replace(&folder, "<data>").split('\n').map(blot).collect()
        }
        // The zxids are those of every 128th transaction in both.
        "hash" => text
            .split('\n')
            .map(|line| if line.contains("\"digest\" :") { blot(line) } else { line.to_owned() })
            .collect(),
        "dirs" | "last_snapshot" | "zabstate" | "leader" => blotted().collect(),
        // Its own line is the only one with an address for clients, and who leads is a matter of
        // chance.
        "voting_view" => sorted(blotted().collect()),
        _ => text.split('\n').map(str::to_owned).collect(),
    }
}

/// The key of a figure that a leader has of each other server, without that one's number: which
/// servers those are is a matter of who leads.
fn without_server(key: &str) -> String {
    let is_part = |part: &&str| !part.bytes().all(|byte| byte.is_ascii_digit());
    if key.ends_with("_learner_handler_qp_size") {
        key.split('_').filter(is_part).collect::<Vec<_>>().join("_")
    } else {
        key.to_owned()
    }
}

/// Whether ZooKeeper does not have a key, which may have the number of a server in front.
fn is_own(key: &str) -> bool {
    let of_all = key.split_once('_').filter(|(server, _)| server.parse::<u8>().is_ok());
    metrics_page::is_own(of_all.map_or(key, |(_, name)| name))
}

/// Keys of `monitor` with the types of their values.
fn figures(text: &str) -> Vec<(String, &'static str, String)> {
    let lines =
        text.split('\n').filter_map(|line| line.trim().trim_end_matches(',').split_once(" : "));
    lines
        .map(|(key, value)| {
            let kind = match value {
                _ if value.starts_with('"') => "text",
                "null" => "null",
                _ if value.parse::<i64>().is_ok() => "integer",
                _ if value.parse::<f64>().is_ok() => "double",
                _ => panic!("{key} is {value}"),
            };
            (without_server(key.trim_matches('"')), kind, value.to_owned())
        })
        .collect()
}

/// What both say, and the difference of what they say of `monitor`.
fn differences(what: &str, expected: &str, actual: &str) -> Vec<String> {
    let (expected, actual) = (figures(expected), figures(actual));
    let known: BTreeMap<&str, (&str, &str)> =
        expected.iter().map(|(key, kind, value)| (key.as_str(), (*kind, value.as_str()))).collect();
    let is_of_ensemble = known.contains_key("peer_state");
    let mut wrong = Vec::new();
    let first = |all: &[(String, &str, String)]| -> Vec<String> {
        let named = ["version", "server_state", "peer_state", "command", "error"];
        let found = all.iter().filter(|(key, ..)| named.contains(&key.as_str()));
        found.map(|(key, ..)| key.clone()).collect()
    };
    if first(&expected) != first(&actual) {
        wrong.push(format!("{what}: {:?}, not {:?}", first(&actual), first(&expected)));
    }
    for (key, kind, value) in &actual {
        match known.get(key.as_str()) {
            None if is_own(key) || key.ends_with(OF_EVERY_THOUSANDTH) => {}
            None => wrong.push(format!("{what}: ZooKeeper has no {key}")),
            Some((expected, _)) if expected != kind => {
                wrong.push(format!("{what}: {key} is {kind}, not {expected}"));
            }
            // ZooKeeper counts the list of servers in the tree at times.
            Some(_) if key == "approximate_data_size" && is_of_ensemble => {}
            Some((_, expected)) if COUNTED.contains(&key.as_str()) && expected != value => {
                wrong.push(format!("{what}: {key} is {value}, not {expected}"));
            }
            Some(_) => {}
        }
    }
    let keys = |all: &[(String, &str, String)]| -> Vec<String> {
        all.iter().map(|(key, ..)| key.clone()).collect()
    };
    let missing = four_letter_words::missing_keys(&keys(&expected), &keys(&actual));
    wrong.extend(missing.iter().map(|key| format!("{what}: {key} is missing")));
    wrong
}

/// What was asked, and what came of it.
type Said = Vec<(String, String)>;

/// Every command, and each by all of its names.
fn look(server: &Server, state: &str, said: &mut Said) {
    for (command, others) in COMMANDS {
        let answer = get(server, &format!("/commands/{command}"));
        let text = answer.text();
        let kind = answer.header("content-type").unwrap_or_default();
        let shape_of = |text: &str| match command {
            "monitor" => String::new(),
            _ => shape(server, command, text).join("\n"),
        };
        let shown = match command {
            "monitor" => text.clone(),
            // Jackson shows an address as reflection finds its getters, in another order in some
            // runs of the same JVM.
            "zabstate" => sorted_lines(&shape_of(&text)),
            _ => shape_of(&text),
        };
        said.push((format!("{command}, {state}"), format!("{} {kind}\n{shown}", answer.status)));
        for other in others {
            let answer = get(server, &format!("/commands/{other}"));
            assert_eq!(shape_of(&answer.text()), shape_of(&text), "{other} is {command}");
            assert!(answer.text().contains(&format!("\"command\" : \"{command}\"")), "{other}");
        }
    }
}

fn sorted_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches(',')).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// The same on both, but for `monitor`, of which we have a part.
fn compare(expected: &Said, actual: &Said) {
    let mut wrong = Vec::new();
    for ((what, expected), (_, actual)) in expected.iter().zip(actual) {
        if what.starts_with("monitor") {
            wrong.extend(differences(what, expected, actual));
        } else if expected != actual {
            wrong.push(format!("{what}\n--- ZooKeeper\n{expected}\n--- here\n{actual}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(expected.len(), actual.len());
}

/// What `monitor` shows that its shape has to show too is left in the text: there is nothing else
/// to compare.
fn course(server: &Server) -> Said {
    let mut said = Said::new();
    look(server, "idle", &mut said);
    let mut client = server.connect(20_000);
    call(&mut client, op::CREATE, &request::create("/e1", Some(b"data"), mode::EPHEMERAL));
    call(&mut client, op::CREATE, &request::create("/p", None, mode::PERSISTENT));
    call(&mut client, op::GET_DATA, &request::path_watch("/e1", true));
    call(&mut client, op::GET_DATA, &request::path_watch("/p", true));
    call(&mut client, op::GET_CHILDREN, &request::path_watch("/", true));
    look(server, "busy", &mut said);
    for _ in 0..300 {
        call(&mut client, op::SET_DATA, &request::set_data("/e1", b"x", -1));
    }
    look(server, "after 300 writes", &mut said);
    let mask = |query: &str, said: &mut Said| {
        let answer = get(server, &format!("/commands/stmk{query}"));
        said.push((format!("stmk{query}"), answer.text()));
    };
    for query in ["?traceMask=abc", "?traceMask=258", "?traceMask=", "?traceMask=9&traceMask=10"] {
        mask(query, &mut said);
    }
    said.push(("gtmk after it".into(), get(server, "/commands/gtmk").text()));
    statuses(server, &mut said);
    client.close().expect("closed");
    said
}

/// What is no command, and other methods.
fn statuses(server: &Server, said: &mut Said) {
    for (method, path) in [
        ("GET", "/commands/nosuch"),
        ("POST", "/commands/nosuch"),
        ("GET", "/commands/CONF"),
        ("GET", "/commands/ruok/"),
        ("GET", "/commands/ruok/x"),
        ("GET", "/commands/ruo%6B"),
        ("GET", "/commands/%22x%3Cb%3E"),
        ("GET", "/commands"),
        ("GET", "/commands/"),
        ("GET", "/commands?x=1"),
        ("POST", "/commands"),
        ("HEAD", "/commands/ruok"),
        ("PUT", "/commands/ruok"),
        ("DELETE", "/commands/ruok"),
        ("TRACE", "/commands/ruok"),
        ("OPTIONS", "/commands/ruok"),
        ("PATCH", "/commands/ruok"),
    ] {
        let body = (method == "POST").then_some(&b"x"[..]);
        let answer = http::send(server.admin(), method, path, &[], body).expect("an answer");
        let kind = answer.header("content-type").filter(|kind| *kind == "application/json");
        // Ferrokeeper's own.
        let own = |text: String, name: &str| {
            text.replace(&format!("<a href=\"/commands/{name}\">{name}</a>\n<br/>\n"), "")
        };
        let text = ["hot_paths", "log_level"].into_iter().fold(answer.text(), own);
        let shown = format!("{} {kind:?} {text}", answer.status);
        said.push((format!("{method} {path}"), shown));
    }
    for path in ["/", "/x", "/commandsx"] {
        let answer = get(server, path);
        let kind = answer.header("content-type").unwrap_or_default();
        said.push((format!("GET {path}"), format!("{} {kind}", answer.status)));
    }
}

#[test]
fn alone() {
    let lines = [ON, "tickTime=2000"];
    let expected = course(&Server::start(Kind::Reference, &lines));
    let server = Server::start(Kind::subject(), &lines);
    compare(&expected, &course(&server));
    // ZooKeeper answers 500 here.
    if server.kind() == Kind::Ferrokeeper {
        let answer = http::send(server.admin(), "POST", "/commands/ruok", &[], Some(b""));
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
        let answer = http::get(server.admin(), "/commands/restore", &[AUTHORIZED]);
        let answer = answer.expect("an answer");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
        let alive = get(&server, "/health/live");
        assert_eq!((alive.status, alive.text().contains("\"live\" : true")), (200, true));
        let ready = get(&server, "/health/ready");
        assert_eq!((ready.status, ready.text().contains("\"ready\" : true")), (200, true));
    }
}

/// Who may take a snapshot, and how often.
fn authorized(server: &Server) -> Said {
    let mut said = Said::new();
    let mut ask = |what: &str, method: &str, path: &str, authorization: Option<&str>| {
        let header = authorization.map(|shown| format!("Authorization: {shown}"));
        let headers: Vec<&str> = header.as_deref().into_iter().collect();
        let body = (method == "POST").then_some(&b"no snapshot"[..]);
        let answer = http::send(server.admin(), method, path, &headers, body).expect("an answer");
        let kind = answer.header("content-type").unwrap_or_default();
        let zxid = answer.header("last_zxid").unwrap_or_default();
        let has_size = answer.header("snapshot_size").is_some();
        let text = match answer.status {
            // Here it says why.
            429 => String::new(),
            _ => answer.text(),
        };
        let shown = format!("{} {kind} {zxid} {has_size}\n{text}", answer.status);
        said.push((format!("{what}: {method} {path} {authorization:?}"), shown));
    };
    let snapshot = "/commands/snapshot?streaming=false";
    let refused =
        ["nope a:b", "digest", "digest a b c", "DIGEST a:b", "digest  a:b", "world anyone"];
    ask("open", "GET", snapshot, None);
    ask("open", "GET", "/commands/snap", None);
    ask("open", "GET", "/commands/restore", None);
    ask("open", "POST", "/commands/rest", None);
    for shown in refused {
        ask("open", "GET", snapshot, Some(shown));
    }
    ask("open", "GET", snapshot, Some("digest any:thing"));
    ask("a second one", "GET", snapshot, Some("ip"));
    ask("a second one", "GET", "/commands/snap", Some("ip 10.0.0.1"));

    let mut client = server.connect(20_000);
    let acl = [(ALL, "digest", DIGEST_OF_U)];
    call(&mut client, op::SET_ACL, &request::set_acl("/", &acl));
    for shown in ["digest any:thing", "digest u:q", "ip", "digest u:p", "digest super:secret"] {
        ask("for u only", "GET", snapshot, Some(shown));
    }
    ask("for u only", "POST", "/commands/restore", Some("digest u:q"));
    client.close().expect("closed");
    let mut client = server.connect(20_000);
    call(&mut client, op::AUTH, &request::auth("digest", b"u:p"));
    // Of "ü:p" in UTF-8, read in ISO 8859-1.
    let acl = [(ALL, "digest", "Ã¼:dO8TXDIXAEkN68YsI/egOZetzks="), (ALL, "digest", DIGEST_OF_U)];
    call(&mut client, op::SET_ACL, &request::set_acl("/", &acl));
    ask("for ü only", "GET", snapshot, Some("digest ü:p"));
    // Not all permissions.
    let acl = [(ALL - 1, "world", "anyone"), (ALL, "digest", DIGEST_OF_U)];
    call(&mut client, op::SET_ACL, &request::set_acl("/", &acl));
    ask("for anyone but to read", "GET", snapshot, Some("ip"));
    ask("for anyone but to read", "GET", snapshot, Some("digest u:p"));
    client.close().expect("closed");
    said
}

#[test]
fn who_may_take_a_snapshot() {
    let lines = [
        ON,
        // ZooKeeper takes them for microseconds.
        "admin.rateLimiterIntervalInMS=2000000000",
        "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=",
    ];
    let expected = authorized(&Server::start(Kind::Reference, &lines));
    let actual = authorized(&Server::start(Kind::subject(), &lines));
    compare(&expected, &actual);
}

const SUPER: &str = "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=";
/// Who comes through a proxy does not come over loopback.
const FROM_ELSEWHERE: &str = "Forwarded: for=10.0.0.1";

/// Other than over loopback it takes more than what everybody may do: not so on ZooKeeper, which is
/// what the key brings back.
#[test]
fn other_than_over_loopback_world_is_not_enough() {
    const INTERVAL: &str = "admin.rateLimiterIntervalInMS=0";
    let status = |server: &Server, method: &str, path: &str, shown: &str| {
        let shown = format!("Authorization: {shown}");
        let headers = [FROM_ELSEWHERE, shown.as_str()];
        let body = (method == "POST").then_some(&b"no snapshot"[..]);
        let answer = http::send(server.admin(), method, path, &headers, body).expect("an answer");
        let names_key = answer.text().contains("admin.remote.allowWorld=true");
        assert_eq!(answer.status == 403, names_key, "{}", answer.text());
        assert_eq!(names_key, answer.text().contains("over loopback"), "{}", answer.text());
        answer.status
    };
    let snapshot = "/commands/snapshot?streaming=false";
    let server = Server::start(Kind::Ferrokeeper, &[ON, SUPER, INTERVAL]);
    let all = |shown: &str| {
        [("GET", snapshot), ("POST", "/commands/restore"), ("GET", "/commands/stat_reset")]
            .map(|(method, path)| status(&server, method, path, shown))
    };
    for shown in ["digest any:thing", "digest u:p", "ip"] {
        assert_eq!(all(shown), [403; 3], "{shown}");
    }
    // What was sent is none.
    assert_eq!(all("digest super:secret"), [200, 500, 200]);
    let mut client = server.connect(20_000);
    let acl = [(ALL, "world", "anyone"), (ALL, "digest", DIGEST_OF_U)];
    call(&mut client, op::SET_ACL, &request::set_acl("/", &acl));
    assert_eq!(all("digest any:thing"), [403; 3]);
    assert_eq!(all("digest u:p"), [200, 403, 200]);
    client.close().expect("closed");

    let lines = [ON, SUPER, INTERVAL, "admin.remote.allowWorld=true"];
    let server = Server::start(Kind::Ferrokeeper, &lines);
    assert_eq!(status(&server, "GET", snapshot, "digest any:thing"), 200);
    assert_eq!(status(&server, "POST", "/commands/restore", "digest any:thing"), 500);
}

/// Whoever is refused again and again does not fill the disk.
#[test]
fn refusals_do_not_flood_the_log() {
    let server = Server::start(Kind::Ferrokeeper, &[ON]);
    let began = Instant::now();
    for _ in 0..300 {
        assert_eq!(get(&server, "/commands/snapshot").status, 401);
    }
    let most = usize::try_from(began.elapsed().as_secs()).expect("a short time") + 1;
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("FK0603")).count();
    assert!((1..=most).contains(&lines), "{lines} lines in {most} s:\n{log}");
}

/// What is streamed here, ZooKeeper restores.
#[test]
fn a_snapshot_is_what_zookeeper_restores() {
    let source = Server::start(Kind::subject(), &[ON]);
    let mut client = source.connect(20_000);
    for number in 0..2000 {
        let path = format!("/n{number:04}");
        let body = request::create(&path, Some(&[b'x'; 1000]), mode::PERSISTENT);
        call(&mut client, op::CREATE, &body);
    }
    let taken = http::get(source.admin(), "/commands/snapshot", &[AUTHORIZED]).expect("an answer");
    assert_eq!(
        (taken.status, taken.header("content-type")),
        (200, Some("application/octet-stream"))
    );
    assert_eq!(taken.header("snapshot_size"), Some(taken.body.len().to_string().as_str()));
    let zxid = taken.header("last_zxid").expect("a zxid").to_owned();
    assert!(taken.body.starts_with(b"ZKSN"), "a snapshot");
    // Not in it any more.
    call(&mut client, op::CREATE, &request::create("/later", None, mode::PERSISTENT));

    let to = Server::start(Kind::Reference, &[ON]);
    let restored = http::send(
        to.admin(),
        "POST",
        "/commands/restore",
        &[AUTHORIZED, "Content-Type: application/octet-stream"],
        Some(&taken.body),
    );
    let restored = restored.expect("an answer");
    let number = i64::from_str_radix(zxid.trim_start_matches("0x"), 16).expect("a zxid");
    assert_eq!(restored.status, 200, "{}", restored.text());
    assert!(restored.text().contains(&format!("\"last_zxid\" : {number},")), "{}", restored.text());
    call(&mut client, op::DELETE, &request::path_version("/later", -1));
    let mut there = to.connect(20_000);
    let mut trees = [&mut client, &mut there].map(|client| tree::walk(client).expect("a tree"));
    for tree in &mut trees {
        // Its children have come and gone.
        tree.remove("/");
    }
    let [expected, actual] = trees;
    assert_eq!(expected, actual);
}

/// Of the session in a snapshot: it must not expire before the restored tree was looked at, on a
/// slow machine either.
const OWNERS_TIMEOUT: i32 = 10_000;

/// A server with a tree of its own, and a snapshot of it.
fn source(kind: Kind) -> (Server, RawClient, Answer) {
    let source = Server::start(kind, &[ON]);
    let mut client = source.connect(OWNERS_TIMEOUT);
    for number in 0..200 {
        let path = format!("/n{number:04}");
        let body = request::create(&path, Some(&[b'x'; 1000]), mode::PERSISTENT);
        call(&mut client, op::CREATE, &body);
    }
    call(&mut client, op::CREATE, &request::create("/e", Some(b"of one"), mode::EPHEMERAL));
    call(&mut client, op::SET_ACL, &request::set_acl("/n0000", &[(ALL, "digest", DIGEST_OF_U)]));
    let taken = http::get(source.admin(), "/commands/snapshot", &[AUTHORIZED]).expect("an answer");
    assert_eq!(taken.status, 200);
    (source, client, taken)
}

fn restore(server: &Server, snapshot: &[u8]) -> Answer {
    let headers = [AUTHORIZED, "Content-Type: application/octet-stream"];
    let path = "/commands/restore";
    http::send(server.admin(), "POST", path, &headers, Some(snapshot)).expect("an answer")
}

fn tree_of(server: &Server) -> tree::Tree {
    let mut client = server.connect(20_000);
    call(&mut client, op::AUTH, &request::auth("digest", b"u:p"));
    let tree = tree::walk(&mut client).expect("a tree");
    client.close().expect("closed");
    tree
}

/// What a server says of a snapshot that it is sent, and what it has then.
fn restored(kind: Kind, snapshot: &Answer) -> (Said, tree::Tree, Server) {
    let server = Server::start(kind, &[ON]);
    let mut client = server.connect(20_000);
    call(&mut client, op::CREATE, &request::create("/mine", None, mode::PERSISTENT));
    let answer = restore(&server, &snapshot.body);
    let said = vec![("restored".to_owned(), format!("{} {}", answer.status, answer.text()))];
    let tree = tree_of(&server);
    (said, tree, server)
}

/// What either streams, both restore.
#[test]
fn a_snapshot_takes_the_place_of_what_is_served() {
    for from in [Kind::Reference, Kind::subject()] {
        let (source, client, snapshot) = source(from);
        let (theirs, expected, reference) = restored(Kind::Reference, &snapshot);
        let (ours, actual, mut server) = restored(Kind::subject(), &snapshot);
        compare(&theirs, &ours);
        assert_eq!(expected, actual);
        assert_eq!(actual.len(), 200 + 5, "{:?}", actual.keys());
        drop((source, client, reference));
        if server.kind() != Kind::Ferrokeeper {
            continue;
        }
        server.kill();
        server.restart();
        let mut left = tree_of(&server);
        let mut expected = actual;
        for tree in [&mut left, &mut expected] {
            tree.remove("/e");
            tree.remove("/");
        }
        assert_eq!(left, expected);
    }
}

/// The sessions of a snapshot are sessions, and those who do not come are not missed for ever.
#[test]
fn a_restored_session_expires() {
    let (_source, _owner, snapshot) = source(Kind::subject());
    let server = Server::start(Kind::subject(), &[ON]);
    // Those of a snapshot that ZooKeeper restored never end.
    if server.kind() != Kind::Ferrokeeper {
        return;
    }
    assert_eq!(restore(&server, &snapshot.body).status, 200);
    let mut client = server.connect(20_000);
    let is_there = |client: &mut RawClient| {
        let reply = client.call(op::EXISTS, &request::path_watch("/e", false));
        reply.expect("a reply").err == 0
    };
    assert!(is_there(&mut client));
    let deadline = Instant::now() + Duration::from_secs(40);
    while is_there(&mut client) {
        assert!(Instant::now() < deadline, "the session does not expire");
        thread::sleep(Duration::from_millis(50));
    }
}

/// Nobody who was there takes the other state for the one of before, and nobody is kept out.
#[test]
fn a_restore_under_clients() {
    let (_source, _owner, snapshot) = source(Kind::subject());
    let mut server = Server::start(Kind::subject(), &[ON, "admin.rateLimiterIntervalInMS=0"]);
    if server.kind() != Kind::Ferrokeeper {
        return;
    }
    let (mut client, session) =
        RawClient::open(server.address(), &ConnectRequest::new(20_000)).expect("a session");
    // Beyond all that the snapshot has seen.
    call(&mut client, op::CREATE, &request::create("/mine", None, mode::PERSISTENT));
    for _ in 0..300 {
        call(&mut client, op::SET_DATA, &request::set_data("/mine", b"x", -1));
    }
    call(&mut client, op::GET_DATA, &request::path_watch("/mine", true));
    let seen = client.call(op::EXISTS, &request::path_watch("/", false)).expect("a reply").zxid;
    for round in 0..3 {
        let answer = restore(&server, &snapshot.body);
        assert_eq!(answer.status, 200, "{}", answer.text());
        // At once: what was said to be there is.
        server.kill();
        server.restart();
        assert!(tree_of(&server).contains_key("/n0199"), "round {round}");
    }
    let answer = restore(&server, &snapshot.body);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(client.call(op::EXISTS, &request::path_watch("/", false)).is_err(), "it is closed");
    let again = ConnectRequest { last_zxid_seen: seen, ..ConnectRequest::again(&session) };
    let (_, again) = RawClient::open(server.address(), &again).expect("an answer");
    assert!(again.refused(), "its session is not in the snapshot");
    let fresh = ConnectRequest { last_zxid_seen: seen, ..ConnectRequest::new(20_000) };
    let (mut client, session) = RawClient::open(server.address(), &fresh).expect("an answer");
    assert!(!session.refused());
    let reply = client.call(op::EXISTS, &request::path_watch("/mine", false)).expect("a reply");
    assert!(reply.err == -101 && reply.zxid > seen, "{reply:?}");
}

/// What is refused, with the error left out: here it says why.
fn refused_restores(server: &Server, snapshot: &[u8]) -> Said {
    let mut said = Said::new();
    let mut ask = |what: &str, authorization: &[&str], body: &[u8]| {
        let sent =
            http::send(server.admin(), "POST", "/commands/restore", authorization, Some(body));
        let answer = sent.expect("an answer");
        let text = answer.text();
        let lines = text.lines().map(|line| match line.contains("\"error\"") {
            true if answer.status >= 429 => "  error",
            _ => line,
        });
        let kind = answer.header("content-type").unwrap_or_default();
        let lines: Vec<&str> = lines.collect();
        said.push((what.to_owned(), format!("{} {kind}\n{}", answer.status, lines.join("\n"))));
    };
    ask("nobody", &[], snapshot);
    ask("no scheme", &["Authorization: nope a:b"], snapshot);
    let before = tree_of(server);
    ask("no snapshot", &[AUTHORIZED], b"no snapshot");
    ask("nothing", &[AUTHORIZED], b"");
    ask("cut", &[AUTHORIZED], &snapshot[..snapshot.len() / 2]);
    let mut flipped = snapshot.to_vec();
    flipped[snapshot.len() / 2] ^= 1;
    ask("a bit of it is another", &[AUTHORIZED], &flipped);
    assert_eq!(tree_of(server), before, "{:?}", server.kind());
    said
}

#[test]
fn a_restore_that_is_refused_changes_nothing() {
    let (_source, _owner, snapshot) = source(Kind::Reference);
    let lines = [ON, "admin.rateLimiterIntervalInMS=0"];
    let expected = refused_restores(&Server::start(Kind::Reference, &lines), &snapshot.body);
    let server = Server::start(Kind::subject(), &lines);
    compare(&expected, &refused_restores(&server, &snapshot.body));

    for (line, status) in [
        ("admin.restore.enabled=false", 503),
        // The first one counts, whatever became of it.
        ("admin.rateLimiterIntervalInMS=300000", 429),
    ] {
        let of = |kind| {
            let server = Server::start(kind, &[ON, line]);
            [&b"no snapshot"[..], &snapshot.body].map(|body| restore(&server, body).status)
        };
        let theirs = of(Kind::Reference);
        assert_eq!((theirs[1], of(Kind::subject())), (status, theirs), "{line}");
    }
    if server.kind() == Kind::Ferrokeeper {
        // Its end never comes.
        let before = tree_of(&server);
        let mut stream = TcpStream::connect(server.admin()).expect("connected");
        let head = format!(
            "POST /commands/restore HTTP/1.1\r\nHost: x\r\n{AUTHORIZED}\r\nContent-Length: \
             {}\r\n\r\n",
            snapshot.body.len()
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream.write_all(&snapshot.body[..snapshot.body.len() / 2]).expect("sent");
        stream.shutdown(Shutdown::Write).expect("shut down");
        stream.read_to_end(&mut Vec::new()).expect("an answer or none");
        assert_eq!(tree_of(&server), before);
        let left = fs::read_dir(server.data_dir().join("version-2")).expect("listed");
        let names = left.map(|entry| entry.expect("an entry").file_name().into_string());
        let names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
        assert!(!names.iter().any(|name| name.contains("upload")), "{names:?}");
    }
}

/// One by its role.
fn with_role<'a>(ensemble: &'a Ensemble, role: &str) -> &'a Server {
    let is = |server: &&Server| {
        let text = get(server, "/commands/monitor").text();
        text.contains(&format!("\"server_state\" : \"{role}\""))
    };
    ensemble.servers().iter().find(is).expect("a server of the role")
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn in_an_ensemble(kind: Kind) -> Said {
    let mut ensemble = Ensemble::start(kind, &[ON, "tickTime=2000"]);
    let mut said = Said::new();
    for role in ["leader", "follower"] {
        let server = with_role(&ensemble, role);
        let mut client = server.connect(20_000);
        call(&mut client, op::CREATE, &request::create("/e1", Some(b"data"), mode::EPHEMERAL));
        call(&mut client, op::GET_DATA, &request::path_watch("/e1", true));
        if role == "leader" {
            // A leader counts a follower from the first time that it had something for it.
            until("both followers are counted", || {
                let text = get(server, "/commands/monitor").text();
                text.matches("_learner_handler_qp_size").count() >= 2 * 5
            });
        }
        let mut of_role = Said::new();
        look(server, role, &mut of_role);
        // ZooKeeper has the text only where it is alone; and here the first entry of a term has a
        // zxid that is a multiple of 128, there it has none.
        let differs = ["initial_configuration", "hash"];
        of_role.retain(|(what, _)| !differs.iter().any(|command| what.starts_with(command)));
        said.append(&mut of_role);
        let snapshot = http::get(server.admin(), "/commands/snapshot", &[AUTHORIZED]);
        let snapshot = snapshot.expect("an answer");
        let size = snapshot.header("snapshot_size").map(str::to_owned);
        let has_all = size == Some(snapshot.body.len().to_string());
        let is_one = snapshot.body.starts_with(b"ZKSN");
        said.push((format!("snapshot, {role}"), format!("{} {has_all} {is_one}", snapshot.status)));
        if kind == Kind::Ferrokeeper {
            let ready = get(server, "/health/ready");
            assert_eq!(ready.status, 200, "{}", ready.text());
        }
        call(&mut client, op::DELETE, &request::path_version("/e1", -1));
        client.close().expect("closed");
    }
    let first = ensemble.kill_leader();
    let second = ensemble.kill_leader();
    let left =
        ensemble.server((0..3).find(|number| ![first, second].contains(number)).expect("one"));
    until("it serves no more", || get(left, "/commands/ruok").text().contains("error\" : \""));
    for command in ["ruok", "conf", "stats", "snapshot", "wchs", "leader", "isro"] {
        let text = get(left, &format!("/commands/{command}")).text();
        said.push((format!("{command}, without a leader"), text));
    }
    for command in ["environment", "get_trace_mask"] {
        let text = get(left, &format!("/commands/{command}")).text();
        let shape = shape(left, command, &text).join("\n");
        said.push((format!("{command}, without a leader"), shape));
    }
    if kind == Kind::Ferrokeeper {
        assert_eq!(get(left, "/health/live").status, 200);
        let ready = get(left, "/health/ready");
        assert_eq!(ready.status, 503);
        assert!(ready.text().contains("there is no leader"), "{}", ready.text());
    }
    said
}

#[test]
fn of_three() {
    let expected = in_an_ensemble(Kind::Reference);
    compare(&expected, &in_an_ensemble(Kind::subject()));
}
