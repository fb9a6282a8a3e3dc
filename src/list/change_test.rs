use std::cell::RefCell;

use jute::protocol::ReconfigRequest;
use proptest::prelude::*;

use super::change::{Asked, ChangeError, Present};
use super::line::Addresses;
use super::text_test::{any_server, any_servers};
use super::{MOST_TEXT, ServerList, Servers};

const THREE: &str = "server.1=10.0.0.1:2888:3888:participant;0.0.0.0:2181\n\
                     server.2=10.0.0.2:2888:3888:participant;0.0.0.0:2181\n\
                     server.3=10.0.0.3:2888:3888:participant;0.0.0.0:2181\n\
                     version=100000000";

/// The version of [`THREE`].
const VERSION: i64 = 0x1_0000_0000;

type Steps<'a> = (Option<&'a str>, Option<&'a str>);

fn request<'a>((joining, leaving): Steps<'a>, all: Option<&'a str>) -> ReconfigRequest<'a> {
    ReconfigRequest {
        joining_servers: joining.map(Into::into),
        leaving_servers: leaving.map(Into::into),
        new_members: all.map(Into::into),
        cur_config_id: -1,
    }
}

fn three() -> ServerList {
    ServerList::parse(THREE).expect("a list")
}

fn servers(text: &str) -> Servers {
    ServerList::parse(text).expect(text).servers
}

/// What becomes of [`THREE`] where nothing but the request is in the way.
fn decide(request: &ReconfigRequest<'_>, standalone_enabled: bool) -> Result<Servers, ChangeError> {
    let list = three();
    let present = Present { list: &list, next: None, standalone_enabled };
    Asked::read(request, Addresses::One).decide(&present, |_| true, || true)
}

fn check(request: &ReconfigRequest<'_>, standalone_enabled: bool, expected: Result<&str, i32>) {
    let found = decide(request, standalone_enabled);
    let found = found.map_err(|error| error.code().code());
    assert_eq!(found, expected.map(servers), "{request:?} {standalone_enabled}");
}

/// Expected values: 3.9.5's own classes in the order of `PrepRequestProcessor`, case `reconfig`;
/// first with `standaloneEnabled`, then without. Groups, and ids beyond a byte, are refused here.
#[test]
fn a_whole_list_comes_or_is_refused_as_in_zookeeper() {
    let both = |result| (result, result);
    for (all, (with, without)) in [
        ("", (Err(-8), Err(-5))),
        (" ", (Err(-8), Err(-5))),
        ("# c", (Err(-8), Err(-5))),
        ("version=1", (Err(-8), Err(-5))),
        ("server.1=a:1:2", (Err(-8), Ok("server.1=a:1:2"))),
        ("server.1=a:1:2,server.2=b:1:2", both(Ok("server.1=a:1:2\nserver.2=b:1:2"))),
        ("server.1=a:1:2\nserver.2=b:1:2\nversion=5", both(Ok("server.1=a:1:2\nserver.2=b:1:2"))),
        ("server.1=a:1:2,server.2=b:1:2,version=-5", both(Ok("server.1=a:1:2\nserver.2=b:1:2"))),
        ("server.1=a:1:2,server.2=b:1:2,version=xyz", both(Err(-5))),
        ("server.1=a:1:2,server.2=b:1:2,version=", both(Err(-5))),
        ("server.1=a:1:2,server.2=b:1:2,x=y", both(Err(-8))),
        ("server.x=a:1:2,y=1", both(Err(-8))),
        ("server.x=a:1:2", both(Err(-5))),
        ("server=a:1:2", both(Err(-8))),
        ("Server.1=a:1:2,server.2=b:1:2", both(Err(-8))),
        ("server.1 =a:1:2, server.2 = b:1:2", both(Ok("server.1=a:1:2\nserver.2=b:1:2"))),
        ("server.1=a:1:2 ,server.2=b:1:2", both(Err(-8))),
        ("server.1=a:1:2:observer,server.2=b:1:2:observer", both(Err(-5))),
        (
            "server.1=a:1:2,server.2=b:1:2:observer",
            (Err(-5), Ok("server.1=a:1:2\nserver.2=b:1:2:observer")),
        ),
        (
            "server.1=a:1:2,server.1=b:1:2,server.2=c:1:2",
            both(Ok("server.1=b:1:2\nserver.2=c:1:2")),
        ),
        ("server.0=a:1:2,server.+2=c:1:2", both(Ok("server.0=a:1:2\nserver.2=c:1:2"))),
        ("server.1=a:1:2,server.300=c:1:2", both(Err(-8))),
        ("server.1=a:1:2,server.2=c:\\u12:2", both(Err(-5))),
        // Of a whole list no two addresses are compared.
        ("server.1=a:1:2,server.2=a:1:2", both(Ok("server.1=a:1:2\nserver.2=a:1:2"))),
        ("server.1=a:1:2;c:3,server.2 b:1:2", both(Ok("server.1=a:1:2;c:3\nserver.2=b:1:2"))),
        ("server.1=a:1:70000,server.2=b:1:2", both(Err(-5))),
        ("server.1=\\\n  a:1:2,server.2=b:1:2", both(Ok("server.1=a:1:2\nserver.2=b:1:2"))),
        ("group.1=1:2,server.1=a:1:2,server.2=b:1:2", both(Err(-8))),
        ("weight.1=1,server.1=a:1:2,server.2=b:1:2", both(Err(-8))),
    ] {
        // Who joins and leaves counts for nothing beside a whole list.
        let request = request((Some("no server"), Some("no id")), Some(all));
        check(&request, true, with);
        check(&request, false, without);
    }
}

