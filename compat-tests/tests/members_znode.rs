//! `/zookeeper/config` of an ensemble: the list, as Apache ZooKeeper shows it.

use compat_tests::request::{self, op};
use compat_tests::{Ensemble, Kind, Server, Stat};

/// The text, its lines without the ports, and the stat without the time: each server has its own.
fn shown(server: &Server) -> (Vec<String>, Stat) {
    let mut client = server.connect(20_000);
    let path = "/zookeeper/config";
    let reply = client.call(op::GET_DATA, &request::path_watch(path, false)).expect("a reply");
    assert_eq!(reply.err, 0);
    let (data, stat) = (reply.data(), reply.stat());
    assert!(stat.mtime > 0);
    let refused = request::set_data(path, b"", -1);
    assert_eq!(client.call(op::SET_DATA, &refused).expect("a reply").err, -102);
    client.close().expect("the session closes");
    let text = String::from_utf8(data.to_vec()).expect("UTF-8");
    assert!(!text.ends_with('\n'));
    let line = |line: &str| {
        let parts = line.split(':').map(|part| match part.parse::<u16>() {
            Ok(_) => "PORT",
            Err(_) => part,
        });
        parts.collect::<Vec<_>>().join(":")
    };
    (text.lines().map(line).collect(), Stat { mtime: 0, data_length: 0, ..stat })
}

#[test]
fn every_member_shows_its_own_list() {
    let [expected, found] = [Kind::Reference, Kind::Ferrokeeper].map(|kind| {
        let ensemble = Ensemble::start(kind, &[]);
        ensemble.servers().iter().map(shown).collect::<Vec<_>>()
    });
    assert_eq!(found, expected);
    let list: Vec<String> =
        (1..=3).map(|id| format!("server.{id}=127.0.0.1:PORT:PORT:participant")).collect();
    assert_eq!(expected[0].0, [list, vec!["version=0".to_owned()]].concat());
}
