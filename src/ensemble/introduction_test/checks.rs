//! What must hold after each step: one ensemble acknowledges, it has all that was acknowledged
//! before, no member is two directories, no directory is of two ensembles, and a founder stops
//! asking only whom its acceptance is on a disk.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{Checked, World};
use super::*;
use crate::engine::session::SessionId;

#[derive(Debug)]
pub(super) struct Checks {
    /// Transactions of before that must not be lost.
    pub(super) kept: Vec<i64>,
    /// The ensemble that acknowledged something, and when it did last.
    pub(super) ensemble: Option<u64>,
    pub(super) acknowledged_at: u64,
    /// The sessions that it has told clients of, each with the last transaction that their server
    /// had.
    acknowledged: BTreeMap<i64, i64>,
    /// The directory of each member that took part.
    directories: BTreeMap<(u64, u64), u64>,
    /// The ensembles to which a directory of each server has belonged.
    belonged: BTreeSet<(u64, u8)>,
}

impl Checks {
    pub(super) const fn new(kept: Vec<i64>) -> Self {
        Self {
            kept,
            ensemble: None,
            acknowledged_at: 0,
            acknowledged: BTreeMap::new(),
            directories: BTreeMap::new(),
            belonged: BTreeSet::new(),
        }
    }

    pub(super) fn knows_of(&self, ensemble: u64, server: u8) -> Checked {
        match self.belonged.contains(&(ensemble, server)) {
            true => Ok(()),
            false => Err(format!("that server {server} has accepted {ensemble:x} is on no disk")),
        }
    }

    pub(super) fn takes_part(&mut self, ensemble: u64, id: u64, directory: u64) -> Checked {
        match *self.directories.entry((ensemble, id)).or_insert(directory) {
            its if its == directory => Ok(()),
            its => Err(format!(
                "member {id:x} of {ensemble:x} is two directories, {its} and {directory}"
            )),
        }
    }

    /// A server of an ensemble has told clients of their sessions. `has` is what it has up to the
    /// transaction `zxid`.
    pub(super) fn acknowledges(
        &mut self,
        ensemble: u64,
        (sessions, zxid): (&[SessionId], i64),
        has: impl Fn(i64) -> bool,
        now: u64,
    ) -> Checked {
        let other = *self.ensemble.get_or_insert(ensemble);
        if other != ensemble {
            return Err(format!("two ensembles have acknowledged, {other:x} and {ensemble:x}"));
        }
        self.acknowledged_at = now;
        self.acknowledged.extend(sessions.iter().map(|session| (session.0, zxid)));
        let before = self.acknowledged.iter().filter(|(_, at)| **at <= zxid);
        let all = self.kept.iter().chain(before.map(|(session, _)| session));
        match all.copied().find(|session| !has(*session)) {
            Some(lost) => Err(format!("{ensemble:x} lacks {lost:x}, which was acknowledged")),
            None => Ok(()),
        }
    }
}

impl World {
    /// Of which ensemble the directory of a server is now.
    pub(super) fn look(&mut self, at: usize) -> Checked {
        let Some(process) = &self.servers[at].process else { return Ok(()) };
        let Ok(state) = RaftStateFile::look(&process.directory) else { return Ok(()) };
        let is = state.map(|state| state.ensemble);
        if let Some(ensemble) = is {
            self.checks.belonged.insert((ensemble, at as u8 + 1));
        }
        let volume = self.servers[at].volume();
        let was = std::mem::replace(&mut volume.belongs, is);
        if was.is_some() && was != is {
            return Err(format!(
                "the directory of server {} was of {was:x?} and is of {is:x?}",
                at + 1
            ));
        }
        Ok(())
    }
}
