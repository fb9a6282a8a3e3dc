//! What has a place in a group.

use super::*;

/// They log nothing, but each costs what its bytes cost; and the driver has other things to do.
#[test]
fn refused_requests_of_many_bytes_are_decided_in_several_groups() {
    let mut world = World::with_two();
    let refused = || {
        let (path, data) = ("/none/x".into(), Some(vec![0; 1_000_000].into()));
        let acl = Some(vec![Acl::anyone(perms::ALL)]);
        by(1, Request::Create(CreateRequest { path, data, acl, flags: 0 }))
    };
    let (mut asked, mut seen) = ((0..10).map(|_| refused()).collect::<Vec<_>>(), Vec::new());
    asked.push(by(1, create("/behind", CreateMode::Persistent)));
    for (group, has_more) in [(0, true), (1, true), (2, false)] {
        // What comes later waits its turn, and what the server wants has one in each group.
        let chores = [Chore::Expire(SessionId(FIRST_SESSION + 1))];
        let chores = if group == 1 { &chores[..] } else { &[] };
        world.try_group(chores, std::mem::take(&mut asked)).expect("it goes through");
        assert_eq!(world.standalone.has_more(), has_more, "{group}");
        seen.push(std::mem::take(&mut *world.seen.lines.lock()));
        if group == 0 {
            asked.push(by(1, get("/behind", false)));
        }
    }
    let no_node = |requests: std::ops::Range<i32>, zxid| {
        requests.map(move |xid| format!("1#{xid} at {zxid}: NoNode")).collect::<Vec<_>>()
    };
    let flush = || "flush".to_owned();
    assert_eq!(seen[0], [no_node(3..7, 2), vec![flush()]].concat());
    let closed = "2 closed".to_owned();
    assert_eq!(seen[1], [vec![closed], no_node(7..11, 3), vec![flush()]].concat());
    let rest = ["1#13 at 4: /behind".to_owned(), "1#14 at 4: new".to_owned(), flush()];
    assert_eq!(seen[2], [&no_node(11..13, 3)[..], &rest].concat());
    assert_eq!(world.room.available_permits(), ROOM, "room was kept");
}

/// However many sessions expire at once, requests have a turn between them, and no session is
/// forgotten.
#[test]
fn what_the_server_wants_is_decided_in_several_groups() {
    const SESSIONS: i64 = 12_000;
    let mut world = World::with_two();
    let open = |_| {
        let (connection, session) = (ConnectionId(9), SessionId::NONE);
        let (identities, received) = (Arc::default(), Monotonic(0));
        let origin = Origin { connection, session, xid: 0, identities, received };
        Submission::new(origin, Work::Open { timeout_ms: TIMEOUT_MS }, None)
    };
    let mut opening: Vec<Submission> = (0..SESSIONS).map(open).collect();
    while !opening.is_empty() || world.standalone.has_more() {
        let some = std::mem::take(&mut opening);
        world.standalone.run_group(Vec::new(), some, world.now).expect("it goes through");
    }
    let sessions = |world: &World| world.standalone.replica().shared().sessions().len();
    assert_eq!(sessions(&world), 2 + SESSIONS as usize);
    let expired = |session| Chore::Expire(SessionId(FIRST_SESSION + 2 + session));
    let mut chores: Vec<Chore> = (0..SESSIONS).map(expired).collect();
    let mut groups = 0;
    while !chores.is_empty() || world.standalone.has_more() {
        world.seen.lines.lock().clear();
        let chores = std::mem::take(&mut chores);
        world.try_group(&chores, vec![by(1, Request::Ping)]).expect("it goes through");
        let seen = std::mem::take(&mut *world.seen.lines.lock());
        let closed = seen.iter().filter(|line| *line == "9 closed").count();
        assert!(closed < 6000, "{closed} in one group");
        assert_eq!(seen.iter().filter(|line| line.ends_with(": ok")).count(), 1);
        groups += 1;
    }
    assert_eq!((sessions(&world), groups > 2), (2, true));
}

/// One client has sent more than a group takes, without waiting for an answer; another asks once.
#[test]
fn who_asks_little_does_not_wait_for_all_that_another_client_has_sent() {
    let mut world = World::with_two();
    let value: &'static str = Box::leak("v".repeat(700_000).into_boxed_str());
    let mut asked = vec![by(1, create("/a", CreateMode::Persistent))];
    asked.extend((0..20).map(|_| by(1, set("/a", value))));
    asked.push(by(2, exists("/b", false)));
    let mut groups: Vec<Vec<String>> = Vec::new();
    world.xid = 0;
    world.try_group(&[], asked).expect("goes through");
    groups.push(std::mem::take(&mut *world.seen.lines.lock()));
    while world.standalone.has_more() {
        world.try_group(&[], Vec::new()).expect("goes through");
        groups.push(std::mem::take(&mut *world.seen.lines.lock()));
    }
    let group_of =
        |line: &str| groups.iter().position(|group| group.iter().any(|it| it.starts_with(line)));
    assert!(group_of("2#22 ") <= Some(1), "{groups:?}");
    assert!(group_of("1#21 ") >= Some(6), "{groups:?}");
    let sets = groups.iter().flatten().filter(|line| line.starts_with("1#"));
    let xids: Vec<String> =
        sets.map(|line| line.split(' ').next().unwrap_or("").to_owned()).collect();
    assert_eq!(xids, (1..=21).map(|xid| format!("1#{xid}")).collect::<Vec<_>>());
}

/// Where a group took long, the next one is short, and has a place for everybody.
#[test]
fn who_asks_little_does_not_wait_for_long_groups() {
    let mut world = World::with_two();
    world.standalone.held.group_time = Duration::ZERO;
    let many = || (0..90).map(|_| by(1, exists("/b", false))).collect::<Vec<_>>();
    assert_eq!(world.group(&[], many()).len(), 91);
    let asked = [many(), vec![by(2, exists("/b", false))]].concat();
    world.xid = 0;
    world.try_group(&[], asked).expect("goes through");
    let seen = std::mem::take(&mut *world.seen.lines.lock());
    assert!(seen.contains(&"2#91 at 2: NoNode".to_owned()) && seen.len() < 70, "{seen:?}");
    assert!(world.standalone.has_more());
}
