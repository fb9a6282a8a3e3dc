use std::sync::Arc;

use jute::protocol::{CreateRequest, MultiOp, Request, SetDataRequest, SyncRequest};
use jute::{Acl, ErrorCode, perms};

use proptest::prelude::*;
use raft::eraftpb::{Entry, EntryType, MessageType};

use super::message::MESSAGE_TYPES;
use super::*;
use crate::engine::access::acl::{Identities, Identity};
use crate::engine::decide::request::{Origin, Work};
use crate::engine::session::SessionId;
use crate::engine::watch::ConnectionId;
use crate::engine::zxid::Zxid;
use crate::ensemble::disk_room::DiskSpace;
use crate::ensemble::founding::{Applicant, Founding, HandedSecret, LastRecord, Seat};
use crate::ensemble::snapshots::Need;
use crate::ensemble::standing::{Base, Begins, Busy, Holding, Left, OfLine, Standing};
use crate::ensemble::words::{Forwarded, StreamId, TreeDigest, TreeVersion, Verdict};
use crate::storage::Members;

fn framed(said: &Said) -> (Vec<u8>, u32) {
    let mut out = BytesMut::new();
    put_said(&mut out, said);
    let (head, content) = out.split_at(FRAME_HEAD_LEN);
    let (len, checksum) = parse_head(head.try_into().unwrap()).unwrap();
    assert_eq!(len, content.len());
    (content.to_vec(), checksum)
}

fn parse(content: &[u8]) -> Result<Said, FrameError> {
    parse_said(content, crc32fast::hash(content), Monotonic(0))
}

fn message(msg_type: MessageType) -> PeerMessage {
    let mut message = PeerMessage { msg_type, ..PeerMessage::default() };
    (message.to, message.from, message.term) = (0x102, 0x101, 3);
    (message.log_term, message.index, message.commit) = (2, 77, 70);
    (message.commit_term, message.request_snapshot, message.reject_hint) = (2, 5, 76);
    (message.reject, message.priority, message.deprecated_priority) = (true, -9, 8);
    message.context = b"campaign".as_slice().into();
    message
}

fn asked(work: Work) -> Forwarded {
    let identity = |scheme: &str, id: &str| Identity { scheme: scheme.into(), id: id.into() };
    let identities =
        Arc::new(Identities::from(vec![identity("ip", "10.0.0.1"), identity("digest", "u:hash")]));
    let connection = ConnectionId::on(3, 0x1234);
    let origin =
        Origin { connection, session: SessionId(-7), xid: -2, identities, received: Monotonic(0) };
    Forwarded { origin, work, len: 0 }
}

