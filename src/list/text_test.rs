use proptest::prelude::*;

use super::host::Host;
use super::line::Addresses;
use super::text::{ListError, parse};
use super::{ClientAddress, MOST_TEXT, Role, Server, ServerList, Servers};

fn list(text: &str) -> ServerList {
    ServerList::parse(text).expect(text)
}

/// Expected values: `QuorumMaj.toString` of 3.9.5 on what `new QuorumMaj(properties)` makes of the
/// text, its lines sorted by id.
#[test]
fn a_list_is_shown_as_by_zookeeper_and_by_id() {
    let text = "server.10=a.invalid:1:2\nserver.2=[::1]:1:2:observer;2181\n\
                server.1=b:1:2\nversion=100000007";
    let expected = "server.1=b:1:2:participant\n\
                    server.2=[0:0:0:0:0:0:0:1]:1:2:observer;0.0.0.0:2181\n\
                    server.10=a.invalid:1:2:participant\n\
                    version=100000007";
    let list = list(text);
    assert_eq!((list.version, list.text().as_str()), (0x1_0000_0007, expected));
    assert_eq!(list.servers.ids(Role::Participant).collect::<Vec<_>>(), [1, 10]);
    assert_eq!(list.servers.ids(Role::Observer).collect::<Vec<_>>(), [2]);
    assert_eq!(list.servers.get(2).map(|server| server.quorum_port), Some(1));
    let none = ServerList { servers: Servers::default(), version: 0 };
    assert_eq!(none.text(), "version=0");
    assert_eq!(ServerList::parse("version=0"), Ok(none.clone()));
    assert_eq!(ServerList::parse(""), Ok(none));
}

/// Expected values: `QuorumServer.equals` of 3.9.5, but for names that resolve to one address.
#[test]
fn servers_are_equal_as_in_zookeeper() {
    let first = &list("server.1=a.invalid:1:2;3").servers;
    for (text, expected) in [
        ("server.1=A.INVALID:1:2:participant;0.0.0.0:3\nversion=9", true),
        ("server.2=a.invalid:1:2;3", false),
        ("server.1=a.invalid:1:2;c:3", false),
        ("server.1=a.invalid:1:2;[::]:3", false),
        ("server.1=a.invalid:1:2;4", false),
        ("server.1=a.invalid:1:2:observer;3", false),
        ("server.1=a.invalid:1:2", false),
        ("server.1=a.invalid:1:3;3", false),
        ("server.1=b.invalid:1:2;3", false),
        ("server.1=a.invalid:1:2;3\nserver.2=b:1:2", false),
    ] {
        assert_eq!(*first == list(text).servers, expected, "{text}");
    }
    let (one, other) = ("server.1=[::1]:1:2\nversion=5", "server.1=[0:0::1]:1:2\nversion=5");
    assert_eq!(list(one), list(other));
    assert_ne!(list(one), list("server.1=[::1]:1:2\nversion=6"));
}

/// Expected values: 3.9.5's `parseDynamicConfig`; groups, and ids beyond a byte, are refused here.
#[test]
fn a_text_that_is_no_list_says_why() {
    let key = |key: &str| key.to_owned();
    for (text, expected, code) in [
        ("server.1=a:1:2\nx=y", ListError::UnknownKey { key: key("x") }, -8),
        ("server.x=a:1:2\ny=1", ListError::UnknownKey { key: key("y") }, -8),
        ("server=a:1:2", ListError::UnknownKey { key: key("server") }, -8),
        ("Server.1=a:1:2", ListError::UnknownKey { key: key("Server.1") }, -8),
        ("server.x=a:1:2", ListError::IdNotNumber { key: key("server.x") }, -5),
        ("server.=a:1:2", ListError::IdNotNumber { key: key("server.") }, -5),
        ("server.256=a:1:2", ListError::IdRange { key: key("server.256") }, -8),
        ("server.-1=a:1:2", ListError::IdRange { key: key("server.-1") }, -8),
        ("server.1=\\u12", ListError::MalformedEscape { line: 1 }, -5),
        ("version=xyz", ListError::Version { value: key("xyz") }, -5),
        ("version=", ListError::Version { value: key("") }, -5),
        ("version=5 ", ListError::Version { value: key("5 ") }, -5),
        ("group.1=1:2\nserver.1=a:1:2", ListError::Group { key: key("group.1") }, -8),
        ("weight.1=1\nserver.1=a:1:2", ListError::Group { key: key("weight.1") }, -8),
    ] {
        let error = ServerList::parse(text).expect_err(text);
        assert_eq!((error.code().code(), &error), (code, &expected), "{text:?}");
    }
    for (value, code) in [("a:1:2 ", -8), ("a:1:1", -8), ("a:1:70000", -5)] {
        let error = ServerList::parse(&format!("server.1={value}")).expect_err(value);
        assert_eq!(error.code().code(), code, "{value:?}");
    }
    // No version of a list is negative, and what a client sends as one counts for nothing.
    assert!(ServerList::parse("version=-5").is_err());
    assert_eq!(parse(b"version=-5", Addresses::One), Ok((Servers::default(), Some(-5))));
}

