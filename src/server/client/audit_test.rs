use jute::ErrorCode;
use jute::protocol::{CreateRequest, CreateResponse, CreateTtlRequest, DeleteRequest};

use super::noted::NotedChange;
use super::*;
use crate::engine::effect::Effect;

fn identity(scheme: &str, id: &str) -> Identity {
    Identity { scheme: scheme.into(), id: id.into() }
}

fn asked(request: &Request<'_>) -> AskedChange {
    let identities = Identities::from(vec![
        identity("ip", "::1"),
        identity("super", ""),
        identity("digest", "b:#"),
    ]);
    let address = [127, 0, 0, 1].into();
    let users = Users::of(&identities).text;
    let asked = AskedChange::of(request, SessionId(0xab), users, address);
    assert_eq!(Effect::of(request), Effect::Changes);
    asked.expect("it changes something")
}

fn lines(asked: &AskedChange, answer: Option<Answer<'_>>) -> Vec<String> {
    told(asked, answer.as_ref()).iter().map(|line| line.replace('\t', " ")).collect()
}

fn told(asked: &AskedChange, answer: Option<&Answer<'_>>) -> Vec<String> {
    let came = answer.map_or(Came::Invoked, Came::of);
    let fact = Fact::Request(asked.clone(), came);
    let mut lines = Vec::new();
    fact.lines("root", usize::MAX, |_, line| lines.push(line.to_owned()));
    assert_eq!(fact.line_count(), lines.len() as u64);
    lines
}

fn create(path: &str, mode: CreateMode) -> CreateRequest<'_> {
    CreateRequest { path: path.into(), data: None, acl: None, flags: mode.flags() }
}

const WHO: &str = "session=0xab user=::1,b ip=127.0.0.1";

#[test]
fn what_is_not_known_to_be_done_is_told_as_asked_for() {
    let one = asked(&Request::Create(create("/a-", CreateMode::PersistentSequential)));
    let line = |end: &str| vec![format!("{WHO} operation=create {end}")];
    let response = Response::Create(CreateResponse { path: "/a-7".into() });
    let znode_type = "znode_type=persistent_sequential";
    assert_eq!(lines(&one, None), line(&format!("znode=/a- {znode_type} result=invoked")));
    let done = lines(&one, Some(Ok(response)));
    assert_eq!(done, line(&format!("znode=/a-7 {znode_type} result=success")));
    let refused = lines(&one, Some(Err(ErrorCode::NoAuth)));
    assert_eq!(refused, line(&format!("znode=/a- {znode_type} result=failure")));
    let many = asked(&Request::Multi(vec![MultiOp::Create2(create("/a", CreateMode::Container))]));
    assert_eq!(lines(&many, None), [format!("{WHO} operation=multiOperation result=invoked")]);
}

/// ZooKeeper forgets the first, and of the second the type.
#[test]
fn creates_with_a_time_to_live_and_parts_with_a_suffix_have_their_type() {
    let request = CreateTtlRequest {
        path: "/t".into(),
        data: None,
        acl: None,
        flags: CreateMode::PersistentWithTtl.flags(),
        ttl: 1,
    };
    let ttl = lines(&asked(&Request::CreateTtl(request)), Some(Err(ErrorCode::NoNode)));
    let expected = "operation=create znode=/t znode_type=persistent_with_ttl result=failure";
    assert_eq!(ttl, [format!("{WHO} {expected}")]);

    let parts = vec![
        MultiOp::Create(create("/s-", CreateMode::EphemeralSequential)),
        MultiOp::Delete(DeleteRequest { path: "/d".into(), version: -1 }),
    ];
    let results = vec![MultiResult::Create("/s-1".into()), MultiResult::Delete];
    let multi = lines(&asked(&Request::Multi(parts)), Some(Ok(Response::Multi(results))));
    let expected = [
        "operation=create znode=/s-1 znode_type=ephemeral_sequential result=success",
        "operation=delete znode=/d result=success",
    ];
    assert_eq!(multi, expected.map(|end| format!("{WHO} {end}")));
}

#[test]
fn a_path_begins_no_field_and_no_line_of_its_own() {
    let path = "/a\tresult=success\nsession=0x1";
    let one = asked(&Request::Delete(DeleteRequest { path: path.into(), version: -1 }));
    let lines = told(&one, Some(&Err(ErrorCode::NoNode)));
    let text = &lines[0];
    assert_eq!(text.split('\t').count(), 6, "{text}");
    assert!(!text.contains('\n') && text.ends_with("\tresult=failure"), "{text}");
}