/// One of everything.
fn examples() -> Vec<Said> {
    let mut examples: Vec<Said> =
        MESSAGE_TYPES.iter().map(|kind| Said::Message(message(*kind))).collect();
    let mut append = message(MessageType::MsgAppend);
    let entries =
        [EntryType::EntryNormal, EntryType::EntryConfChange, EntryType::EntryConfChangeV2];
    for (index, entry_type) in (78..).zip(entries) {
        let payload = vec![index as u8; index as usize].into();
        let entry = Entry { entry_type, term: 3, index, ..Entry::default() };
        append.entries.push(match entry_type {
            EntryType::EntryNormal => Entry { data: payload, ..entry },
            _ => Entry { context: payload, ..entry },
        });
    }
    let mut snapshot = message(MessageType::MsgSnapshot);
    let content = snapshot.mut_snapshot();
    content.data = b"zxid".as_slice().into();
    content.mut_metadata().index = 60;
    content.mut_metadata().term = 2;
    let members = content.mut_metadata().mut_conf_state();
    (members.voters, members.learners) = (vec![0x101, 0x102, 0x103], vec![0x104]);
    (members.voters_outgoing, members.learners_next) = (vec![0x101], vec![0x105]);
    members.auto_leave = true;
    examples.extend([append, snapshot].map(Said::Message));
    let set = || SetDataRequest { path: "/a".into(), data: None, version: 3 };
    let create = CreateRequest {
        path: "/ä".into(),
        data: Some(b"x".as_slice().into()),
        acl: Some(vec![Acl::anyone(perms::ALL)]),
        flags: 2,
    };
    let multi = vec![MultiOp::SetData(set()), MultiOp::Create(create.clone())];
    let stream = StreamId(u64::MAX - 1);
    let requests = [
        Work::Open { timeout_ms: 4000 },
        Work::Attach { timeout_ms: 5000 },
        Work::Throttled,
        Work::Request(Request::Create(create)),
        Work::Request(Request::SetData(set())),
        Work::Request(Request::Multi(multi)),
        Work::Request(Request::Sync(SyncRequest { path: None })),
        Work::Request(Request::CloseSession),
        Work::OfLocal(Request::SetData(set())),
        Work::Upgrade { timeout_ms: 7, request: Request::SetData(set()) },
        Work::Request(Request::Ping),
    ];
    let (zxid, session) = (Zxid(0x3_0000_0007), SessionId(0x0100_0000_0000_0001));
    let tree = TreeDigest { zxid, version: TreeVersion(2), digest: -2 };
    let verdicts = vec![
        Verdict::Txn(zxid),
        Verdict::Open { zxid, session, timeout_ms: 4000 },
        Verdict::Read(zxid),
        Verdict::Refused(zxid, ErrorCode::BadVersion),
        Verdict::RefusedMulti(zxid, vec![0, -103, -2]),
        Verdict::Attached { session, timeout_ms: 4000 },
        Verdict::NoSession,
        Verdict::Close,
    ];
    examples.extend(
        [
            PeerWord::Forwarded { stream, first: 3, requests: requests.map(asked).into() },
            PeerWord::Decided { stream, first: 1 << 40, verdicts },
            PeerWord::Ended { stream, returned: vec![asked(Work::Attach { timeout_ms: 7 })] },
            PeerWord::Heard(vec![session, SessionId(-1)]),
            PeerWord::Disowned(vec![ConnectionId::on(255, 9)]),
            PeerWord::Snapshot(Need::None),
            PeerWord::Snapshot(Need::Due),
            PeerWord::Snapshot(Need::Overdue),
            PeerWord::Snapshot(Need::Writing),
            PeerWord::TakeSnapshot,
            PeerWord::Listed(vec![1, 0, 255]),
            PeerWord::Tree(tree),
            PeerWord::WrongTree(tree),
            PeerWord::Room(DiskSpace::Enough),
            PeerWord::Room(DiskSpace::Scarce),
            PeerWord::Room(DiskSpace::Least),
            PeerWord::Room(DiskSpace::Full),
            PeerWord::Room(DiskSpace::Nothing),
        ]
        .map(Said::Word),
    );
    let base = Base { epoch: 4, zxid: 0x4_0000_0009, accepted: 5 };
    let members = Members {
        voters: vec![0x101, 0x202],
        learners: vec![0x103],
        voters_outgoing: vec![0x102],
        learners_next: vec![0x104],
        auto_leave: true,
    };
    let founding = Founding {
        ensemble: u64::MAX,
        line: 4,
        generation: 2,
        term: 6,
        founded_in: 5,
        base,
        index: 8,
        members: members.clone(),
        configured_at: 7,
    };
    let seat =
        Seat { id: 0x203, ensemble: 3, line: 4, generation: 2, term: 9, members, configured_at: 8 };
    let of = OfLine {
        line: 4,
        generation: 1,
        term: 5,
        last: -1,
        lacks_base: true,
        held: true,
        lacks_vote: true,
        voters: [1, 200].into_iter().collect(),
        outgoing: [255].into_iter().collect(),
    };
    let (nonce, veiled) = ([1; 32], [2; 32]);
    let secret = Box::new(HandedSecret { nonce, veiled, before: vec![session.0, -1] });
    let questions = [
        Question::Standing,
        Question::Founded(founding.clone(), None),
        Question::Founded(founding, Some(secret.clone())),
        Question::Seat(Applicant { server: 255, was: None, ends_with: None }),
        Question::Seat(Applicant { server: 7, was: Some(0x907), ends_with: None }),
        Question::Seat(Applicant {
            server: 7,
            was: None,
            ends_with: Some(LastRecord { zxid: 1 << 40, time: -1, checksum: u32::MAX }),
        }),
    ];
    examples.extend(questions.map(Said::Question));
    let answers = [
        FoundingAnswer::Standing(Standing::Before(Holding {
            base,
            begins: Begins::Marked,
            names: Some(0),
            left: Some(Left { ensemble: 9, of }),
            detached: Some(10),
        })),
        FoundingAnswer::Standing(Standing::Before(Holding {
            base,
            begins: Begins::WithAll,
            ..Holding::default()
        })),
        FoundingAnswer::Standing(Standing::Member {
            id: 0x101,
            ensemble: 3,
            asks: vec![2, 0],
            has_begun: true,
            configured_at: 9,
            of,
        }),
        FoundingAnswer::Standing(Standing::Removed { ensemble: u64::MAX }),
        FoundingAnswer::Standing(Standing::Busy(Busy::Reads)),
        FoundingAnswer::Standing(Standing::Busy(Busy::Joins)),
        FoundingAnswer::Founded,
        FoundingAnswer::Seat(seat.clone(), None),
        FoundingAnswer::Seat(seat, Some(secret)),
        FoundingAnswer::Elsewhere,
        FoundingAnswer::OfAnother(u64::MAX),
        FoundingAnswer::NotYet("no".to_owned()),
        FoundingAnswer::Lacking,
        FoundingAnswer::Refused("no".to_owned()),
    ];
    examples.extend(answers.map(Said::Answer));
    examples.push(Said::Alive(7));
    examples
}

