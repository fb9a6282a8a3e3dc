//! Whose records the directory of a member holds: this server's, or also such as ZooKeeper wrote
//! when it went on with it.
//!
//! Only what ZooKeeper logged tells. Its epochs, and a snapshot of it that shows no more than our
//! last record, are what it leaves where it acknowledged nothing. A snapshot that it has not
//! finished it passes over as well. One that it has finished, and that cannot be read, or a record
//! that its own reader refuses, may be all that is left of what it acknowledged: nothing is decided
//! without it.

use std::path::PathBuf;
use std::sync::Arc;

use jute::txn::TxnRecord;

use crate::storage::disk::Disk;
use crate::storage::error::StorageError;
use crate::storage::files::directory::DataDirectory;
use crate::storage::files::epoch::EpochFile;
use crate::storage::files::raft_state::RaftState;
use crate::storage::log::record::{TRAILER_LEN, Trailer, zxid_of_payload};
use crate::storage::log::segment_reader::{SegmentOrigin, SegmentReader, Unreadable};
use crate::storage::replay::SnapshotOrigin;
use crate::storage::snapshot::reader;
use crate::storage::snapshot::reader::Ending;

/// What the files of a member's directory tell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Whose {
    /// The zxid of the last record that this server wrote as a member, or of an earlier one of its
    /// epoch where there is no sign of ZooKeeper; 0 for none.
    pub last: i64,
    /// A file that ZooKeeper wrote after this server, with transactions in it.
    pub went_on: Option<PathBuf>,
}

/// Looks at the directory of a member with this state. Changes nothing.
///
/// # Errors
/// When the disk refuses, a later release wrote a file, or what may be ZooKeeper's cannot be read.
pub fn whose(directory: &DataDirectory, state: &RaftState) -> Result<Whose, StorageError> {
    let disk = directory.disk().as_ref();
    let (_, founded_on) = state.own;
    let mut shown = 0;
    let mut snapshots = Vec::new();
    for (zxid, path) in directory.snapshot_files()? {
        if !reader::looks_whole(disk, &path)? {
            continue;
        }
        if let Some(SnapshotOrigin::Exact { .. }) = reader::origin(disk, &path)? {
            shown = zxid;
            break;
        }
        snapshots.push((zxid, path));
    }
    // Newest first, down to what the snapshot shows, with the one in which the log goes on after
    // that.
    let mut logs = Vec::new();
    let (mut own, mut of_nobody) = (None, Vec::new());
    for zxid in directory.log_zxids()?.into_iter().rev() {
        let reader = match SegmentReader::open(disk, &directory.log_path(zxid)) {
            Err(StorageError::Header { path, .. }) => {
                of_nobody.push((zxid, path));
                continue;
            }
            reader => reader?,
        };
        match reader {
            Some(reader) if reader.origin() == SegmentOrigin::Java => {
                if zxid > shown {
                    logs.push(reader);
                }
            }
            Some(mut reader) if own.is_none() => {
                let (first, _) = last_zxid(&mut reader, i64::MIN)?;
                own = first.map(|first| (first, reader));
            }
            Some(_) | None => {}
        }
        if zxid <= shown && own.is_some() {
            break;
        }
    }
    // As a rule its epoch is all that has to be known: one segment has no two.
    let accepted = EpochFile::accepted(Arc::clone(directory.disk()), directory.snapshots())?.get();
    let was_java_there = !(snapshots.is_empty() && logs.is_empty())
        || u64::try_from(accepted).is_ok_and(|accepted| accepted > state.term);
    let own = match own {
        Some((first, mut reader)) if was_java_there => {
            last_zxid(&mut reader, i64::MAX)?.0.or(Some(first))
        }
        own => own.map(|(first, _)| first),
    };
    let own = own.unwrap_or(0).max(shown);
    let known = own.max(founded_on);
    // Until it goes aside, what is there is of before, but for a snapshot that has come.
    let of_member = match state.clears {
        true if shown == state.replaces => shown,
        true => 0,
        false => own,
    };
    let last = if of_member > founded_on { of_member } else { 0 };
    let mut went_on = Later { known, disk, damaged: None };
    let of_snapshot = went_on.among_snapshots(snapshots)?;
    let file = match of_snapshot {
        Some(path) => Some(path),
        None => went_on.among_logs(logs)?,
    };
    // Of what waits to go aside, recovery reads nothing; of anything else it says what to do.
    let mut of_nobody = of_nobody.into_iter().filter(|(zxid, _)| state.clears && *zxid > known);
    match (file, went_on.damaged.or_else(|| of_nobody.next().map(|(_, path)| path))) {
        (None, Some(path)) => Err(StorageError::end_unreadable(directory, path)),
        (went_on, _) => Ok(Whose { last, went_on }),
    }
}