/// The lines of [`THREE`] with these ids, and others.
fn of_three(ids: &[usize], others: &str) -> String {
    let lines: Vec<&str> = THREE.lines().collect();
    let own = ids.iter().map(|id| format!("{}\n", lines[id - 1]));
    own.collect::<String>() + others
}

/// Expected values: as above; with and without `standaloneEnabled` alike.
#[test]
fn servers_leave_as_in_zookeeper() {
    for (leaving, expected) in [
        (None, Ok(vec![1, 2, 3])),
        (Some(""), Ok(vec![1, 2, 3])),
        (Some("9"), Ok(vec![1, 2, 3])),
        (Some("-3"), Ok(vec![1, 2, 3])),
        (Some("3"), Ok(vec![1, 2])),
        (Some("+3,900"), Ok(vec![1, 2])),
        (Some(" 2 , ,"), Ok(vec![1, 3])),
        (Some("x"), Err(-5)),
        (Some("2;3"), Err(-5)),
        (Some("server.3"), Err(-5)),
        (Some("0x3"), Err(-5)),
        (Some("99999999999999999999"), Err(-5)),
        (Some("1,2,3"), Err(-8)),
    ] {
        let expected = expected.map(|ids| of_three(&ids, ""));
        for standalone_enabled in [true, false] {
            let expected = expected.as_deref().map_err(|code| *code);
            check(&request((None, leaving), None), standalone_enabled, expected);
        }
    }
    let alone = of_three(&[1], "");
    check(&request((None, Some("2,3")), None), true, Err(-8));
    check(&request((None, Some("2,3")), None), false, Ok(&alone));
}

