//! What ZooKeeper left in the directories: in each epoch a majority has the log of the greatest of
//! it, and some of them what came then. And what of that may have been acknowledged.

use std::sync::Arc;

use jute::txn::{CreateSessionTxn, Txn, TxnHeader, TxnRecord};

use super::server::{open, options};
use crate::engine::database::Rules;
use crate::ensemble::rebuild::Rebuild;
use crate::ensemble::snapshots::first_snapshot;
use crate::storage::sim::{Dice, SimDisk};
use crate::storage::{Compression, EpochFile, recover};

/// What one server has.
#[derive(Debug, Clone, Default)]
pub(super) struct Left {
    pub(super) epoch: i64,
    /// Each transaction opens the session of its number.
    pub(super) zxids: Vec<i64>,
}

impl Left {
    fn key(&self) -> (i64, i64) {
        (self.epoch, self.zxids.last().copied().unwrap_or(0))
    }
}

/// What each server has, and what must not be lost of it.
pub(super) fn draw(dice: &mut Dice, servers: usize) -> (Vec<Left>, Vec<i64>) {
    let mut left = vec![Left::default(); servers];
    let majority = servers / 2 + 1;
    let with_data = match dice.below(6) {
        0 => 0,
        1 => 1,
        2 => majority - 1,
        3 => majority,
        _ => servers,
    };
    let mut having: Vec<usize> = (0..servers).collect();
    while having.len() > with_data {
        having.remove(dice.below(having.len() as u64) as usize);
    }
    let mut acknowledged = Vec::new();
    if having.is_empty() {
        return (left, acknowledged);
    }
    let first = i64::from(with_data > 1 || dice.coin());
    for epoch in first..first + 1 + dice.below(3).cast_signed() {
        let least = majority.min(having.len());
        let mut quorum = having.clone();
        let size = least + dice.below((having.len() - least) as u64 + 1) as usize;
        // All of them come to it once.
        while epoch > first && quorum.len() > size {
            quorum.remove(dice.below(quorum.len() as u64) as usize);
        }
        let leader = quorum.iter().copied().max_by_key(|at| left[*at].key()).expect("one");
        let log = left[leader].zxids.clone();
        let count = 1 + dice.below(3);
        let new: Vec<i64> =
            (1..=count).map(|number| (epoch << 32) + number.cast_signed()).collect();
        let mut has = Vec::new();
        for at in &quorum {
            let most = if *at == leader { count } else { dice.below(count + 1) };
            // Nobody is left without any.
            let kept = if log.is_empty() { most.max(1) } else { most } as usize;
            let zxids = log.iter().chain(&new[..kept]).copied().collect();
            left[*at] = Left { epoch, zxids };
            has.push(kept);
        }
        let is_acknowledged = |at: usize| has.iter().filter(|kept| **kept > at).count() >= majority;
        if quorum.len() >= majority {
            let known = log.iter().filter(|zxid| !acknowledged.contains(zxid)).copied();
            let known: Vec<i64> = known.collect();
            acknowledged.extend(known);
        }
        acknowledged.extend((0..new.len()).filter(|at| is_acknowledged(*at)).map(|at| new[at]));
    }
    if with_data < majority {
        let greatest = having.into_iter().max_by_key(|at| left[*at].key()).expect("one");
        acknowledged.clone_from(&left[greatest].zxids);
    }
    (left, acknowledged)
}

/// Writes it.
pub(super) fn write(disk: &SimDisk, left: &Left, dice: &mut Dice) {
    if left.zxids.is_empty() {
        return;
    }
    let directory = Arc::new(open(disk).expect("opens"));
    let mut rebuild = Rebuild::new(1, Rules::default()).of(&directory).expect("a directory");
    let mut recovered = recover(&directory, options(), &mut rebuild).expect("recovers");
    first_snapshot(&directory, &mut rebuild.finish(), Compression::None).expect("written");
    for zxid in &left.zxids {
        let header = TxnHeader { client_id: *zxid, cxid: 0, zxid: *zxid, time: 1 };
        let txn = Txn::CreateSession(CreateSessionTxn { timeout_ms: 30_000 });
        recovered.log.append(&TxnRecord { header, txn, digest: None }).expect("appends");
    }
    recovered.log.commit().expect("is durable");
    let (files, folder) = (directory.disk(), directory.snapshots());
    let mut current = EpochFile::current(Arc::clone(files), folder).expect("opens");
    current.set(left.epoch).expect("set");
    let mut accepted = EpochFile::accepted(Arc::clone(files), folder).expect("opens");
    accepted.set(left.epoch + i64::from(left.epoch > 0 && dice.below(4) == 0)).expect("set");
    drop((recovered, directory));
    disk.kill();
}
