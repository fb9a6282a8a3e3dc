//! A member that has not got yet what its ensemble was founded on.

use std::sync::Arc;

use raft::eraftpb::{Message as PeerMessage, MessageType};

use super::connection::Seen;
use super::network::Content;
use super::post::Post;
use super::*;
use crate::engine::database::{Database, Rules};
use crate::engine::time::{Monotonic, Now, WallClock};
use crate::ensemble::raft::{fixture, member_id};
use crate::ensemble::replica::Replica;
use crate::storage::sim::SimDisk;
use crate::storage::{Members, RaftState, RaftStateFile};

const NOW: Now = Now { monotonic: Monotonic(0), wall: WallClock(0) };

/// It stands for nothing itself. But as long as it waits for a leader that is gone, nobody gets
/// what it waits for.
#[test]
fn a_leader_that_is_gone_keeps_nobody_from_the_vote_of_who_awaits_the_base() {
    let [own, gone, other] = [1, 2, 3].map(|server| member_id(server, 1));
    let members = Members { voters: vec![own, gone, other], ..Members::default() };
    let first =
        RaftState { id: own, term: 5, base: 3, founded_in: 5, members, ..RaftState::default() };
    let directory = Arc::new(fixture::directory(&SimDisk::default()));
    RaftStateFile::create(&directory, &first, None).expect("creates");
    let how = fixture::ensemble(4096, true);
    let started = how.start(directory).expect("starts");
    let replica = Arc::new(Replica::new(Database::new(1, Rules::default())));
    let (clients, post) = (Arc::new(Seen::default()), Post::new(Flaw::None));
    let (mut member, mut writer) =
        Member::new(how, started, replica, clients, post, 500).expect("a member");
    let mut says = |member: &mut Member<Post>, kind, from, term, index| {
        let mut message = PeerMessage { from, to: own, term, index, ..PeerMessage::default() };
        message.set_msg_type(kind);
        message.log_term = index.min(1) * 5;
        member.step(message);
        member.turn(NOW).expect("a turn");
        let written = writer.write(member.consensus_mut().take_writes()).expect("writes");
        member.persisted(written).expect("durable");
        member.turn(NOW).expect("a turn");
        let votes = |(to, said): (u64, Content)| match said {
            Content::Message(said) if to == other => Some(!said.reject),
            _ => None,
        };
        std::mem::take(&mut member.transport().sent).into_iter().find_map(votes)
    };
    says(&mut member, MessageType::MsgHeartbeat, gone, 6, 0);
    let mut asks =
        |member: &mut Member<Post>| says(member, MessageType::MsgRequestPreVote, other, 7, 3);
    assert_eq!(asks(&mut member), None, "it has just heard of its leader");
    (0..ELECTION_TICKS).for_each(|_| member.tick());
    assert_eq!(asks(&mut member), Some(true));
}