fn of_names(names: &[String]) -> Identities {
    let digests = names.iter().map(|name| identity("digest", &format!("{name}:#")));
    Identities::from(digests.collect::<Vec<_>>())
}

fn many(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("u{number:07}")).collect()
}

#[test]
fn of_very_many_names_the_first_and_the_last_stand_in_a_line() {
    let of = |names: &[String]| Users::of(&of_names(names)).text.to_string();
    assert_eq!(of(&[]), "");
    // 56 of 8 bytes with a comma each at either end.
    assert_eq!(of(&many(112)), many(112).join(","));
    for count in [113, 250, 5000] {
        let names = many(count);
        let [first, last] = [&names[..56], &names[count - 56..]].map(|names| names.join(","));
        assert_eq!(of(&names), format!("{first},…{} more…,{last}", count - 112));
    }
    let most = "é".repeat(32);
    assert_eq!(of(&[most.clone(), "b".into()]), format!("{most},b"));
    // Not within a character.
    let long = format!("a{most}");
    assert_eq!(of(&[long, "b".into()]), format!("a{}…,b", "é".repeat(31)));
}

/// Nobody can hide among the others: a line of their own has those whom each line leaves out,
/// once.
#[test]
fn names_that_lines_leave_out_are_told_once() {
    let audit = Audit::new(64 << 20, false, Arc::default());
    let mut noted = Noted::default();
    let request = Request::Delete(DeleteRequest { path: "/d".into(), version: -1 });
    let mut whole = |names: &[String]| {
        noted.forget_users();
        let address = [127, 0, 0, 1].into();
        noted.note(&audit, None, &request, SessionId(0xab), &of_names(names), address);
        let NotedChange { asked, .. } = noted.pop().expect("a change");
        let lines = told(&asked, Some(&Ok(Response::Empty)));
        let of_names = lines.iter().filter(|line| line.contains("\toperation=auth\t"));
        let users = of_names.map(|line| {
            assert!(line.starts_with("session=0xab\tuser="), "{line}");
            assert!(line.ends_with("\tip=127.0.0.1\toperation=auth\tresult=success"), "{line}");
            line["session=0xab\tuser=".len()..line.find("\tip=").expect("it")].to_owned()
        });
        let users: Vec<String> = users.collect();
        assert_eq!(lines.len(), users.len() + 1);
        assert!(users.iter().all(|line| line.len() <= 1024));
        users.join(",")
    };
    assert_eq!(whole(&many(112)), "");
    assert_eq!(whole(&many(250)), many(250).join(","));
    assert_eq!(whole(&many(250)), "");
    assert_eq!(whole(&many(252)), many(252)[250..].join(","));
}

#[test]
fn a_long_name_pushes_no_other_out() {
    let identities = vec![
        identity("ip", "10.0.0.9"),
        identity("digest", &format!("{}:#", "x".repeat(1100))),
        identity("digest", "admin:#"),
    ];
    let Users { text, is_cut } = Users::of(&Identities::from(identities));
    assert!(is_cut);
    assert!(text.starts_with("10.0.0.9,xxx") && text.ends_with("x…,admin"), "{text}");
}

/// Their cost is known before they are written, and nobody adds it up later.
#[test]
fn a_change_weighs_what_its_lines_do() {
    let part = MultiOp::Delete(DeleteRequest { path: "/d".into(), version: -1 });
    let identities = Identities::from(vec![identity("digest", &format!("{}:#", "x".repeat(64)))]);
    let users = Users::of(&identities).text;
    let request = Request::Multi(vec![part; 1000]);
    let address = [127, 0, 0, 1].into();
    let asked =
        AskedChange::of(&request, SessionId(0xab), users, address).expect("it changes something");
    let answer = Ok(Response::Multi(vec![MultiResult::Delete; 1000]));
    let bytes: usize = told(&asked, Some(&answer)).iter().map(|line| line.len() + 56).sum();
    for weight in [asked.weight_if_done(), Fact::Request(asked.clone(), Came::of(&answer)).weight()]
    {
        assert!((bytes..2 * bytes).contains(&weight), "{weight} for {bytes}");
    }
    // One line, and what it takes in memory.
    let refused = Fact::Request(asked, Came::Refused);
    assert!(refused.weight() < bytes, "{}", refused.weight());
}

#[test]
fn reads_are_not_audited() {
    let users = Users::of(&Identities::default()).text;
    for request in [Request::Ping, Request::WhoAmI, Request::CloseSession] {
        let address = [127, 0, 0, 1].into();
        assert!(AskedChange::of(&request, SessionId(1), Arc::clone(&users), address).is_none());
        assert_ne!(Effect::of(&request), Effect::Changes);
    }
}
