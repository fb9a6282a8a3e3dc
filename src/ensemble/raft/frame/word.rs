//! What members tell each other about clients, disks and trees.

use bytes::{BufMut as _, BytesMut};

use super::bytes::{Input, put_bytes, put_list};
use super::request::{put_asked, put_verdict};
use super::{
    ASKED, CHANGE_LIST, DECIDED, DISOWNED, ENDED, FrameError, HEARD, LIST_DECIDED, LISTED, ROOM,
    SNAPSHOT, TAKE_SNAPSHOT, TREE, WRONG_TREE,
};
use crate::engine::session::SessionId;
use crate::engine::time::Monotonic;
use crate::engine::watch::ConnectionId;
use crate::ensemble::disk_room::DiskSpace;
use crate::ensemble::snapshots::Need;
use crate::ensemble::words::{PeerWord, StreamId, TreeDigest, TreeVersion};

pub(super) fn put_word(out: &mut BytesMut, word: &PeerWord) {
    match word {
        PeerWord::Forwarded { stream, first, requests } => {
            out.put_u8(ASKED);
            out.put_u64(stream.0);
            out.put_u64(*first);
            put_list(out, requests, put_asked);
        }
        PeerWord::Decided { stream, first, verdicts } => {
            out.put_u8(DECIDED);
            out.put_u64(stream.0);
            out.put_u64(*first);
            put_list(out, verdicts, put_verdict);
        }
        PeerWord::Ended { stream, returned } => {
            out.put_u8(ENDED);
            out.put_u64(stream.0);
            put_list(out, returned, put_asked);
        }
        PeerWord::Heard(sessions) => {
            out.put_u8(HEARD);
            put_list(out, sessions, |out, session| out.put_i64(session.0));
        }
        PeerWord::Disowned(connections) => {
            out.put_u8(DISOWNED);
            put_list(out, connections, |out, connection| out.put_u64(connection.0));
        }
        PeerWord::Snapshot(need) => {
            out.put_u8(SNAPSHOT);
            out.put_u8(match need {
                Need::None => 0,
                Need::Due => 1,
                Need::Overdue => 2,
                Need::Writing => 3,
            });
        }
        PeerWord::TakeSnapshot => out.put_u8(TAKE_SNAPSHOT),
        PeerWord::Tree(tree) => {
            out.put_u8(TREE);
            put_tree(out, *tree);
        }
        PeerWord::WrongTree(tree) => {
            out.put_u8(WRONG_TREE);
            put_tree(out, *tree);
        }
        PeerWord::ChangeList { number, asked } => {
            put_numbered(out, CHANGE_LIST, *number);
            put_asked(out, asked);
        }
        PeerWord::ListDecided { number, verdict } => {
            put_numbered(out, LIST_DECIDED, *number);
            put_verdict(out, verdict);
        }
        PeerWord::Listed(servers) => {
            out.put_u8(LISTED);
            put_bytes(out, servers);
        }
        PeerWord::Room(room) => {
            out.put_u8(ROOM);
            out.put_u8(match room {
                DiskSpace::Enough => 0,
                DiskSpace::Scarce => 1,
                DiskSpace::Least => 2,
                DiskSpace::Full => 3,
                DiskSpace::Nothing => 4,
            });
        }
    }
}

fn put_numbered(out: &mut BytesMut, kind: u8, number: u64) {
    out.put_u8(kind);
    out.put_u64(number);
}

fn put_tree(out: &mut BytesMut, TreeDigest { zxid, version, digest }: TreeDigest) {
    out.put_i64(zxid.0);
    out.put_i32(version.0);
    out.put_i64(digest);
}

impl Input<'_> {
    pub(super) fn word(&mut self, kind: u8, now: Monotonic) -> Result<PeerWord, FrameError> {
        Ok(match kind {
            ASKED => PeerWord::Forwarded {
                stream: self.stream()?,
                first: self.number()?,
                requests: self.list(|input| input.asked(now))?,
            },
            DECIDED => PeerWord::Decided {
                stream: self.stream()?,
                first: self.number()?,
                verdicts: self.list(Self::verdict)?,
            },
            ENDED => PeerWord::Ended {
                stream: self.stream()?,
                returned: self.list(|input| input.asked(now))?,
            },
            HEARD => PeerWord::Heard(self.list(|input| input.take().map(SessionId))?),
            DISOWNED => {
                let connection = |input: &mut Self| input.number().map(ConnectionId);
                PeerWord::Disowned(self.list(connection)?)
            }
            SNAPSHOT => PeerWord::Snapshot(self.need()?),
            TAKE_SNAPSHOT => PeerWord::TakeSnapshot,
            ROOM => PeerWord::Room(self.room()?),
            CHANGE_LIST => PeerWord::ChangeList { number: self.number()?, asked: self.asked(now)? },
            LIST_DECIDED => {
                PeerWord::ListDecided { number: self.number()?, verdict: self.verdict()? }
            }
            LISTED => PeerWord::Listed(self.bytes()?.to_vec()),
            TREE => PeerWord::Tree(self.tree()?),
            WRONG_TREE => PeerWord::WrongTree(self.tree()?),
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    fn stream(&mut self) -> Result<StreamId, FrameError> {
        self.number().map(StreamId)
    }

    fn need(&mut self) -> Result<Need, FrameError> {
        Ok(match self.take::<u8>()? {
            0 => Need::None,
            1 => Need::Due,
            2 => Need::Overdue,
            3 => Need::Writing,
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }

    fn tree(&mut self) -> Result<TreeDigest, FrameError> {
        let (zxid, version) = (self.zxid()?, TreeVersion(self.take()?));
        Ok(TreeDigest { zxid, version, digest: self.take()? })
    }

    fn room(&mut self) -> Result<DiskSpace, FrameError> {
        Ok(match self.take::<u8>()? {
            0 => DiskSpace::Enough,
            1 => DiskSpace::Scarce,
            2 => DiskSpace::Least,
            3 => DiskSpace::Full,
            4 => DiskSpace::Nothing,
            kind => return Err(FrameError::Kind(kind.into())),
        })
    }
}
