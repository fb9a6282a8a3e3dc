use super::line::{Addresses, LineError};
use super::{Server, line};

/// What the list shows of a value, or the code of its error.
fn shown(value: &str) -> Result<String, i32> {
    let server = Server::parse(value, Addresses::One);
    server.map(|server| server.to_string()).map_err(|error| error.code().code())
}

/// Expected values: `new QuorumServer(1, value).toString()` of 3.9.5 on OpenJDK 17.
#[test]
fn a_value_is_shown_as_by_zookeeper() {
    for (value, expected) in [
        ("h:2888:3888", "h:2888:3888:participant"),
        ("h:2888:3888:observer", "h:2888:3888:observer"),
        ("h:2888:3888:OBSERVER;2181", "h:2888:3888:observer;0.0.0.0:2181"),
        ("h:2888:3888: Observer ", "h:2888:3888:observer"),
        ("h:2888:3888;c:2181", "h:2888:3888:participant;c:2181"),
        ("H.Example:1:2", "H.Example:1:2:participant"),
        ("h.:1:2", "h.:1:2:participant"),
        ("b=c:1:2", "b=c:1:2:participant"),
        // Numbers as Java reads them.
        ("h:+2888:3888", "h:2888:3888:participant"),
        ("h:-0:3888", "h:0:3888:participant"),
        ("h:0:1", "h:0:1:participant"),
        // Empty parts at an end are none.
        ("h:2888:3888;", "h:2888:3888:participant"),
        ("h:2888:3888;;", "h:2888:3888:participant"),
        ("h:2888:3888;2181;;", "h:2888:3888:participant;0.0.0.0:2181"),
        ("h:2888:3888:", "h:2888:3888:participant"),
        ("h:2888:3888::", "h:2888:3888:participant"),
        ("h:1:2:;2181", "h:1:2:participant;0.0.0.0:2181"),
        ("h:2888:3888:participant:", "h:2888:3888:participant"),
        ("a:1:2|", "a:1:2:participant"),
        ("a:1:2|;2181", "a:1:2:participant;0.0.0.0:2181"),
        // No host is the loopback.
        (":2888:3888", "localhost:2888:3888:participant"),
        ("[]:1:2", "localhost:1:2:participant"),
        ("h:2888:3888;:2181", "h:2888:3888:participant;localhost:2181"),
        ("h:2888:3888;[]:2181", "h:2888:3888:participant;localhost:2181"),
        // IPv4 in its forms, and what is none.
        ("127.0.0.1:2888:3888;0.0.0.0:2181", "127.0.0.1:2888:3888:participant;0.0.0.0:2181"),
        ("127.1:2888:3888", "127.0.0.1:2888:3888:participant"),
        ("127.0.1:2888:3888", "127.0.0.1:2888:3888:participant"),
        ("2130706433:2888:3888", "127.0.0.1:2888:3888:participant"),
        ("010.0.0.1:2888:3888", "10.0.0.1:2888:3888:participant"),
        ("1.2.3.04:1:2", "1.2.3.4:1:2:participant"),
        ("[1.2.3.4]:1:2", "1.2.3.4:1:2:participant"),
        ("0x7f.0.0.1:1:2", "0x7f.0.0.1:1:2:participant"),
        ("1.2.3.4.5:1:2", "1.2.3.4.5:1:2:participant"),
        ("256.1.1.1:1:2", "256.1.1.1:1:2:participant"),
        ("1.2.3.256:1:2", "1.2.3.256:1:2:participant"),
        // IPv6.
        (
            "[::1]:2888:3888;[::1]:2181",
            "[0:0:0:0:0:0:0:1]:2888:3888:participant;[0:0:0:0:0:0:0:1]:2181",
        ),
        ("[FE80::AB]:1:2", "[fe80:0:0:0:0:0:0:ab]:1:2:participant"),
        ("[::]:1:2;[::]:2181", "[0:0:0:0:0:0:0:0]:1:2:participant;[0:0:0:0:0:0:0:0]:2181"),
        ("[::ffff:1.2.3.4]:2888:3888", "1.2.3.4:2888:3888:participant"),
        ("[::1.2.3.4]:1:2", "[0:0:0:0:0:0:102:304]:1:2:participant"),
        ("[fe80::1%1]:1:2", "[fe80:0:0:0:0:0:0:1%1]:1:2:participant"),
        ("[h]:1:2", "h:1:2:participant"),
        ("[a:b]:1:2", "[a:b]:1:2:participant"),
    ] {
        assert_eq!(shown(value).as_deref(), Ok(expected), "{value:?}");
    }
}

