//! The way back: what `migrate check --to-zookeeper` says before it is what Apache ZooKeeper does.

use std::fs;
use std::process::Command;

use compat_tests::request::{self, mode, op};
use compat_tests::{ConnectRequest, Kind, RawClient, Server, Session, ferrokeeper};
use serde_json::Value;

use super::write;

const SESSION_MS: i32 = 40_000;

/// What the check says of a server's zoo.cfg, and whether it says that there is a way back.
fn check(server: &Server) -> (bool, Value) {
    let mut command = Command::new(ferrokeeper());
    command.args(["migrate", "check", "--to-zookeeper", "--json"]).arg(server.config_file());
    let output = command.output().expect("the binary runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
    let code = output.status.code();
    assert_eq!(code, Some(i32::from(report["can_go_back"] == false)), "{report}");
    (report["can_go_back"] == true, report)
}

fn has_cost(report: &Value, text: &str) -> bool {
    let costs = report["costs"].as_array().expect("a list");
    costs.iter().any(|cost| cost.as_str().expect("text").contains(text))
}

/// A session with an ephemeral znode, on a server that began here.
fn begin(config: &[&str]) -> (Server, Session) {
    let config = [&["maxSessionTimeout=40000"], config].concat();
    let server = Server::start(Kind::Ferrokeeper, &config);
    let mut client = server.connect(SESSION_MS);
    write(&mut client, op::CREATE, &request::create("/own", Some(b"mine"), mode::EPHEMERAL));
    let session = client.session.expect("a session");
    (server, session)
}

fn goes_on(server: &Server, session: &Session) -> bool {
    let answer = RawClient::open(server.address(), &ConnectRequest::again(session));
    let Ok((mut client, again)) = answer else { return false };
    let goes_on = again.id == session.id && again.timeout > 0;
    if goes_on {
        let own = client.call(op::EXISTS, &request::path_watch("/own", false)).expect("a reply");
        assert_eq!((own.err, own.stat().ephemeral_owner), (0, session.id));
    }
    goes_on
}

#[test]
fn sessions_go_on_at_zookeeper_where_its_formula_was_asked_for_and_end_where_not() {
    for (config, survives) in
        [(&["sessions.passwords=zookeeper"][..], true), (&["sessions.passwords=keyed"], false)]
    {
        let (mut server, session) = begin(config);
        let (can, report) = check(&server);
        assert!(can && has_cost(&report, "is in use by process"), "{report}");
        server.stop();
        let (can, report) = check(&server);
        assert!(can && !has_cost(&report, "is in use by process"), "{report}");
        let ending = report["sessions_ending"].as_array().expect("a list");
        let named = ending.iter().any(|one| one["session"] == format!("{:#x}", session.id));
        assert_eq!((named, ending.len()), (!survives, usize::from(!survives)), "{report}");
        assert_eq!(report["ephemerals_ending"], usize::from(!survives), "{report}");
        server.hand_over_to(Kind::Reference);
        server.restart();
        assert_eq!(goes_on(&server, &session), survives, "{config:?}");
        // And here again.
        server.stop();
        server.hand_over_to(Kind::Ferrokeeper);
        server.restart();
        assert_eq!(goes_on(&server, &session), survives, "{config:?}");
    }
}

#[test]
fn znodes_with_a_time_to_live_are_deleted_without_their_key_as_the_check_says() {
    for is_kept in [true, false] {
        let (mut server, _) = begin(&["extendedTypesEnabled=true"]);
        let mut client = server.connect(SESSION_MS);
        write(&mut client, op::CREATE_TTL, &request::create_ttl("/brief", 3_600_000));
        client.close().expect("the session closes");
        server.stop();
        if !is_kept {
            let text = fs::read_to_string(server.config_file()).expect("zoo.cfg");
            let text = text.replace("extendedTypesEnabled=true", "extendedTypesEnabled=false");
            fs::write(server.config_file(), text).expect("zoo.cfg");
        }
        let (can, report) = check(&server);
        assert_eq!((can, &report["ttl_znodes"]), (is_kept, &1.into()), "{report}");
        server.hand_over_to(Kind::Reference);
        server.restart();
        let mut client = server.connect(SESSION_MS);
        let exists = request::path_watch("/brief", false);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut err = 0;
        // It goes when the session that it is taken for expires.
        while err == 0 && !is_kept {
            assert!(std::time::Instant::now() < deadline, "it is still there");
            err = client.call(op::EXISTS, &exists).expect("a reply").err;
        }
        let there = client.call(op::EXISTS, &exists).expect("a reply").err == 0;
        assert_eq!(there, is_kept);
    }
}

#[test]
fn a_transaction_that_only_zoo_cfg_allows_stops_zookeeper_as_the_check_says() {
    let (mut server, _) = begin(&["preAllocSize=64"]);
    server.stop();
    assert!(check(&server).0);
    let text = fs::read_to_string(server.config_file()).expect("zoo.cfg");
    fs::write(server.config_file(), format!("{text}jute.maxbuffer=4000000\n")).expect("zoo.cfg");
    server.restart();
    let mut client = server.connect(SESSION_MS);
    let body = request::create("/big", Some(&vec![b'y'; 2_500_000]), mode::PERSISTENT);
    write(&mut client, op::CREATE, &body);
    drop(client);
    server.stop();
    let (can, report) = check(&server);
    assert!(!can && report.to_string().contains("more than 2097150"), "{report}");
    server.hand_over_to(Kind::Reference);
    let said = server.try_restart().expect_err("ZooKeeper does not read it");
    assert!(said.contains("Unreasonable length"), "{said}");
}