/// Expected values: as above.
#[test]
fn servers_join_as_in_zookeeper() {
    let fourth = "server.4=10.0.0.4:2888:3888;2181";
    for (joining, leaving, expected) in [
        (fourth, None, Ok(of_three(&[1, 2, 3], fourth))),
        ("4=10.0.0.4:2888:3888;2181", None, Ok(of_three(&[1, 2, 3], fourth))),
        ("x.y.4=10.0.0.4:2888:3888;2181", None, Ok(of_three(&[1, 2, 3], fourth))),
        ("=server.4==10.0.0.4:2888:3888;2181=", None, Ok(of_three(&[1, 2, 3], fourth))),
        (" server.4 = 10.0.0.4:2888:3888;2181 ,", None, Ok(of_three(&[1, 2, 3], fourth))),
        ("server.4=10.0.0.4:2888:3888;2181;", None, Ok(of_three(&[1, 2, 3], fourth))),
        (fourth, Some("3,4"), Ok(of_three(&[1, 2], fourth))),
        // No id, no server, no client port.
        ("server.x=10.0.0.4:2888:3888;2181", None, Err(-5)),
        ("server.=10.0.0.4:2888:3888;2181", None, Err(-5)),
        ("server.4", None, Err(-8)),
        ("server.4=", None, Err(-8)),
        ("server.4=a=10.0.0.4:2888:3888;2181", None, Err(-8)),
        ("server.4=10.0.0.4:2888:3888", None, Err(-8)),
        ("server.4=10.0.0.4:2888:3888;", None, Err(-8)),
        ("server.4=10.0.0.4:2888:70000;2181", None, Err(-5)),
        ("server.4=10.0.0.4:2888:3888;70000", None, Err(-5)),
        ("server.4=10.0.0.4:2888:2888;2181", None, Err(-8)),
        ("server.4=10.0.0.4:2888:3888:boss;2181", None, Err(-8)),
        ("server.4=10.0.0.4:1:2|10.0.0.5:1:2;3", None, Err(-8)),
        ("server.256=10.0.0.4:2888:3888;2181", None, Err(-8)),
        // The id of another takes its place.
        (
            "server.3=10.0.0.3:2888:3888:observer;2181",
            None,
            Ok(of_three(&[1, 2], "server.3=10.0.0.3:2888:3888:observer;2181")),
        ),
        (
            "server.4=10.0.0.5:1:2;3,server.4=10.0.0.4:2888:3888;2181",
            None,
            Ok(of_three(&[1, 2, 3], fourth)),
        ),
        // The first error counts.
        ("server.4=10.0.0.4:1:2;3,server.5=x:y:z;1", Some("z"), Err(-5)),
        ("server.4=10.0.0.3:2888:1;3,server.x=x:y:z;1", None, Err(-8)),
        ("server.x=x:y:z;1,server.4=10.0.0.3:2888:1;3", None, Err(-5)),
    ] {
        let expected = expected.as_deref().map_err(|code| *code);
        for standalone_enabled in [true, false] {
            check(&request((Some(joining), leaving), None), standalone_enabled, expected);
        }
    }
    let observers = "server.3=10.0.0.3:2888:3888:observer;2181,\
                     server.2=10.0.0.2:2888:3888:observer;2181";
    let one_voter = of_three(&[1], &observers.replace(',', "\n"));
    check(&request((Some(observers), None), None), true, Err(-8));
    check(&request((Some(observers), None), None), false, Ok(&one_voter));
}