/// Expected values: what `new QuorumServer(1, value)` of 3.9.5 throws; -8 is a `ConfigException`,
/// -5 what `PrepRequestProcessor` does not catch.
#[test]
fn a_value_that_is_none_has_zookeepers_error() {
    for (value, expected) in [
        ("", -8),
        (";2181", -8),
        ("h:2888", -8),
        ("h:2888:3888;2181;2182", -8),
        ("h:2888:3888:x", -8),
        ("h:2888:3888:observer:x", -8),
        ("h:2888:2888", -8),
        ("h:2888:2888:x", -8),
        ("h:x:3888", -8),
        ("h:2888:x", -8),
        ("h:99999999999:3888", -8),
        ("h: 2888:3888", -8),
        ("h:2888:3888 ", -8),
        ("h:2888:3888;2181 ", -8),
        ("h:2888:3888; 2181", -8),
        ("h:2888:3888;c:2181:1", -8),
        ("h:2888:3888;c:", -8),
        ("h:2888:3888;c", -8),
        ("h:2888:3888;99999999999", -8),
        ("h:2888:3888;[::1]", -8),
        ("h:2888:3888;[::1]:", -8),
        ("h:2888:3888;[::1", -8),
        ("::1:1:2", -8),
        ("a:1:2|b:1:2", -8),
        ("|a:1:2", -8),
        ("a:1:70000|b:1:2", -8),
        ("h:70000:3888", -5),
        ("h:2888:70000", -5),
        ("h:-1:3888", -5),
        ("h:2888:3888;70000", -5),
        ("h:2888:3888;-1", -5),
        // The first error counts.
        ("h:65536:65536", -5),
        ("h:x:70000", -8),
        ("h:70000:x", -5),
        ("h:70000:3888:x", -5),
        ("h:1:1;70000", -5),
    ] {
        assert_eq!(shown(value), Err(expected), "{value:?}");
    }
}

/// Where ZooKeeper takes more: any character for a colon, and hosts that its own files do not bring
/// back.
#[test]
fn what_would_not_come_back_from_a_file_is_refused() {
    for (value, expected) in [
        ("[::1]x2888:3888", LineError::Form),
        ("[::1]2888:3888", LineError::Form),
        ("|", LineError::Form),
        ("a b:1:2", LineError::Host),
        ("h\n:1:2", LineError::Host),
        ("a,b:1:2", LineError::Host),
        ("a\\b:1:2", LineError::Host),
        ("\u{e9}:1:2", LineError::Host),
        ("h:1:2;a b:3", LineError::Host),
        ("h\u{661}:1:2", LineError::Host),
    ] {
        assert_eq!(Server::parse(value, Addresses::One), Err(expected), "{value:?}");
        assert_eq!(expected.code().code(), -8);
    }
}

/// Expected values: the same with `-Dzookeeper.multiAddress.enabled=true`, which keeps all.
#[test]
fn of_several_addresses_all_are_checked_and_the_first_is_used() {
    for (value, expected) in [
        ("a:1:2|b:3:4;5", Ok("a:1:2:participant;0.0.0.0:5")),
        ("a:1:2|b:3:4:observer|c:5:6", Ok("a:1:2:observer")),
        ("a:1:2:observer|b:3:4:Observer", Ok("a:1:2:observer")),
        ("a:1:2:observer|b:3:4:participant", Err(LineError::Roles)),
        ("a:1:2|b:3", Err(LineError::Form)),
        ("a:1:2|b:3:3", Err(LineError::SamePorts)),
        ("|a:1:2", Err(LineError::Form)),
    ] {
        let server = Server::parse(value, Addresses::First).map(|server| server.to_string());
        assert_eq!(server.as_deref(), expected.as_ref().copied(), "{value:?}");
    }
    let line = line::ServerLine::parse("a:1:2|[::1]:3:4", Addresses::First).expect("a line");
    let found: Vec<_> = line.addresses.iter().map(|its| (its.host, its.quorum_port)).collect();
    assert_eq!(found, [("a", 1), ("::1", 3)]);
}
