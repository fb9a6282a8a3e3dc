//! What goes on where the disk of the log is short of room.

use super::*;

#[test]
fn on_a_nearly_full_disk_only_what_needs_no_room_goes_on() {
    let mut world = World::with_two();
    world.group(
        &[],
        vec![
            by(1, create("/a", CreateMode::Persistent)),
            by(1, create("/b", CreateMode::Persistent)),
            by(2, create("/own", CreateMode::Ephemeral)),
        ],
    );
    // Segments are a megabyte long: two are the reserve.
    world.disk.set_free(Some((2 << 20) - 1));
    world.now.monotonic = world.now.monotonic.plus(1000);
    let multi = |ops| Request::Multi(ops);
    let removal = || MultiOp::Delete(DeleteRequest { path: "/b".into(), version: -1 });
    let addition = MultiOp::Create(CreateRequest {
        path: "/c".into(),
        data: None,
        acl: Some(vec![Acl::anyone(perms::ALL)]),
        flags: CreateMode::Persistent.flags(),
    });
    let seen = world.group(
        &[],
        vec![
            by(1, create("/c", CreateMode::Persistent)),
            by(1, set("/a", "more")),
            by(1, set("/a", "no")),
            by(1, get("/a", false)),
            by(1, multi(vec![removal(), addition])),
            by(1, multi(vec![removal()])),
            by(1, delete("/a")),
            by(2, Request::CloseSession),
            (3, None, Work::Open { timeout_ms: TIMEOUT_MS }),
        ],
    );
    let outcomes: Vec<&str> = seen
        .iter()
        .map(|line| line.split_once(": ").map_or(line.as_str(), |(_, end)| end))
        .collect();
    assert_eq!(
        outcomes,
        [
            "OperationTimeout",
            "OperationTimeout",
            "version 1",
            "no",
            "OperationTimeout",
            "done",
            "ok",
            "ok",
            "3 has 2",
            "flush"
        ]
    );
    let seen = world.group(&[Chore::Expire(SessionId(FIRST_SESSION))], vec![]);
    assert_eq!(seen, ["1 closed", "flush"]);
    // It heals by itself, and not by a little.
    world.disk.set_free(Some(2 << 20));
    world.now.monotonic = world.now.monotonic.plus(1000);
    let again = |world: &mut World| {
        let asked = (3, Some(2), Work::Request(create("/c", CreateMode::Persistent)));
        world.group(&[], vec![asked])[0].clone()
    };
    assert!(again(&mut world).ends_with(": OperationTimeout"));
    world.disk.set_free(Some(3 << 20));
    world.now.monotonic = world.now.monotonic.plus(1000);
    assert!(again(&mut world).ends_with(": /c"));
}

/// A session that lived on one server only asks for more than there is room for.
#[test]
fn an_upgrade_that_is_refused_writes_nothing() {
    let mut world = World::with_two();
    let upgrade = |path| {
        let request = create(path, CreateMode::Ephemeral);
        (3, Some(77), Work::Upgrade { timeout_ms: TIMEOUT_MS, request })
    };
    world.disk.set_free(Some((2 << 20) - 1));
    world.now.monotonic = world.now.monotonic.plus(1000);
    let (sessions, index) =
        (world.standalone.sequencer().sessions_count(), world.standalone.log().next_index());
    assert_eq!(world.group(&[], vec![upgrade("/a")]), ["3#1 at 2: OperationTimeout", "flush"]);
    assert_eq!(world.standalone.sequencer().sessions_count(), sessions);
    assert_eq!(world.standalone.log().next_index(), index);
    world.disk.set_free(Some(3 << 20));
    world.now.monotonic = world.now.monotonic.plus(1000);
    assert_eq!(world.group(&[], vec![upgrade("/a")]), ["3#1 at 4: /a", "flush"]);
    assert_eq!(world.standalone.log().next_index(), index + 2);
}

/// Sessions and changes of the same length write to the log, too: nobody may eat the reserve by
/// them.
#[test]
fn on_a_disk_that_is_all_but_full_only_what_comes_to_an_end_goes_on() {
    let mut world = World::with_two();
    let (a, b) = (create("/a", CreateMode::Persistent), create("/b", CreateMode::Persistent));
    world.group(&[], vec![by(1, a), by(1, b)]);
    let with_free = |world: &mut World, free: u64| {
        world.disk.set_free(Some(free));
        world.now.monotonic = world.now.monotonic.plus(1000);
        let check = || MultiOp::Check(CheckVersionRequest { path: "/b".into(), version: -1 });
        let removal = MultiOp::Delete(DeleteRequest { path: "/b".into(), version: -1 });
        let asked = vec![
            (3, None, Work::Open { timeout_ms: TIMEOUT_MS }),
            by(1, set("/a", "new")),
            by(1, Request::Multi(vec![check()])),
            by(1, Request::Multi(vec![check(), removal])),
            by(1, get("/a", false)),
            (1, Some(0), Work::Attach { timeout_ms: TIMEOUT_MS }),
        ];
        let seen = world.group(&[], asked);
        let outcome = |line: &String| {
            line.split_once(": ").map_or_else(|| line.clone(), |(_, end)| end.to_owned())
        };
        seen.iter().map(outcome).collect::<Vec<String>>()
    };
    let seen = with_free(&mut world, (1 << 20) - 1);
    let refused = "OperationTimeout";
    assert_eq!(
        seen,
        ["3 closed", refused, refused, "done,done", "new", "1 closed", "1 has 0", "flush"]
    );
    // Not by a little, and then as before.
    let seen = with_free(&mut world, (1 << 20) + 1000);
    assert_eq!((seen[0].as_str(), seen[1].as_str()), ("3 closed", refused));
    let seen = with_free(&mut world, (1 << 20) + (1 << 19));
    assert_eq!((seen[0].as_str(), seen[1].as_str()), ("3 has 2", "version 1"));
    let seen = with_free(&mut world, 1 << 19);
    assert_eq!(seen[0], "3 closed");
    let seen = with_free(&mut world, 4 << 20);
    assert_eq!(seen[0], "3 has 3");
    // A log that is eaten into: sessions come and go until half is left.
    world.disk.set_free(Some(2 << 20));
    let mut opened = 0;
    loop {
        world.now.monotonic = world.now.monotonic.plus(1000);
        let open = |_| (9, None, Work::Open { timeout_ms: TIMEOUT_MS });
        let seen = world.group(&[], (0..50).map(open).collect());
        if seen[0].ends_with("closed") {
            break;
        }
        opened += 50;
        assert!(opened < 100_000, "the reserve is eaten up");
    }
    assert!(world.standalone.log().free_space().expect("known") > 1 << 19);
}
