//! A leader that was cut off and does not know it: what it still tells its clients.

use jute::protocol::SyncRequest;

use super::*;

/// A leader is cut off, another one acknowledges a write, and a client of the first asks for a sync. What it was answered.
fn sync_behind_the_back(flaw: Flaw) -> Result<(), String> {
    let mut world = World::settled(flaw);
    let leader = world.leader();
    for other in (0..MEMBERS as usize).filter(|other| *other != leader) {
        world.parted[leader][other] = true;
        world.parted[other][leader] = true;
        // The others see the end of its connections, it does not see that of theirs.
        let id = leader as u64 + 1;
        world.with(other, |member, _| member.lost(id)).expect("holds");
    }
    let leaders = |world: &World| -> Vec<usize> {
        (0..MEMBERS as usize).filter(|at| world.member(*at).is_leading()).collect()
    };
    world.try_pass_without(Some(leader), 2000).expect("holds");
    let leaders = leaders(&world);
    assert_eq!(leaders.len(), 2, "the first one does not know yet");
    let next = *leaders.iter().find(|at| **at != leader).expect("another");
    let before = world.checks.acknowledged_count();
    world.set(next, 10);
    world.pass(50);
    assert_eq!(world.checks.acknowledged_count(), before + 1);
    assert!(world.member(leader).is_leading());
    world.try_sync(leader)?;
    world.try_pass(2000)?;
    assert!(!world.member(leader).is_leading());
    assert_eq!((world.outcome.synced, world.waiting(leader)), (0, 0), "who asked is let go");
    Ok(())
}

#[test]
fn a_leader_that_was_cut_off_answers_no_sync() {
    assert_eq!(sync_behind_the_back(Flaw::None), Ok(()));
}

#[test]
fn a_sync_without_a_round_is_found() {
    let violation = sync_behind_the_back(Flaw::RoundNotMade).expect_err("it was answered");
    assert!(violation.contains("does not show"), "{violation}");
}

/// Through any server, alone and with writes before and behind it; with the answers in their order.
#[test]
fn a_sync_is_answered_by_every_server() {
    let mut world = World::settled(Flaw::None);
    for at in 0..MEMBERS as usize {
        world.try_sync(at).expect("holds");
        world.pass(50);
        assert_eq!(world.waiting(at), 0);
        world.set(at, 10);
        world.try_sync(at).expect("holds");
        world.try_sync(at).expect("holds");
        world.set(at, 20);
        world.pass(50);
        assert_eq!(world.waiting(at), 0);
    }
    assert_eq!(world.outcome.synced, 3 * MEMBERS);
}

/// The question or its answer is lost: it is asked again.
#[test]
fn a_sync_outlasts_a_lost_word() {
    let mut world = World::settled(Flaw::None);
    let leader = world.leader();
    for at in 0..MEMBERS as usize {
        world.try_sync(at).expect("holds");
        world.parcels.retain(|parcel| match &parcel.content {
            Content::Message(message, _) => !matches!(
                message.get_msg_type(),
                MessageType::MsgReadIndex | MessageType::MsgReadIndexResp
            ),
            Content::Word(_) => true,
        });
        world.pass(400);
        assert_eq!(world.waiting(at), 0, "{at}, with {leader} as the leader");
    }
}

impl World {
    fn try_sync(&mut self, at: usize) -> Checked {
        self.try_ask_for(at, Request::Sync(SyncRequest { path: None }))
    }
}
