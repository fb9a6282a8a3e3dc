//! Changes of the list of servers while clients are served: who joins and who leaves, the leader
//! too, and how a change is refused.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::four_letter_words::ask;
use compat_tests::load::{Load, Writes};
use compat_tests::request::{self, op};
use compat_tests::{Ensemble, Kind, RawClient, Reply, Server, Stat, free_port};

/// Whoever asks may change the list.
const CONFIG: [&str; 2] = ["reconfigEnabled=true", "skipACL=yes"];
const DEADLINE: Duration = Duration::from_secs(20);
const SESSION_MS: i32 = 20_000;
const ANY_VERSION: i64 = -1;

const MARSHALLING_ERROR: i32 = -5;
const BAD_ARGUMENTS: i32 = -8;
const NEW_CONFIG_NO_QUORUM: i32 = -13;
const NO_AUTH: i32 = -102;
const BAD_VERSION: i32 = -103;
const RECONFIG_DISABLED: i32 = -123;

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What a server says that it is; nothing if it does not serve.
fn mode(server: &Server) -> String {
    let text = ask(server.address(), "srvr").unwrap_or_default();
    let mode = text.lines().find_map(|line| line.strip_prefix("Mode: "));
    mode.unwrap_or_default().to_owned()
}

fn text_of(reply: &Reply) -> String {
    assert_eq!(reply.err, 0);
    String::from_utf8(reply.data().to_vec()).expect("UTF-8")
}

/// `/zookeeper/config`. The session was opened by a transaction: what was final before is seen.
fn shown(server: &Server) -> (String, Stat) {
    let mut client = server.connect(SESSION_MS);
    let get = request::path_watch("/zookeeper/config", false);
    let reply = client.call(op::GET_DATA, &get).expect("a reply");
    client.close().expect("the session closes");
    (text_of(&reply), reply.stat())
}

/// The lines of a list, and its version.
fn parts(text: &str) -> (&str, i64) {
    let (lines, version) = text.rsplit_once("version=").expect("a version");
    (lines, i64::from_str_radix(version, 16).expect("a hexadecimal number"))
}

/// Three servers that have agreed on their list, and this.
fn agreed(kind: Kind, config: &[&str]) -> (Ensemble, String) {
    let ensemble = Ensemble::start(kind, config);
    until("each shows a list with a version", || {
        ensemble.servers().iter().all(|server| parts(&shown(server).0).1 > 0)
    });
    let (text, _) = shown(ensemble.server(0));
    (ensemble, text)
}

/// Asks for a change, and again where that is the thing to do: a server that the leader does not
/// hear just now counts for no quorum.
fn reconfigure(client: &mut RawClient, joining: &str, leaving: &str, version: i64) -> Reply {
    let body = request::reconfig_by(joining, leaving, version);
    let mut answer = || client.call(op::RECONFIG, &body).expect("a reply");
    let mut reply = answer();
    until("a quorum of the servers to come is there", || {
        if reply.err == NEW_CONFIG_NO_QUORUM {
            reply = answer();
        }
        reply.err != NEW_CONFIG_NO_QUORUM
    });
    reply
}

/// The list of the file that zoo.cfg names, with the version that is in its name.
fn list_in_files(server: &Server) -> Option<String> {
    let zoo_cfg = fs::read_to_string(server.config_file()).expect("zoo.cfg");
    let path = zoo_cfg.lines().find_map(|line| line.strip_prefix("dynamicConfigFile="))?;
    let (_, version) = path.rsplit_once(".dynamic.")?;
    let list = fs::read_to_string(path).expect("it is there before zoo.cfg names it");
    Some(format!("{list}\nversion={version}"))
}

