use proptest::prelude::*;

use super::files::{
    dynamic_file, dynamic_file_name, edited_zoo_cfg, parse_dynamic_file, version_of,
};
use super::line::Addresses;
use super::text::ListError;
use super::text_test::any_servers;
use super::{ServerList, Servers};
use crate::properties;

const POINTER: &str = "/conf/zoo.cfg.dynamic.100000007";

fn edited(text: &str, has_client_address: bool) -> String {
    let edited = edited_zoo_cfg(text.as_bytes(), POINTER, has_client_address).expect(text);
    String::from_utf8(edited).expect("text")
}

/// Expected values: `QuorumPeerConfig.getVersionFromFilename` of 3.9.5, where no version is 0. It
/// reads the one that is negative, and does not start.
#[test]
fn the_name_of_a_file_says_its_version() {
    for (name, version) in [
        ("zoo.cfg.dynamic.100000000", 0x1_0000_0000),
        ("members.fade", 0xfade),
        ("zoo.cfg.dynamic", 0),
        ("/etc/x.d/members", 0),
        ("/a.b/beef", 0),
        ("x.", 0),
        ("x", 0),
        ("fade", 0),
        ("zoo.cfg.dynamic.0", 0),
        ("x.+1f", 0x1f),
        ("x.FFFFFFFFFFFFFFFF", 0),
        ("x.7fffffffffffffff", i64::MAX),
        ("x. 1", 0),
        ("x.-1", 0),
    ] {
        assert_eq!(version_of(name), version, "{name}");
    }
    assert_eq!(dynamic_file_name("zoo.cfg", 0x1_0000_0007), "zoo.cfg.dynamic.100000007");
    assert_eq!(version_of(&dynamic_file_name("zoo.cfg", i64::MAX)), i64::MAX);
}

/// Expected value: what `QuorumPeerConfig.writeDynamicConfig` of 3.9.5 writes.
#[test]
fn the_file_of_a_list_is_zookeepers() {
    let list = ServerList::parse(
        "server.10=a.invalid:1:2\nserver.2=[::1]:1:2:observer;2181\nserver.1=b:1:2\n\
         version=100000007",
    )
    .expect("a list");
    let file = "server.10=a.invalid:1:2:participant\nserver.1=b:1:2:participant\n\
                server.2=[0:0:0:0:0:0:0:1]:1:2:observer;0.0.0.0:2181";
    assert_eq!(dynamic_file(&list.servers), file);
    let read = |name, bytes: &[u8]| parse_dynamic_file(name, bytes, Addresses::One);
    assert_eq!(read("zoo.cfg.dynamic.100000007", file.as_bytes()), Ok(list));
    let inside = read("zoo.cfg.dynamic.1", b"server.1=a:1:2\nversion=1");
    assert_eq!(inside, Err(ListError::VersionInside));
}

#[test]
fn zoo_cfg_names_the_file_and_keeps_all_that_need_not_change() {
    let before = "# ours: C:\\data\n\ndataDir = C:\\\\data\r\n  server.1=a:1:2;2181\n\
                  clientPort=2181\nclientPortAddress: 0.0.0.0\nclientPortListenBacklog=9\n\
                  # server.2 is new\nserver.2 = b:1:2\\\n  ;2181\nserver.3=c:1:2;2181\n\n\
                  group.1=1:2\nweight.1=2\npeerType=observer\ninitLimit=5";
    let after = format!(
        "# ours: C:\\data\n\ndataDir = C:\\\\data\r\n\
         clientPort=2181\nclientPortAddress: 0.0.0.0\nclientPortListenBacklog=9\n\
         # server.2 is new\n\ninitLimit=5\ndynamicConfigFile={POINTER}\n"
    );
    assert_eq!(edited(before, false), after);
    let without = after.replace("clientPort=2181\nclientPortAddress: 0.0.0.0\n", "");
    assert_eq!(edited(before, true), without);
    // A second time, nothing must change.
    assert_eq!(edited(&after, false), after);
    assert_eq!(edited(&without, true), without);
}

