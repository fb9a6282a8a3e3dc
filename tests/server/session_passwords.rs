//! `sessions.passwords`: whose formula counts where a directory or an ensemble begins, and what a
//! later change of it comes to.

use std::fs;

use jute::CreateMode;
use jute::protocol::Request;

use crate::client::{Client, create, ends, until};
use crate::ensemble::{Patient, alone, prepare, stop};
use crate::ensemble_sessions::{all_serve, file, guessed, secret, sessions_go_on_anywhere, takes};
use crate::process::Server;

const TIMEOUT_MS: i32 = 20_000;
const ZOOKEEPERS: &str = "sessions.passwords=zookeeper";
const DIFFERS: &str = "[FK0258]";

/// From the next start on.
fn add_line(server: &Server, line: &str) {
    let config = fs::read_to_string(server.config()).expect("zoo.cfg");
    let others = config.lines().filter(|line| !line.starts_with("sessions.passwords"));
    let config: String = others.chain([line]).map(|line| format!("{line}\n")).collect();
    fs::write(server.config(), config).expect("zoo.cfg");
}

fn restart(server: &mut Server) {
    stop(server);
    server.run();
}

fn has_key(server: &Server) -> bool {
    file(server, "session.key").exists()
}

#[test]
fn a_directory_that_begins_with_zookeepers_formula_keeps_it() {
    let mut server = Server::start(ZOOKEEPERS);
    let session = server.connect(TIMEOUT_MS).session;
    assert_eq!(guessed(&session), session.password);
    assert!(!has_key(&server) && !server.log().contains(DIFFERS), "{}", server.log());
    for (line, differs) in [("", false), ("sessions.passwords=keyed", true), (ZOOKEEPERS, true)] {
        add_line(&server, line);
        restart(&mut server);
        assert!(takes(&server, &session, &guessed(&session)), "{line}");
        let other = server.connect(TIMEOUT_MS).session;
        assert_eq!(guessed(&other), other.password, "{line}");
        assert!(!has_key(&server), "{line}");
        until("its log says so", || server.log().contains(DIFFERS) == differs);
    }
    until("its log says so", || server.log().matches(DIFFERS).count() == 1);
}

#[test]
fn a_directory_in_which_nothing_has_happened_has_not_begun() {
    let mut server = Server::start("");
    assert!(has_key(&server));
    add_line(&server, ZOOKEEPERS);
    restart(&mut server);
    let session = server.connect(TIMEOUT_MS).session;
    assert_eq!(guessed(&session), session.password);
    assert!(!has_key(&server) && !server.log().contains(DIFFERS), "{}", server.log());
}

#[test]
fn a_key_stays_as_long_as_an_open_session_depends_on_it() {
    let mut server = Server::start("");
    let mut client = server.connect(TIMEOUT_MS);
    client.ok(&create("/mine", vec![], CreateMode::Ephemeral));
    let session = client.session;
    add_line(&server, ZOOKEEPERS);
    restart(&mut server);
    until("its log says so", || server.log().contains(DIFFERS));
    assert!(has_key(&server));
    assert!(!takes(&server, &session, &guessed(&session)));
    let id = session.session_id;
    let mut again = Client::attach(server.address(), TIMEOUT_MS, id, &session.password);
    assert_eq!(again.session.session_id, id);
    assert!(again.exists("/mine"));
    again.ok(&Request::CloseSession);
    ends(&mut again.stream);

    restart(&mut server);
    until("its log says so", || server.log().matches(DIFFERS).count() == 1);
    assert!(!has_key(&server));
    let session = server.connect(TIMEOUT_MS).session;
    assert_eq!(guessed(&session), session.password);
}

#[test]
fn members_that_know_each_other_have_zookeepers_passwords_where_it_is_asked_for() {
    let (_secret, line) = secret();
    let mut servers = prepare(3, &format!("{line}\n{ZOOKEEPERS}"));
    servers.iter_mut().for_each(Server::run);
    all_serve(&servers);
    sessions_go_on_anywhere(&servers, true);
    assert!(!servers.iter().any(has_key));
    // It was said when the ensemble began.
    let session = Patient::connect(&servers[0], TIMEOUT_MS);
    stop(&mut servers[1]);
    add_line(&servers[1], "sessions.passwords=keyed");
    servers[1].run();
    all_serve(&servers);
    until("it says what counts", || servers[1].log().contains(DIFFERS));
    session.go_to(&servers[1]).exists("/");
    assert!(!servers[0].log().contains(DIFFERS) && !has_key(&servers[1]));
}

#[test]
fn an_ensemble_on_a_lone_servers_data_keeps_its_key_only_for_open_sessions() {
    for is_open in [true, false] {
        let (_secret, line) = secret();
        let mut servers = prepare(3, &format!("{line}\nsessions.passwords=keyed"));
        let session = alone(&mut servers[1], |server| {
            let mut client = server.connect(TIMEOUT_MS);
            client.ok(&create("/kept", vec![], CreateMode::Persistent));
            if !is_open {
                client.ok(&Request::CloseSession);
                ends(&mut client.stream);
            }
            client.session
        });
        assert!(has_key(&servers[1]));
        servers.iter().for_each(|server| add_line(server, ZOOKEEPERS));
        servers.iter_mut().for_each(Server::run);
        all_serve(&servers);
        for server in &servers {
            assert_eq!(takes(server, &session, &session.password), is_open);
            assert!(!takes(server, &session, &guessed(&session)));
            assert_eq!(has_key(server), is_open);
            until("its log says so", || server.log().contains(DIFFERS) == is_open);
        }
        sessions_go_on_anywhere(&servers, !is_open);
    }
}
