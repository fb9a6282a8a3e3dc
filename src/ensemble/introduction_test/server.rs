//! A server: its disks, and the process that runs on one of them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::taking_part::Running;
use super::*;
use crate::engine::database::Rules;
use crate::ensemble::Ensemble;
use crate::ensemble::founding::Applicant;
use crate::storage::sim::SimDisk;
use crate::storage::{DirectoryOptions, LogOptions, RecoveryOptions, StorageError};

/// What is at the place of the data directory.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) disk: SimDisk,
    /// Another one when it was emptied.
    pub(super) number: u64,
    /// The ensemble that its raft.state names, as it was seen last.
    pub(super) belongs: Option<u64>,
    /// An ensemble was founded with it.
    pub(super) founds: bool,
}

impl Volume {
    /// Nothing is on it.
    pub(super) fn empty(number: u64) -> Self {
        let disk = SimDisk::default();
        Self { disk, number, belongs: None, founds: false }
    }
}

#[derive(Debug)]
pub(super) struct Server {
    /// Its own disk, and what is there while that is not mounted.
    pub(super) volumes: [Volume; 2],
    pub(super) mounted: usize,
    /// `db.autocreate`.
    pub(super) may_begin: bool,
    /// It has the marker.
    pub(super) is_marked: bool,
    pub(super) process: Option<Process>,
    /// What its operator was told last, and whether its last process ended because an ensemble has
    /// begun without its data.
    pub(super) line: String,
    pub(super) has_ended: bool,
    /// Why it gets no seat.
    pub(super) no_seat: String,
    /// Its own disk has what must not be lost, where no ensemble has moved that aside.
    pub(super) has_kept: bool,
    /// A start is under way to this time.
    pub(super) starts: u64,
}

/// What a server has its disk do.
#[derive(Debug)]
pub(super) enum Work {
    Found(Box<Before>, Founding),
    Belong(Box<Before>, Founding, u8, Reply),
    TakePart,
    Take(Applying, Seat),
}

/// To whom an answer goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    pub(super) to: usize,
    pub(super) process: u64,
    pub(super) question: u64,
}

/// For what a question is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// What another server is.
    Round(u8),
    /// Whether it belongs to what was founded here.
    Offer(u8),
    /// A seat of this ensemble.
    Seat(u64),
}

/// A round of questions.
#[derive(Debug)]
pub(super) struct Questions {
    pub(super) next: Next,
    pub(super) unanswered: BTreeSet<u8>,
    pub(super) heard: Heard,
}

#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: u64,
    pub(super) began: u64,
    pub(super) frozen_until: u64,
    pub(super) directory: Arc<DataDirectory>,
    pub(super) introduction: Introduction,
    pub(super) declined: Option<Declined>,
    pub(super) coming: Option<Coming>,
    pub(super) round: Option<Questions>,
    /// Servers that are still to be asked for a seat, and of which ensemble.
    pub(super) seats: VecDeque<(u8, u64)>,
    pub(super) applicant: Option<Applicant>,
    /// What is with the disk.
    pub(super) works: BTreeMap<u64, Work>,
    /// Questions that are not answered yet.
    pub(super) asked: BTreeMap<u64, For>,
    /// The ensemble that it takes part in.
    pub(super) ensemble: u64,
    pub(super) running: Option<Running>,
}

impl Process {
    pub(super) fn new(number: u64, began: u64, directory: Arc<DataDirectory>) -> Self {
        Self {
            number,
            began,
            frozen_until: 0,
            directory,
            introduction: Introduction::default(),
            declined: None,
            coming: None,
            round: None,
            seats: VecDeque::new(),
            applicant: None,
            works: BTreeMap::new(),
            asked: BTreeMap::new(),
            ensemble: 0,
            running: None,
        }
    }
}

impl Server {
    pub(super) fn volume(&mut self) -> &mut Volume {
        &mut self.volumes[self.mounted]
    }

    pub(super) fn disk(&self) -> &SimDisk {
        &self.volumes[self.mounted].disk
    }

    pub(super) const fn begins(&self) -> Begins {
        match (self.is_marked, self.may_begin) {
            (true, _) => Begins::Marked,
            (false, true) => Begins::WithAll,
            (false, false) => Begins::Never,
        }
    }
}

pub(super) const fn options() -> RecoveryOptions {
    let log = LogOptions { segment_len: 4096, spares: 0, force_sync: true };
    RecoveryOptions { trust_empty: false, log }
}

pub(super) fn open(disk: &SimDisk) -> Result<DataDirectory, StorageError> {
    let options =
        DirectoryOptions { data_dir: "/data".into(), data_log_dir: "/data".into(), create: true };
    DataDirectory::open(Arc::new(disk.clone()), &options)
}

pub(super) fn ensemble(seed: u64, at: usize) -> Ensemble {
    Ensemble {
        server: at as u8 + 1,
        recovery: options(),
        rules: Rules::default(),
        seed,
        zxids_a_term: u32::MAX,
        list: None,
        standalone_enabled: true,
    }
}