/// Looks for what ZooKeeper wrote after all that is known.
struct Later<'a> {
    known: i64,
    disk: &'a dyn Disk,
    /// What may be that, and cannot be read.
    damaged: Option<PathBuf>,
}

impl Later<'_> {
    fn among_snapshots(
        &mut self,
        snapshots: Vec<(i64, PathBuf)>,
    ) -> Result<Option<PathBuf>, StorageError> {
        for (_, path) in snapshots.into_iter().filter(|(zxid, _)| *zxid > self.known) {
            match reader::ending(self.disk, &path)? {
                Ending::Whole => return Ok(Some(path)),
                Ending::Unfinished => {}
                // A bit of a snapshot of this server may say that it is none.
                Ending::Damaged => self.damaged = self.damaged.take().or(Some(path)),
            }
        }
        Ok(None)
    }

    fn among_logs(&mut self, logs: Vec<SegmentReader>) -> Result<Option<PathBuf>, StorageError> {
        for mut reader in logs {
            refuse_own_records(&mut reader)?;
            let (last, is_refused) = last_zxid(&mut reader, self.known)?;
            let path = || reader.path().to_owned();
            if last.is_some_and(|zxid| zxid > self.known) {
                return Ok(Some(path()));
            }
            if is_refused {
                self.damaged = self.damaged.take().or_else(|| Some(path()));
            }
        }
        Ok(None)
    }
}

/// Refuses what was read of a directory up to `last` if a snapshot that was finished shows more,
/// and could not be read: what it shows may be nowhere else.
///
/// # Errors
/// If so, or when the disk refuses.
pub fn refuse_unreadable_end(directory: &DataDirectory, last: i64) -> Result<(), StorageError> {
    let disk = directory.disk().as_ref();
    for (zxid, path) in directory.snapshot_files()? {
        if zxid > last
            && directory.is_useless(&path)
            && reader::looks_whole(disk, &path)?
            && reader::ending(disk, &path)? != Ending::Unfinished
        {
            return Err(StorageError::end_unreadable(directory, path));
        }
    }
    Ok(())
}

/// The record of this zxid, as it was logged, if that can be read.
///
/// # Errors
/// When the disk refuses.
pub fn record_of(directory: &DataDirectory, zxid: i64) -> Result<Option<Vec<u8>>, StorageError> {
    let logs = directory.log_zxids()?;
    for name in logs.into_iter().rev().filter(|name| *name <= zxid) {
        let path = directory.log_path(name);
        let mut reader = match SegmentReader::open(directory.disk().as_ref(), &path) {
            Err(StorageError::Header { .. }) => continue,
            reader => match reader? {
                Some(reader) => reader,
                None => continue,
            },
        };
        let mut is_empty = true;
        while let Ok(found) = reader.next()? {
            is_empty = false;
            if zxid_of_payload(found.payload) == Some(zxid) {
                return Ok(Some(found.payload.to_vec()));
            }
        }
        if !is_empty {
            break;
        }
    }
    Ok(None)
}

/// Refuses a log whose header says that ZooKeeper wrote it, and whose records that this server did.
fn refuse_own_records(reader: &mut SegmentReader) -> Result<(), StorageError> {
    let begin = reader.offset();
    let is_own = match reader.next()? {
        Ok(found) => TxnRecord::decode(found.payload)
            .is_ok_and(|(_, rest)| rest.len() == TRAILER_LEN && Trailer::parse(rest).is_some()),
        Err(_) => false,
    };
    reader.seek(begin);
    let path = reader.path().to_owned();
    let expected = "log of this server";
    if is_own { Err(StorageError::Header { path, expected }) } else { Ok(()) }
}