/// What a request takes of a queue's room counts them so.
#[test]
fn identities_take_in_a_frame_what_they_say() {
    let identity = |id: usize| Identity { scheme: "digest".to_owned(), id: "x".repeat(id) };
    let shown = Identities::from(vec![identity(0), identity(100), identity(5000)]);
    let (bytes, nobody) = (shown.bytes(), Identities::default());
    let len = |identities: Identities| {
        let (connection, session) = (ConnectionId(1), SessionId(1));
        let (identities, received) = (Arc::new(identities), Monotonic(0));
        let origin = Origin { connection, session, xid: 1, identities, received };
        let requests = vec![Forwarded { origin, work: Work::Throttled, len: 0 }];
        let mut out = BytesMut::new();
        put_said(
            &mut out,
            &Said::Word(PeerWord::Forwarded { stream: StreamId(1), first: 0, requests }),
        );
        out.len()
    };
    assert_eq!(len(shown) - len(nobody), bytes);
}

#[test]
fn what_was_said_is_what_is_heard() {
    for said in examples() {
        let (content, checksum) = framed(&said);
        assert_eq!(parse_said(&content, checksum, Monotonic(0)), Ok(said));
    }
}

#[test]
fn a_frame_that_ends_early_or_late_is_none() {
    for said in examples() {
        let (mut content, _) = framed(&said);
        for len in 0..content.len() {
            assert!(parse(&content[..len]).is_err(), "{len} bytes of {said:?}");
        }
        content.push(0);
        assert_eq!(parse(&content), Err(FrameError::Behind(1)), "{said:?}");
    }
}

#[test]
fn any_changed_bit_is_seen() {
    for said in examples() {
        let (content, checksum) = framed(&said);
        for bit in 0..content.len() * 8 {
            let mut changed = content.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let parsed = parse_said(&changed, checksum, Monotonic(0));
            assert_eq!(parsed, Err(FrameError::Checksum), "bit {bit} of {said:?}");
        }
    }
}

/// With its checksum made right again, as a hostile peer would.
#[test]
fn no_changed_byte_does_harm() {
    for said in examples() {
        let (content, _) = framed(&said);
        for at in 0..content.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = content.clone();
                changed[at] = byte;
                // Whatever it is now: what is read of it is said the same way.
                if let Ok(heard) = parse(&changed) {
                    let (again, checksum) = framed(&heard);
                    assert_eq!(parse_said(&again, checksum, Monotonic(0)), Ok(heard));
                }
            }
        }
    }
}

#[test]
fn a_length_beyond_any_frame_is_refused() {
    let head = |len: u32| {
        let mut head = [0; FRAME_HEAD_LEN];
        head[..4].copy_from_slice(&len.to_be_bytes());
        head
    };
    assert_eq!(parse_head(head(FRAME_MAX)), Ok((FRAME_MAX as usize, 0)));
    assert_eq!(parse_head(head(FRAME_MAX + 1)), Err(FrameError::TooLong(FRAME_MAX + 1)));
    assert_eq!(parse_head(head(u32::MAX)), Err(FrameError::TooLong(u32::MAX)));
}

/// The layout is fixed: a member of an earlier version must understand it.
#[test]
fn frames_have_the_documented_bytes() {
    let tree = TreeDigest { zxid: Zxid(0x3_0000_0007), version: TreeVersion(2), digest: -2 };
    let words = [
        (
            PeerWord::Ended { stream: StreamId(0x0102), returned: vec![] },
            "04 0000000000000102 00000000",
        ),
        (PeerWord::Heard(vec![SessionId(1)]), "05 00000001 0000000000000001"),
        (PeerWord::Snapshot(Need::Writing), "09 03"),
        (PeerWord::TakeSnapshot, "0a"),
        (PeerWord::Listed(vec![3, 255]), "0c 00000002 03ff"),
        (PeerWord::Tree(tree), "0d 0000000300000007 00000002 fffffffffffffffe"),
        (PeerWord::WrongTree(tree), "0e 0000000300000007 00000002 fffffffffffffffe"),
        (PeerWord::Room(DiskSpace::Least), "0b 02"),
        (
            PeerWord::Decided {
                stream: StreamId(1),
                first: 9,
                verdicts: vec![Verdict::Txn(Zxid(2))],
            },
            "03 0000000000000001 0000000000000009 00000001 01 0000000000000002",
        ),
        (
            PeerWord::Forwarded {
                stream: StreamId(1),
                first: 8,
                requests: vec![asked(Work::Open { timeout_ms: 5 })],
            },
            "02 0000000000000001 0000000000000008 00000001 0003000000001234 fffffffffffffff9 \
             fffffffe 00000002 00000002 6970 00000008 31302e302e302e31 00000006 646967657374 \
             00000006 753a68617368 01 00000005",
        ),
    ];
    for (word, expected) in words {
        let hex: String = framed(&Said::Word(word)).0.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, expected.replace(' ', ""));
    }
}

proptest! {
    /// As a stranger would send them.
    #[test]
    fn no_bytes_make_it_panic(
        kind in 0_u8..17,
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let content = [&[kind], rest.as_slice()].concat();
        if let Ok(heard) = parse(&content) {
            let (again, checksum) = framed(&heard);
            prop_assert_eq!(parse_said(&again, checksum, Monotonic(0)), Ok(heard));
        }
    }
}