#[test]
fn of_two_lines_with_one_id_the_later_one_counts() {
    for text in ["server.1=a:1:2\nserver.1=b:1:2", "server.1=a:1:2\nserver.01=b:1:2"] {
        assert_eq!(list(text).text(), "server.1=b:1:2:participant\nversion=0", "{text}");
    }
}

#[test]
fn a_list_has_at_most_sixteen_kibibytes_whatever_its_version() {
    let rest = "server.1=:1:2:participant\nversion=\n".len() - 1 + 16;
    let of = |length: usize| format!("server.1={}:1:2\nversion=1", "h".repeat(length));
    let most = list(&of(MOST_TEXT - rest));
    assert_eq!(ServerList { version: i64::MAX, ..most.clone() }.text().len(), MOST_TEXT);
    assert_eq!(ServerList { version: 1, ..most }.text().len(), MOST_TEXT - 15);
    assert_eq!(ServerList::parse(&of(MOST_TEXT - rest + 1)), Err(ListError::TooLong));
    let blanks = format!("{}server.1=a:1:2", "\n".repeat(MOST_TEXT));
    assert_eq!(ServerList::parse(&blanks), Err(ListError::TooLong));
}

fn any_host() -> impl Strategy<Value = Host> {
    let written = prop_oneof![
        "[a-zA-Z0-9._-]{0,12}",
        any::<std::net::Ipv4Addr>().prop_map(|address| address.to_string()),
        any::<std::net::Ipv6Addr>().prop_map(|address| address.to_string()),
        any::<[u8; 2]>().prop_map(|[first, last]| format!("{first}.{last}")),
        "[!-~]{1,8}",
    ];
    written.prop_filter_map("no host", |written| Host::of(&written))
}

pub(super) fn any_server() -> impl Strategy<Value = Server> {
    let role = prop_oneof![Just(Role::Participant), Just(Role::Observer)];
    let client = (any_host(), any::<u16>()).prop_map(|(host, port)| ClientAddress { host, port });
    (any_host(), any::<u16>(), 1..u16::MAX, role, prop::option::of(client)).prop_map(
        |(host, quorum_port, further, role, client)| {
            let election_port = quorum_port.wrapping_add(further);
            Server { host, quorum_port, election_port, role, client }
        },
    )
}

pub(super) fn any_servers() -> impl Strategy<Value = Servers> {
    let servers = prop::collection::btree_map(any::<u8>(), any_server(), 0..9);
    servers.prop_map(|servers| servers.into_iter().collect())
}

proptest! {
    #[test]
    fn a_list_read_back_is_the_same(servers in any_servers(), version in 0..=i64::MAX) {
        let list = ServerList { servers, version };
        let text = list.text();
        let again = ServerList::parse(&text);
        prop_assert_eq!(again.as_ref(), Ok(&list));
        // Not only equal by name.
        prop_assert_eq!(again.map(|again| again.text()), Ok(text.clone()));
        let ids: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
        let unique: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
        prop_assert_eq!(unique.len(), ids.len());
    }

    #[test]
    fn no_text_makes_it_panic(text in "[-+0-9a-fservion.:;|\\[\\]\\\\=#!%,\n \u{e9}]{0,60}") {
        if let Ok(list) = ServerList::parse(&text) {
            prop_assert_eq!(ServerList::parse(&list.text()), Ok(list));
        }
        if let Ok(server) = Server::parse(&text, Addresses::One) {
            prop_assert_eq!(Server::parse(&server.to_string(), Addresses::One), Ok(server));
        }
    }
}