/// The zxid of the last record that can be read, or of the first one above `enough`; and whether
/// what follows is a record that ZooKeeper, which wrote the log, refuses to read too.
fn last_zxid(reader: &mut SegmentReader, enough: i64) -> Result<(Option<i64>, bool), StorageError> {
    let mut last = None;
    while last.is_none_or(|last| last <= enough) {
        match reader.next()? {
            Ok(found) => last = last.max(zxid_of_payload(found.payload)),
            Err(unreadable) => return Ok((last, matches!(unreadable, Unreadable::Refused(_)))),
        }
    }
    Ok((last, false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::compression::{Compression, Pack};
    use crate::storage::fixture::{Fixture, offsets};
    use crate::storage::ledger::txn;
    use crate::storage::log::record::{adler32, frame};

    const OWN: i64 = 0x3_0000_0005;

    /// A member's directory: a snapshot of the ensemble's beginning, and records after it up to
    /// [`OWN`].
    fn member() -> Fixture {
        let fixture = Fixture::default();
        let zxids: Vec<i64> = (0x3_0000_0001..=OWN).collect();
        let groups: Vec<&[i64]> = zxids.chunks(2).collect();
        drop(fixture.write(&groups));
        fixture
    }

    /// A log of ZooKeeper's.
    fn log(fixture: &Fixture, zxids: &[i64]) -> String {
        let mut bytes = b"ZKLG\0\0\0\x02\0\0\0\0\0\0\0\0".to_vec();
        for zxid in zxids {
            let mut payload = Vec::new();
            txn(*zxid, b"java").encode(&mut payload);
            frame(&mut bytes, &payload);
        }
        bytes.resize(bytes.len() + 100, 0);
        let name = format!("log.{:x}", zxids.first().copied().unwrap_or(0x9_0000_0001));
        fixture.disk.plant(&Fixture::path(&name), &bytes);
        name
    }

    /// A snapshot of this zxid, whoever wrote it.
    fn snapshot(fixture: &Fixture, zxid: i64, dbid: i64) -> String {
        let mut bytes = fixture.content("snapshot.0");
        bytes[8..16].copy_from_slice(&dbid.to_be_bytes());
        // The last of its seals.
        let covered = bytes.len() - 13;
        let seal = i64::from(adler32(&bytes[..covered])).to_be_bytes();
        bytes[covered..covered + 8].copy_from_slice(&seal);
        let name = format!("snapshot.{zxid:x}");
        fixture.disk.plant(&Fixture::path(&name), &bytes);
        name
    }

    fn went_on(fixture: &Fixture, state: &RaftState) -> (i64, Option<String>) {
        let before = fixture.image();
        let Whose { last, went_on } = whose(&fixture.open(), state).expect("looks");
        let untouched = |(name, _): &(String, Vec<u8>)| name != "ferrokeeper.lock";
        let image = |of: Vec<_>| of.into_iter().filter(untouched).collect::<Vec<_>>();
        assert_eq!(image(fixture.image()), image(before), "touched");
        let name = |path: PathBuf| path.file_name().map(|name| name.display().to_string());
        (last >> 32, went_on.and_then(name))
    }

    #[test]
    fn what_zookeeper_leaves_without_a_write_says_nothing() {
        let state = RaftState::default();
        let fixture = member();
        assert_eq!(went_on(&fixture, &state), (3, None));
        // As its leader, of the last record; as who was sent a TRUNC, of an earlier one.
        for zxid in [OWN, OWN - 1, 0x2_0000_0009] {
            snapshot(&fixture, zxid, -1);
            assert_eq!(went_on(&fixture, &state), (3, None), "{zxid:x}");
        }
        // A log that was begun and holds nothing, and a snapshot that was not finished.
        log(&fixture, &[]);
        fixture.disk.plant(&Fixture::path("snapshot.900000000"), b"ZKSN\0\0\0\x02");
        fixture.disk.plant(&Fixture::path("log.900000002"), b"");
        assert_eq!(went_on(&fixture, &state), (3, None));
    }

    #[test]
    fn what_zookeeper_logged_tells() {
        for zxids in [&[0x4_0000_0001][..], &[OWN + 1, 0x4_0000_0001], &[OWN, OWN + 1]] {
            let fixture = member();
            let name = log(&fixture, zxids);
            assert_eq!(went_on(&fixture, &RaftState::default()), (3, Some(name)), "{zxids:x?}");
        }
        // As whoever was sent a SNAP, by a leader whose epoch had just begun.
        let fixture = member();
        let name = snapshot(&fixture, 0x4_0000_0000, -1);
        assert_eq!(went_on(&fixture, &RaftState::default()), (3, Some(name)));
    }

    /// What a founder was founded on stays in its directory, below a snapshot of its own.
    #[test]
    fn what_was_there_at_the_founding_is_no_sign() {
        let fixture = Fixture::default();
        drop(fixture.write(&[]));
        log(&fixture, &[0x2_0000_0001, 0x2_0000_0002]);
        snapshot(&fixture, 0x2_0000_0001, -1);
        // Between raft.state and the founding record.
        let founds = RaftState { own: (2, 0x2_0000_0002), ..RaftState::default() };
        assert_eq!(went_on(&fixture, &founds), (0, None));
        let before = RaftState { own: (2, 0x2_0000_0001), ..RaftState::default() };
        assert!(went_on(&fixture, &before).1.is_some());
        // An earlier version of raft.state does not say what was there.
        snapshot(&fixture, 0x3_0000_0000, 3);
        for state in [founds, RaftState::default()] {
            assert_eq!(went_on(&fixture, &state), (3, None));
        }
        let name = log(&fixture, &[0x4_0000_0001]);
        assert_eq!(went_on(&fixture, &RaftState::default()), (3, Some(name)));
    }

    /// Data of before that is still to go aside is nobody's word in the ensemble, unless it has
    /// grown since.
    #[test]
    fn what_is_to_go_aside_is_compared_with_what_was_there() {
        let fixture = member();
        let state = RaftState { clears: true, own: (3, OWN), ..RaftState::default() };
        assert_eq!(went_on(&fixture, &state), (0, None));
        let name = log(&fixture, &[OWN + 1]);
        assert_eq!(went_on(&fixture, &state), (0, Some(name)));
    }

    /// An ensemble that came to nothing left its record after what was there: who shows that has
    /// written nothing.
    #[test]
    fn a_record_of_this_server_that_is_no_data_is_not_zookeepers() {
        let fixture = member();
        let state = RaftState { clears: true, own: (3, OWN - 1), ..RaftState::default() };
        snapshot(&fixture, OWN, -1);
        assert_eq!(went_on(&fixture, &state), (0, None));
        let name = log(&fixture, &[OWN + 1]);
        assert_eq!(went_on(&fixture, &state), (0, Some(name)));
        // With its snapshot.
        let fixture = member();
        snapshot(&fixture, 0x4_0000_0001, 9);
        assert_eq!(went_on(&fixture, &state), (0, None));
    }

    /// It is the ensemble's, and what lies beside it is still of before.
    #[test]
    fn a_snapshot_that_has_come_is_of_the_member() {
        let fixture = member();
        let first = 0x4_0000_0001;
        snapshot(&fixture, first, 9);
        let own = (3, OWN);
        let state = RaftState { clears: true, own, replaces: first, ..RaftState::default() };
        assert_eq!(went_on(&fixture, &state), (4, None));
        let name = log(&fixture, &[0x5_0000_0001]);
        assert_eq!(went_on(&fixture, &state), (4, Some(name)));
    }

    #[test]
    fn a_record_is_found_in_whatever_log_it_is() {
        let fixture = member();
        log(&fixture, &[OWN + 2, OWN + 3, 0x4_0000_0001]);
        log(&fixture, &[]);
        let zxid = |zxid| {
            let found = record_of(&fixture.open(), zxid).expect("reads");
            found.and_then(|payload| zxid_of_payload(&payload))
        };
        for is_there in [OWN - 4, OWN, OWN + 2, OWN + 3, 0x4_0000_0001] {
            assert_eq!(zxid(is_there), Some(is_there));
        }
        for is_not in [OWN + 1, OWN - 5, 0x4_0000_0000, 0x5_0000_0001] {
            assert_eq!(zxid(is_not), None, "{is_not:x}");
        }
    }

    /// As its own reader refuses it: what is after it may be all that there is of what ZooKeeper
    /// acknowledged. A torn end is one for ZooKeeper as well.
    #[test]
    fn a_log_of_zookeepers_that_cannot_be_read_is_no_leave_to_go_on() {
        let refuses = |fixture: &Fixture, state: &RaftState, name: &str| {
            let found = whose(&fixture.open(), state);
            match found {
                Err(StorageError::EndUnreadable { path, .. }) => assert!(path.ends_with(name)),
                found => panic!("{name}: {found:?}"),
            }
        };
        let member_state = RaftState::default();
        let waits = RaftState { clears: true, own: (3, OWN), ..RaftState::default() };
        for state in [&member_state, &waits] {
            let fixture = member();
            let name = log(&fixture, &[0x4_0000_0001, 0x4_0000_0002]);
            let whole = fixture.content(&name);
            // Its second record may be unreadable: the first one tells.
            fixture.edit(&name, |bytes| bytes[offsets(&whole)[1] + 14] ^= 1);
            assert_eq!(went_on(&fixture, state).1.as_deref(), Some(name.as_str()));
            fixture.edit(&name, |bytes| bytes[30] ^= 1);
            refuses(&fixture, state, &name);
            fixture.disk.plant(&Fixture::path(&name), &whole[..30]);
            assert_eq!(went_on(&fixture, state).1, None);
            // After records that this server has as well.
            let fixture = member();
            let name = log(&fixture, &[OWN, OWN + 1]);
            fixture.edit(&name, |bytes| bytes[offsets(&whole)[1] + 14] ^= 1);
            refuses(&fixture, state, &name);
        }
        // Nobody reads what waits for the base, so nobody else says whose log this is.
        let fixture = member();
        let name = log(&fixture, &[0x4_0000_0001]);
        fixture.edit(&name, |bytes| bytes[0] ^= 1);
        refuses(&fixture, &waits, &name);
        assert_eq!(went_on(&fixture, &member_state), (3, None));
    }

    /// One bit of a header must not make a member leave its ensemble.
    #[test]
    fn a_header_that_is_damaged_is_no_sign() {
        let fixture = member();
        for name in ["log.300000001", "snapshot.0"] {
            let fixture = fixture.fork();
            fixture.edit(name, |bytes| bytes[8] ^= 0x80);
            match whose(&fixture.open(), &RaftState::default()) {
                Err(StorageError::Header { path, .. }) => assert!(path.ends_with(name)),
                found => assert_eq!(found.expect("looks").went_on, None, "{name}"),
            }
        }
        // Nothing but that snapshot.
        let fixture = Fixture::default();
        drop(fixture.write(&[]));
        let mut bytes = fixture.content("snapshot.0");
        bytes[8] ^= 0x80;
        fixture.disk.plant(&Fixture::path("snapshot.300000005"), &bytes);
        refuses(&fixture, "snapshot.300000005");
    }

    fn refuses(fixture: &Fixture, name: &str) {
        match whose(&fixture.open(), &RaftState::default()) {
            Err(StorageError::EndUnreadable { path, .. }) => assert!(path.ends_with(name)),
            found => panic!("{name}: {found:?}"),
        }
    }

    /// It may be all that there is of what ZooKeeper acknowledged. One that ZooKeeper did not come
    /// to the end of is none: it passes over that itself.
    #[test]
    fn a_snapshot_of_zookeepers_that_cannot_be_read_is_no_leave_to_go_on() {
        let fixture = member();
        let name = snapshot(&fixture, 0x4_0000_0007, -1);
        let whole = fixture.content(&name);
        let packed = |compression| {
            let mut pack = Pack::new(compression);
            pack.write(&whole).expect("packs");
            pack.finish().expect("ends");
            std::mem::take(pack.buffer())
        };
        for (compression, suffix) in
            [(Compression::None, ""), (Compression::Gzip, ".gz"), (Compression::Snappy, ".snappy")]
        {
            let (bytes, name) = (packed(compression), format!("{name}{suffix}"));
            let plant = |bytes: &[u8]| {
                let fixture = member();
                fixture.disk.plant(&Fixture::path(&name), bytes);
                fixture
            };
            let leaves = Some(name.clone());
            assert_eq!(went_on(&plant(&bytes), &RaftState::default()), (3, leaves));
            let middle = bytes.len() / 2;
            let ats = match compression {
                Compression::None => vec![middle, bytes.len() - 9],
                // Its checksum.
                Compression::Gzip => vec![bytes.len() - 6],
                Compression::Snappy => vec![middle],
            };
            for at in ats {
                let mut bytes = bytes.clone();
                bytes[at] ^= 0x10;
                refuses(&plant(&bytes), &name);
            }
            for len in [8, middle, bytes.len() - 1] {
                let is = went_on(&plant(&bytes[..len]), &RaftState::default());
                assert_eq!(is, (3, None), "{name} of {len} bytes");
            }
        }
        // What it logged tells all the same, and whoever reads that comes to the snapshot.
        let mut bytes = whole;
        bytes[40] ^= 1;
        fixture.disk.plant(&Fixture::path(&name), &bytes);
        refuses(&fixture, &name);
        let log = log(&fixture, &[0x4_0000_0001]);
        assert_eq!(went_on(&fixture, &RaftState::default()), (3, Some(log)));
        for (last, is_shown) in [(0x4_0000_0006, false), (0x4_0000_0007, true)] {
            let directory = fixture.open();
            directory.set_useless(vec![Fixture::path(&name)]);
            assert_eq!(refuse_unreadable_end(&directory, last).is_ok(), is_shown, "{last:x}");
        }
    }

    #[test]
    fn a_log_of_this_server_is_its_own_wherever_it_ends() {
        let fixture = member();
        for cut in 1..200 {
            let name = format!("log.{:x}", 0x3_0000_0001_i64);
            let len = fixture.content(&name).len();
            if len <= 16 + cut {
                break;
            }
            fixture.edit(&name, |bytes| bytes.truncate(len - cut));
            assert_eq!(went_on(&fixture, &RaftState::default()).1, None, "{cut} bytes");
        }
    }
}