#[test]
fn a_file_that_is_named_is_replaced_where_it_stands() {
    let line = format!("dynamicConfigFile={POINTER}\n");
    for (before, after) in [
        ("a=1\ndynamicConfigFile=/x.1\nb=2\n", format!("a=1\n{line}b=2\n")),
        ("dynamicConfigFile=/x.1\na=1\n dynamicConfigFile : /x.2", format!("a=1\n{line}")),
        ("zookeeper.dynamicConfigFile=/x.1\na=1\n", format!("a=1\n{line}")),
        // As the other lines end.
        ("a=1\r\nserver.1=a:1:2\r\n", format!("a=1\r\ndynamicConfigFile={POINTER}\r\n")),
        ("", line.clone()),
        ("server.1=a:1:2", line.clone()),
        // A last line that would go on in what follows.
        ("a=1\\", format!("a=1\\\n\n{line}")),
        ("a=1\\\n", format!("a=1\\\n\n{line}")),
        ("a=1\\\r", format!("a=1\\\r\n\n{line}")),
        ("\\\nserver.1=a:1:2\n# x\n", format!("\\\n# x\n{line}")),
    ] {
        assert_eq!(edited(before, false), after, "{before:?}");
    }
    let bad = edited_zoo_cfg(b"a=1\nb=\\u12\n", POINTER, false);
    assert_eq!(bad, Err(ListError::MalformedEscape { line: 2 }));
}

/// All keys and values of a file, without where they stand.
fn said(bytes: &[u8]) -> Vec<(String, String)> {
    let properties = properties::parse(bytes).expect("no malformed escape");
    properties.into_iter().map(|property| (property.key, property.value)).collect()
}

proptest! {
    #[test]
    fn a_file_read_back_is_the_same(servers in any_servers(), version in 0..=i64::MAX) {
        let (name, file) = (dynamic_file_name("zoo.cfg", version), dynamic_file(&servers));
        let list = parse_dynamic_file(&name, file.as_bytes(), Addresses::One);
        prop_assert_eq!(list, Ok(ServerList { servers, version }));
        prop_assert_eq!(dynamic_file(&Servers::default()), "");
    }

    /// Whatever a zoo.cfg has, the edited one says the same but for what must go.
    #[test]
    fn nothing_else_of_zoo_cfg_changes(
        lines in prop::collection::vec(
            (
                prop_oneof![
                    "[a-z#!\\\\ =:\u{e9}]{0,8}",
                    "(server\\.1|clientPortX?|group|peerType|dynamicConfigFile)[ =:][a-z\\\\]{0,3}",
                ],
                prop_oneof![Just("\n"), Just("\r\n"), Just("\r"), Just("")],
            ),
            0..8,
        ),
        name in "[ -~\u{e9}\u{1f600}]{1,8}",
        has_client_address in any::<bool>(),
    ) {
        let before: String = lines.iter().flat_map(|(line, end)| [line.as_str(), end]).collect();
        let Ok(_) = properties::parse(before.as_bytes()) else { return Ok(()) };
        let after = edited_zoo_cfg(before.as_bytes(), &name, has_client_address).expect("edited");
        let goes = |key: &str| {
            ["server.1", "group", "peerType", "dynamicConfigFile"].contains(&key)
                || has_client_address && key == "clientPort"
        };
        let (mut kept, mut said_after) = (said(before.as_bytes()), said(&after));
        // A backslash at the end of the file is a value without a key.
        kept.retain(|(key, _)| !goes(key) && !key.is_empty());
        said_after.retain(|(key, value)| key != "dynamicConfigFile" || *value != name);
        said_after.retain(|(key, _)| !key.is_empty());
        prop_assert_eq!(kept, said_after);
        let names = said(&after).iter().filter(|(key, _)| key == "dynamicConfigFile").count();
        prop_assert_eq!(names, 1);
    }
}