/// Expected values: as above, but for names. ZooKeeper compares what they resolve to, if they do.
#[test]
fn two_servers_with_one_address_are_refused_as_in_zookeeper() {
    let same = |id, other, host: &str, port| {
        Err(ChangeError::SameAddress { id, other, host: host.to_owned(), port })
    };
    for (joining, leaving, expected) in [
        ("server.4=10.0.0.3:2888:3889;2181", None, same(4, 3, "10.0.0.3", 2888)),
        ("server.4=10.0.0.3:2889:3888;2181", None, same(4, 3, "10.0.0.3", 3888)),
        ("server.4=10.0.0.3:3888:2889;2181", None, same(4, 3, "10.0.0.3", 3888)),
        ("server.4=10.0.0.3:1:2;10.0.0.3:2888", None, same(4, 3, "10.0.0.3", 2888)),
        ("server.4=[::ffff:10.0.0.3]:2888:3889;3", None, same(4, 3, "10.0.0.3", 2888)),
        (
            "server.4=[2001:db8::1]:1:2;3,server.5=[2001:db8:0::1]:1:2;3",
            None,
            same(5, 4, "2001:db8:0:0:0:0:0:1", 1),
        ),
        ("server.4=host:1:2;3,server.5=HOST:4:2;3", None, same(5, 4, "host", 2)),
        ("server.4=10.0.0.3:1:2;2181", None, Ok(())),
        ("server.4=10.0.0.3:2888:3888;2181", Some("3"), Ok(())),
        ("server.3=10.0.0.9:1:2;3,server.4=10.0.0.3:2888:3888;2181", None, Ok(())),
        ("server.4=10.0.0.4:1:2;10.0.0.4:1", None, Ok(())),
        // These are another machine on each machine.
        ("server.4=localhost:1:2;3,server.5=LOCALHOST:1:2;3", None, Ok(())),
        ("server.4=127.0.0.1:1:2;3,server.5=127.0.0.1:1:2;3", None, Ok(())),
        ("server.4=[::1]:1:2;3,server.5=[::1]:1:2;3", None, Ok(())),
        ("server.4=0.0.0.0:1:2;3,server.5=0.0.0.0:1:2;3", None, Ok(())),
        ("server.4=[::]:1:2;3,server.5=[::]:1:2;3", None, Ok(())),
    ] {
        let found = decide(&request((Some(joining), leaving), None), true);
        assert_eq!(found.map(drop), expected, "{joining}");
    }
}

/// The order of `PrepRequestProcessor`: each error where all that come after it are due, too.
#[test]
fn errors_come_in_zookeepers_order() {
    let (list, next) = (three(), servers("server.1=a:1:2\nserver.2=b:1:2"));
    let (good, bad) = ((None, Some("3")), (None, Some("x")));
    for (steps, version, next, quorum, rights, expected) in [
        (bad, 7, Some(&next), false, false, (Err(-14), "")),
        (bad, 7, None, false, false, (Err(-103), "")),
        (bad, VERSION, None, false, false, (Err(-5), "")),
        ((None, Some("2,3")), VERSION, None, false, false, (Err(-8), "")),
        (good, VERSION, None, false, false, (Err(-13), "quorum")),
        (good, VERSION, None, true, false, (Err(-102), "quorum rights")),
        (good, VERSION, None, true, true, (Ok(2), "quorum rights")),
        (good, -1, None, true, true, (Ok(2), "quorum rights")),
        (good, 0, None, true, true, (Err(-103), "")),
    ] {
        let questions = RefCell::new(Vec::new());
        let has_quorum = |to_come: &Servers| {
            assert_eq!(to_come.voters(), 2);
            questions.borrow_mut().push("quorum");
            quorum
        };
        let has_rights = || {
            questions.borrow_mut().push("rights");
            rights
        };
        let request = ReconfigRequest { cur_config_id: version, ..request(steps, None) };
        let present = Present { list: &list, next, standalone_enabled: true };
        let asked = Asked::read(&request, Addresses::One);
        let found = asked.decide(&present, has_quorum, has_rights);
        let found = found.map(|servers| servers.voters()).map_err(|error| error.code().code());
        let questions = questions.borrow().join(" ");
        assert_eq!((found, questions.as_str()), expected, "{steps:?} {version:x}");
    }
    assert_eq!(ChangeError::NotEnabled.code().code(), -123);
}