#[test]
fn servers_join_and_leave() {
    let (ensemble, text) = agreed(Kind::Ferrokeeper, &CONFIG);
    let (three, _) = parts(&text);
    let mut fourth = Server::stopped(Kind::Ferrokeeper, &CONFIG);
    let (quorum, election) = (free_port(), free_port());
    let line = format!(
        "server.4=127.0.0.1:{}:{}:participant;{}",
        quorum.number(),
        election.number(),
        fourth.host_port()
    );
    let config = fs::read_to_string(fourth.config_file()).expect("zoo.cfg");
    let config = format!("{config}initLimit=10\nsyncLimit=5\n{three}{line}\n");
    fs::write(fourth.config_file(), config).expect("zoo.cfg is written");
    fs::write(fourth.data_dir().join("myid"), "4\n").expect("myid is written");
    fourth.restart();
    until("one that is not listed observes", || mode(&fourth) == "observer");

    let mut client = ensemble.server(0).connect(SESSION_MS);
    let reply = reconfigure(&mut client, &line, "", ANY_VERSION);
    let (text, stat) = (text_of(&reply), reply.stat());
    assert_eq!(text, format!("{three}{line}\nversion={:x}", stat.mzxid));
    let four = ensemble.servers().iter().chain([&fourth]);
    for server in four.clone() {
        assert_eq!(shown(server), (text.clone(), stat.clone()));
    }
    until("one that is listed votes", || mode(&fourth) == "follower");
    for server in four {
        until("the files have the list", || list_in_files(server).as_ref() == Some(&text));
    }

    let reply = reconfigure(&mut client, "", "4", stat.mzxid);
    assert_eq!(text_of(&reply), format!("{three}version={:x}", reply.stat().mzxid));
    until("one that is listed no more observes", || mode(&fourth) == "observer");
}

/// The writer of this run is at work, as a client of the same server sees it.
fn goes_on(client: &mut RawClient, run: usize) {
    let exists = request::path_watch(&format!("/load/{run}/0"), false);
    let mut version = || client.call(op::EXISTS, &exists).expect("a reply").stat().version;
    let before = version();
    until("its writer goes on", || version() > before);
}

#[test]
fn the_leader_leaves_and_no_client_is_cut() {
    let (ensemble, _) = agreed(Kind::Ferrokeeper, &CONFIG);
    let servers = ensemble.servers();
    let leader = servers.iter().position(|server| mode(server) == "leader").expect("one leads");
    // A writer panics if its connection ends or a write is refused, which its join shows.
    let start = |(run, server): (usize, &Server)| {
        let load = Load::start(server.address(), 1, run, Writes::Sets);
        (load, server.connect(SESSION_MS))
    };
    let (loads, mut clients): (Vec<Load>, Vec<RawClient>) =
        servers.iter().enumerate().map(start).unzip();
    clients.iter_mut().enumerate().for_each(|(run, client)| goes_on(client, run));

    let leaving = (leader + 1).to_string();
    let reply = reconfigure(&mut clients[leader], "", &leaving, ANY_VERSION);
    assert!(!text_of(&reply).contains(&format!("server.{leaving}=")));
    until("the one that has led observes", || mode(&servers[leader]) == "observer");

    clients.iter_mut().enumerate().for_each(|(run, client)| goes_on(client, run));
    for (load, server) in loads.into_iter().zip(servers) {
        load.stop().check(&mut server.connect(SESSION_MS));
    }
}

/// No client here has rights. That is looked at last, as in `PrepRequestProcessor`.
#[test]
fn errors_come_as_from_zookeeper() {
    let config = ["reconfigEnabled=true", "skipACL=no"];
    let (ensemble, text) = agreed(Kind::subject(), &config);
    let (_, version) = parts(&text);
    let refused = [
        ("", "3", version, NO_AUTH),
        ("", "3", version + 1, BAD_VERSION),
        ("server.9", "", ANY_VERSION, BAD_ARGUMENTS),
        ("", "x", ANY_VERSION, MARSHALLING_ERROR),
        ("", "2,3", ANY_VERSION, BAD_ARGUMENTS),
    ];
    for server in ensemble.servers() {
        let mut client = server.connect(SESSION_MS);
        for (joining, leaving, version, due) in refused {
            let reply = reconfigure(&mut client, joining, leaving, version);
            assert_eq!(reply.err, due, "{joining:?} joins, {leaving:?} leaves, {version:x}");
        }
        assert_eq!(shown(server).0, text);
    }

    let ensemble = Ensemble::start(Kind::subject(), &["reconfigEnabled=false"]);
    for server in ensemble.servers() {
        let mut client = server.connect(SESSION_MS);
        let reply = reconfigure(&mut client, "", "3", ANY_VERSION);
        assert_eq!(reply.err, RECONFIG_DISABLED);
    }
}