/// ZooKeeper's changes end; here one that cannot end is led back.
#[test]
fn while_a_change_is_on_its_way_only_the_way_back_is_open() {
    let list = three();
    let fourth = "server.4=10.0.0.4:2888:3888;2181";
    let next = servers(&of_three(&[1, 2, 3], fourth));
    let all = THREE.replace("10.0.0.2", "10.0.0.9");
    for (steps, all, version, expected) in [
        // Steps are steps of what is to come.
        ((None, Some("4")), None, -1, None),
        ((None, Some("4")), None, VERSION, None),
        ((None, Some("4")), None, 7, Some(-103)),
        ((None, None), Some(THREE), -1, None),
        ((None, None), Some(all.as_str()), -1, Some(-14)),
        ((None, None), Some("x"), 7, Some(-14)),
        ((None, None), None, -1, Some(-14)),
        ((None, Some("3")), None, -1, Some(-14)),
        ((Some(fourth), None), None, -1, Some(-14)),
    ] {
        let request = ReconfigRequest { cur_config_id: version, ..request(steps, all) };
        let present = Present { list: &list, next: Some(&next), standalone_enabled: true };
        let found = Asked::read(&request, Addresses::One).decide(&present, |_| true, || true);
        let expected = expected.map_or_else(|| Ok(list.servers.clone()), Err);
        assert_eq!(found.map_err(|error| error.code().code()), expected, "{request:?}");
    }
}

#[test]
fn a_request_and_what_comes_of_it_have_at_most_sixteen_kibibytes() {
    let long = " ".repeat(MOST_TEXT + 1);
    check(&request((None, None), Some(&long)), true, Err(-8));
    check(&request((Some(&long), None), None), true, Err(-8));
    check(&request((Some(&long[1..]), Some(" ")), None), true, Err(-8));
    check(&request((Some(&long[1..]), None), None), true, Ok(THREE));
    // Short as it is asked for, long as it is shown.
    let joining: Vec<String> =
        (4..=255).map(|id| format!("{id}=[1::{id}]:1:2;[1::{id}]:3")).collect();
    assert!(joining.join(",").len() < MOST_TEXT);
    check(&request((Some(&joining.join(",")), None), None), true, Err(-8));
    let all: Vec<String> = joining.iter().map(|line| format!("server.{line}")).collect();
    assert!(all.join(",").len() < MOST_TEXT);
    check(&request((None, None), Some(&all.join(","))), true, Err(-8));
}

fn any_list_of_words() -> impl Strategy<Value = Option<String>> {
    let line = (any::<u8>(), any_server()).prop_map(|(id, server)| format!("server.{id}={server}"));
    let word = prop_oneof![
        4 => line,
        2 => (0..9_u8).prop_map(|id| id.to_string()),
        1 => "[-+0-9a-z.:;|=\\[\\] \\\\]{0,9}",
    ];
    prop::option::of(prop::collection::vec(word, 0..5).prop_map(|words| words.join(",")))
}

proptest! {
    #[test]
    fn no_request_leaves_too_few_voters(
        servers in any_servers(),
        next in prop::option::of(any_servers()),
        joining in any_list_of_words(),
        leaving in prop::option::of(prop::collection::vec(0..9_u8, 0..5)),
        all in prop::option::weighted(0.3, any_list_of_words()),
        standalone_enabled in any::<bool>(),
    ) {
        let list = ServerList { servers, version: 7 };
        let leaving = leaving.map(|ids| format!("{ids:?}").replace(['[', ']'], ""));
        let steps = (joining.as_deref(), leaving.as_deref());
        let all = all.flatten();
        let request = request(steps, all.as_deref());
        let present = Present { list: &list, next: next.as_ref(), standalone_enabled };
        let asked = Asked::read(&request, Addresses::One);
        if let Ok(to_come) = asked.decide(&present, |_| true, || true) {
            let least = if standalone_enabled { 2 } else { 1 };
            prop_assert!(to_come.voters() >= least);
            let text = ServerList { servers: to_come.clone(), version: i64::MAX }.text();
            prop_assert!(text.len() <= MOST_TEXT);
            prop_assert_eq!(ServerList::parse(&text).map(|list| list.servers), Ok(to_come.clone()));
            prop_assert!(next.is_none() || to_come == list.servers);
        }
    }
}
