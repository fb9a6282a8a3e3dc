//! `raft.state`: what a member of an ensemble has promised and who its peers are.
//!
//! Two slots of a block each. A state is written into one and synced, then into the other and
//! synced: a torn write leaves one of them whole, and once [`RaftStateFile::save`] returns and a
//! peer may be told, no single slot that rots takes a promise back. What a term or a vote means is
//! not known here. After the slots stands what never changes: the key of session passwords, in an
//! ensemble that has one.

use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut};

use super::atomic_file;
use super::directory::DataDirectory;
use super::epoch::EpochFile;
use super::file_name;
use super::session_key::{SessionKey, SessionSecret};
use crate::message::MessageId;
use crate::old_name;
use crate::storage::disk::{Access, Disk, DiskFile};
use crate::storage::error::{During, StorageError};

/// Bytes of a slot: what a disk replaces at once at most.
const SLOT_LEN: usize = 4096;
const SLOTS_LEN: usize = 2 * SLOT_LEN;
/// Sessions of before the key that it has room for.
pub const SESSIONS_BEFORE_MAX: usize = 100_000;
const LEN_MAX: u64 = (SLOTS_LEN + SessionKey::LEN + 4 + 8 * SESSIONS_BEFORE_MAX + 4) as u64;
const MAGIC: u32 = u32::from_be_bytes(*b"FKRS");
/// Version 1 had zeros where this one has what a founding leaves to be done, and version 2 where it
/// has the line of the ensemble.
const VERSION: u32 = 3;
/// Where in a slot [`RaftState::replaces`] stands: what an earlier release left zero.
const REPLACES_AT: usize = SLOT_LEN - 12;
/// Where [`RaftState::configured_at`] stands, in the same way.
const CONFIGURED_AT: usize = REPLACES_AT - 8;
/// Where [`RaftState::over`] stands, in the same way.
const OVER_AT: usize = CONFIGURED_AT - 1;
/// Where the two numbers of [`RaftState::own`] stand.
const OWN_AT: usize = OVER_AT - 16;
/// Where [`RaftState::awaits`] stands.
const AWAITS_AT: usize = OWN_AT - 8;
/// Where [`RaftState::asks`] stands, a bit for each server.
const ASKS_AT: usize = AWAITS_AT - ASKS_LEN;
const ASKS_LEN: usize = 256 / 8;
/// Where [`RaftState::founded_in`] stands.
const FOUNDED_IN_AT: usize = ASKS_AT - 8;
/// Where [`RaftState::founds`] stands.
const FOUNDS_AT: usize = FOUNDED_IN_AT - 1;
/// Where [`RaftState::line`] and, after it, [`RaftState::generation`] stand.
const LINE_AT: usize = FOUNDS_AT - 16;
/// Ids in all four lists; ZooKeeper's server ids are a byte.
const IDS_MAX: usize = 480;

/// What must survive a crash of a member, beside its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RaftState {
    /// The member that owns the directory.
    pub id: u64,
    /// The newest term that it has seen.
    pub term: u64,
    /// Whom it elected in that term; 0 for nobody.
    pub vote: u64,
    /// An index up to which the log was known to be final. It lags: it is written with the rest,
    /// and now and then alone. It never goes back, but for a slot that rots.
    pub commit: u64,
    /// The ensemble that the member belongs to, by a number that its founder drew.
    pub ensemble: u64,
    /// The first ensemble of those that ZooKeeper went on with and that were founded anew, up to
    /// this one.
    pub line: u64,
    /// Which of them this one is, from 1 on.
    pub generation: u64,
    /// Entries up to this index are of before the ensemble: it has them as a snapshot only, and who
    /// has no snapshot yet has nothing.
    pub base: u64,
    /// Files of before the ensemble are in the directory and have to go first.
    pub clears: bool,
    /// The epoch and the last zxid of what lay in the directory when it came to the ensemble by
    /// being founded.
    pub own: (i64, i64),
    /// The term in which the ensemble was founded, for members of the founding; for others, and
    /// where an earlier release wrote the file, 0. No leader has had it.
    pub founded_in: u64,
    /// As its founder, it has still to make the record that the ensemble begins with, and a
    /// snapshot of it. A start does that first.
    pub founds: bool,
    /// As its founder, it has not heard yet of these servers whether they belong to it. Ascending.
    pub asks: Vec<u8>,
    /// The founder that this member has accepted, which may not know it: until it does, this member
    /// takes part in nothing. 0 for nobody.
    pub awaits: u64,
    /// The zxid of a snapshot that takes the place of the log, while it does; else 0. A start ends
    /// that first.
    pub replaces: i64,
    /// Who belongs to the ensemble.
    pub members: Members,
    /// The index of the entry that made them so; 0 for the founders. Written with them, and never
    /// goes back.
    pub configured_at: u64,
    /// Why the directory never starts again as this member, if so.
    pub over: Option<Over>,
}

/// Why a directory is not that of a member any more, as another member said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The others have heard more of the member than the directory holds.
    OlderCopy,
    /// The member was taken out of the ensemble.
    Removed,
}

impl Over {
    const fn number(over: Option<Self>) -> u8 {
        match over {
            None => 0,
            Some(Self::OlderCopy) => 1,
            Some(Self::Removed) => 2,
        }
    }

    /// What is not known says at least that it is over.
    const fn of(number: u8) -> Option<Self> {
        match number {
            0 => None,
            2 => Some(Self::Removed),
            _ => Some(Self::OlderCopy),
        }
    }
}

impl RaftState {
    /// Whether the member was taken out of the ensemble, by its own log or by another member's
    /// word.
    #[must_use]
    pub fn is_removed(&self) -> bool {
        self.over == Some(Over::Removed) || self.configured_at > 0 && !self.members.has(self.id)
    }
}

/// The members of an ensemble by their ids; the last three only while it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Those who elect and whose disks count.
    pub voters: Vec<u64>,
    /// Those who only follow.
    pub learners: Vec<u64>,
    /// The voters of before.
    pub voters_outgoing: Vec<u64>,
    /// Voters of before that are to be learners.
    pub learners_next: Vec<u64>,
    /// Whether the change ends by itself.
    pub auto_leave: bool,
}

impl Members {
    /// Whether this one is among them.
    #[must_use]
    pub fn has(&self, id: u64) -> bool {
        lists(self).iter().any(|list| list.contains(&id))
    }
}

/// The open file, and `acceptedEpoch` beside it, which is the term in ZooKeeper's words.
#[derive(Debug)]
pub struct RaftStateFile {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    accepted: EpochFile,
    state: RaftState,
    secret: Option<SessionSecret>,
    sequence: u64,
    poisoned: bool,
}

impl RaftStateFile {
    /// Makes the file, and with it the directory that of a member. `secret` is for the passwords of
    /// sessions, with at most [`SESSIONS_BEFORE_MAX`] of before.
    ///
    /// # Errors
    /// When the disk refuses. The directory is then a member's or not.
    pub fn create(
        directory: &DataDirectory,
        first: &RaftState,
        secret: Option<&SessionSecret>,
    ) -> Result<(), StorageError> {
        let mut bytes = encode(first, 1).ok_or(StorageError::Members)?;
        bytes.extend(encode(first, 2).ok_or(StorageError::Members)?);
        let mut access = Access::Shared;
        if let Some(secret) = secret {
            bytes.extend(encode_secret(secret));
            access = Access::Private;
        }
        let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
        atomic_file::replace(disk, folder, file_name::RAFT_STATE, &bytes, access)
    }

    /// Opens the file; `None` if there is none.
    ///
    /// # Errors
    /// When the disk refuses, or the file does not hold what it promised.
    pub fn open(directory: &DataDirectory) -> Result<Option<Self>, StorageError> {
        let disk = directory.disk();
        let folder = directory.snapshots();
        let path = folder.join(file_name::RAFT_STATE);
        let accepted = EpochFile::accepted(disk.clone(), folder)?;
        let read = atomic_file::read(disk.as_ref(), &path, LEN_MAX)?;
        let Some(bytes) = read else { return Ok(None) };
        let bytes = bytes.ok();
        let found: Vec<u8> = bytes.iter().flatten().copied().take(SLOTS_LEN).collect();
        let (sequence, state, secret) = parse(bytes, &path, directory)?;
        let state = above(state, accepted.get());
        let file = disk.open_for_write(&path).during("open", &path)?;
        let mut opened = Self { path, file, accepted, state, secret, sequence, poisoned: true };
        // An earlier process may have left a slot that can be read and is not on the disk. Written
        // with the bytes that it has, it loses nothing; the other one follows when that is done, as
        // ever. Where an earlier version wrote others, a torn write could lose it: then it comes
        // last.
        if opened.is_as(sequence, &found) {
            opened.write(sequence)?;
        } else {
            opened.write(sequence.saturating_add(1))?;
        }
        opened.write(opened.sequence.saturating_add(1))?;
        opened.accept()?;
        opened.poisoned = false;
        Ok(Some(opened))
    }

    /// What the file in `directory` holds; `None` if there is none. Changes nothing.
    ///
    /// # Errors
    /// When the disk refuses, or no slot of it is whole.
    pub fn look(directory: &DataDirectory) -> Result<Option<RaftState>, StorageError> {
        Self::look_at(directory, file_name::RAFT_STATE)
    }

    /// The same of what the member left that it was until a command made the directory one of no
    /// ensemble.
    ///
    /// # Errors
    /// When the disk refuses, or no slot of it is whole.
    pub fn look_left(directory: &DataDirectory) -> Result<Option<RaftState>, StorageError> {
        Self::look_at(directory, file_name::RAFT_STATE_LEFT)
    }

    /// What passwords of sessions are made with, of a member's directory or of any other; `None` is
    /// ZooKeeper's formula. Changes nothing.
    ///
    /// # Errors
    /// When the disk refuses, or a file does not hold what it promised.
    pub fn look_secret(directory: &DataDirectory) -> Result<Option<SessionSecret>, StorageError> {
        let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
        let path = folder.join(file_name::RAFT_STATE);
        match atomic_file::read(disk, &path, LEN_MAX)? {
            Some(bytes) => parse(bytes.ok(), &path, directory).map(|(_, _, secret)| secret),
            None => SessionSecret::read(disk, folder),
        }
    }

    fn look_at(directory: &DataDirectory, name: &str) -> Result<Option<RaftState>, StorageError> {
        let path = directory.snapshots().join(name);
        let read = atomic_file::read(directory.disk().as_ref(), &path, LEN_MAX)?;
        let Some(bytes) = read else { return Ok(None) };
        parse(bytes.ok(), &path, directory).map(|(_, state, _)| Some(state))
    }

    /// Makes the directory of a member one of no ensemble; the file is kept beside as
    /// `raft.state.left`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn leave(directory: &DataDirectory) -> Result<(), StorageError> {
        let (disk, folder) = (directory.disk().as_ref(), directory.snapshots());
        let path = folder.join(file_name::RAFT_STATE);
        let left = folder.join(file_name::RAFT_STATE_LEFT);
        disk.rename(&path, &left).during("move away", &path)?;
        disk.sync_folder(folder).during("sync the folder", folder)
    }

    /// Refuses the directory of a member, for a server that goes on alone.
    ///
    /// # Errors
    /// When it is one, or the disk fails.
    pub fn refuse_member(directory: &DataDirectory) -> Result<(), StorageError> {
        let Some(RaftState { id, members, .. }) = Self::look(directory)? else { return Ok(()) };
        let path = directory.snapshots().join(file_name::RAFT_STATE);
        let command = directory.tool_command("data leave");
        Err(StorageError::Member { path, id, voters: members.voters.len(), command })
    }

    /// What was saved last.
    #[must_use]
    pub fn get(&self) -> &RaftState {
        &self.state
    }

    /// What passwords of sessions are made with; `None` is ZooKeeper's formula.
    #[must_use]
    pub const fn secret(&self) -> Option<&SessionSecret> {
        self.secret.as_ref()
    }

    /// Makes `state` durable.
    ///
    /// # Errors
    /// When the disk refuses. It is not tried again: the caller ends the process.
    pub fn save(&mut self, state: RaftState) -> Result<(), StorageError> {
        if self.poisoned {
            return Err(StorageError::Poisoned);
        }
        if !fits(&state.members) {
            return Err(StorageError::Members);
        }
        self.poisoned = true;
        self.state = state;
        // First in the place of the older slot, and then in that of the other one, which tells the
        // state before until then.
        for _ in 0..2 {
            self.write(self.sequence.saturating_add(1))?;
        }
        self.accept()?;
        self.poisoned = false;
        Ok(())
    }

    /// Makes durable that the log is final up to this index, if that is more than before. It
    /// promises nothing, and is in one slot only.
    ///
    /// # Errors
    /// When the disk refuses. It is not tried again: the caller ends the process.
    pub fn save_commit(&mut self, commit: u64) -> Result<(), StorageError> {
        if self.poisoned {
            return Err(StorageError::Poisoned);
        }
        if commit <= self.state.commit {
            return Ok(());
        }
        self.poisoned = true;
        self.state.commit = commit;
        self.write(self.sequence.saturating_add(1))?;
        self.poisoned = false;
        Ok(())
    }

    /// Whether the slot of this number has the bytes that it would be written with.
    fn is_as(&self, sequence: u64, slots: &[u8]) -> bool {
        let at = usize::try_from(slot(sequence)).unwrap_or(usize::MAX);
        let found = at.checked_add(SLOT_LEN).and_then(|end| slots.get(at..end));
        found.is_some() && found == encode(&self.state, sequence).as_deref()
    }

    /// Makes the slot of this number durable.
    fn write(&mut self, sequence: u64) -> Result<(), StorageError> {
        let bytes = encode(&self.state, sequence).ok_or(StorageError::Members)?;
        self.file.write_all_at(&bytes, slot(sequence)).during("write", &self.path)?;
        self.file.sync_data().during("sync", &self.path)?;
        self.sequence = sequence;
        Ok(())
    }

    fn accept(&mut self) -> Result<(), StorageError> {
        self.accepted.set(i64::try_from(self.state.term).unwrap_or(i64::MAX))
    }
}

/// The state with a term in which nothing can have been promised. `acceptedEpoch` is written after
/// the term, and before anybody is told of it: a later one is that of ZooKeeper, which went on with
/// the directory, or says that the newest state was lost, and with it perhaps a vote in that term.
fn above(state: RaftState, accepted: i64) -> RaftState {
    match u64::try_from(accepted) {
        Ok(accepted) if accepted > state.term => {
            tracing::warn!(
                id = %MessageId::EPOCH_ABOVE_TERM,
                accepted,
                term = state.term,
                "acceptedEpoch is above the term of raft.state; the term is raised above both"
            );
            RaftState { term: accepted.saturating_add(1), vote: 0, ..state }
        }
        _ => state,
    }
}

/// Where the slot of a state begins.
fn slot(sequence: u64) -> u64 {
    if sequence % 2 == 1 { 0 } else { SLOT_LEN as u64 }
}

fn lists(members: &Members) -> [&Vec<u64>; 4] {
    [&members.voters, &members.learners, &members.voters_outgoing, &members.learners_next]
}

fn fits(members: &Members) -> bool {
    lists(members).iter().map(|list| list.len()).sum::<usize>() <= IDS_MAX
}

/// One slot: head, state, zeros, CRC-32 of all before it. `None` if there are too many members.
fn encode(state: &RaftState, sequence: u64) -> Option<Vec<u8>> {
    let members = &state.members;
    if !fits(members) {
        return None;
    }
    let mut bytes = Vec::with_capacity(SLOT_LEN);
    bytes.put_u32(MAGIC);
    bytes.put_u32(VERSION);
    let RaftState { id, term, vote, commit, ensemble, base, .. } = *state;
    for number in [sequence, id, term, vote, commit, ensemble, base] {
        bytes.put_u64(number);
    }
    bytes.put_u8(u8::from(state.clears));
    bytes.put_u8(u8::from(members.auto_leave));
    for list in lists(members) {
        bytes.put_u32(u32::try_from(list.len()).ok()?);
        list.iter().for_each(|id| bytes.put_u64(*id));
    }
    bytes.resize(LINE_AT, 0);
    bytes.put_u64(state.line);
    bytes.put_u64(state.generation);
    bytes.put_u8(u8::from(state.founds));
    bytes.put_u64(state.founded_in);
    bytes.put_slice(&to_bits(&state.asks));
    bytes.put_u64(state.awaits);
    bytes.put_i64(state.own.0);
    bytes.put_i64(state.own.1);
    bytes.put_u8(Over::number(state.over));
    bytes.put_u64(state.configured_at);
    bytes.put_i64(state.replaces);
    bytes.put_u32(crc32fast::hash(&bytes));
    Some(bytes)
}

fn to_bits(servers: &[u8]) -> [u8; ASKS_LEN] {
    let mut bits = [0; ASKS_LEN];
    for server in servers {
        if let Some(byte) = bits.get_mut(usize::from(server / 8)) {
            *byte |= 1 << (server % 8);
        }
    }
    bits
}

fn from_bits(bits: &[u8; ASKS_LEN]) -> Vec<u8> {
    let is_set = |server: &u8| {
        bits.get(usize::from(server / 8)).is_some_and(|byte| byte >> (server % 8) & 1 == 1)
    };
    (0..=u8::MAX).filter(is_set).collect()
}

/// What stands after the slots.
fn encode_secret(secret: &SessionSecret) -> Vec<u8> {
    let mut bytes = secret.key.bytes().to_vec();
    let before = secret.before.get(..SESSIONS_BEFORE_MAX).unwrap_or(&secret.before);
    bytes.put_u32(u32::try_from(before.len()).unwrap_or(u32::MAX));
    before.iter().for_each(|session| bytes.put_i64(*session));
    bytes.put_u32(crc32fast::hash(&bytes));
    bytes
}

fn decode_secret(bytes: &[u8]) -> Option<SessionSecret> {
    let (body, mut checksum) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    if checksum.try_get_u32().ok()? != crc32fast::hash(body) {
        return None;
    }
    let (key, mut rest) = body.split_first_chunk()?;
    let count = rest.try_get_u32().ok()?;
    let before = rest.chunks_exact(8).map(|mut id| id.get_i64()).collect::<Vec<_>>();
    let is_whole = before.len() == count as usize && rest.len() % 8 == 0;
    is_whole.then_some(SessionSecret { key: SessionKey::new(*key), before })
}

/// Whether a slot of the file begins as it did before this product had its name.
pub(in crate::storage) fn has_old_name(disk: &dyn Disk, path: &Path) -> Result<bool, StorageError> {
    let file = disk.open(path).during("open", path)?;
    for at in [slot(0), slot(1)] {
        let mut magic = [0; 4];
        let len = file.read_at(&mut magic, at).during("read", path)?;
        if len == magic.len() && magic == *old_name::RAFT_STATE {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A whole file; `None` stands for one that is too long.
fn parse(
    bytes: Option<Vec<u8>>,
    path: &Path,
    directory: &DataDirectory,
) -> Result<(u64, RaftState, Option<SessionSecret>), StorageError> {
    let lost = || {
        let command = directory.aside_command();
        StorageError::RaftState { path: path.to_owned(), command }
    };
    let bytes = bytes.ok_or_else(lost)?;
    let (slots, rest) = bytes.split_at_checked(SLOTS_LEN).ok_or_else(lost)?;
    for slot in slots.chunks_exact(SLOT_LEN) {
        if let Some(version) = version(slot).filter(|version| *version > VERSION) {
            let path = path.to_owned();
            return Err(StorageError::LaterVersion { path, version, known: VERSION });
        }
    }
    let whole = slots.chunks_exact(SLOT_LEN).filter_map(decode);
    let (sequence, state) = whole.max_by_key(|(sequence, _)| *sequence).ok_or_else(lost)?;
    let secret = if rest.is_empty() { None } else { Some(decode_secret(rest).ok_or_else(lost)?) };
    Ok((sequence, state, secret))
}

/// The version of a slot that is whole. Where its checksum is, and magic and version, stays as it
/// is in every version.
fn version(slot: &[u8]) -> Option<u32> {
    let (mut body, mut checksum) = slot.split_at_checked(SLOT_LEN - 4)?;
    if checksum.try_get_u32().ok()? != crc32fast::hash(body) {
        return None;
    }
    (body.try_get_u32().ok()? == MAGIC).then(|| body.try_get_u32().ok())?
}

fn decode(slot: &[u8]) -> Option<(u64, RaftState)> {
    if !(1..=VERSION).contains(&version(slot)?) {
        return None;
    }
    let number = |at: usize| slot.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    let mut body = slot.get(8..)?;
    let sequence = body.try_get_u64().ok()?;
    let mut state = RaftState {
        id: body.try_get_u64().ok()?,
        term: body.try_get_u64().ok()?,
        vote: body.try_get_u64().ok()?,
        commit: body.try_get_u64().ok()?,
        ensemble: body.try_get_u64().ok()?,
        base: body.try_get_u64().ok()?,
        clears: body.try_get_u8().ok()? != 0,
        line: number(LINE_AT)?,
        generation: number(LINE_AT + 8)?,
        own: (number(OWN_AT)?.cast_signed(), number(OWN_AT + 8)?.cast_signed()),
        founded_in: number(FOUNDED_IN_AT)?,
        founds: *slot.get(FOUNDS_AT)? != 0,
        asks: slot.get(ASKS_AT..)?.first_chunk().map(from_bits)?,
        awaits: number(AWAITS_AT)?,
        replaces: number(REPLACES_AT)?.cast_signed(),
        members: Members::default(),
        configured_at: number(CONFIGURED_AT)?,
        over: Over::of(*slot.get(OVER_AT)?),
    };
    if version(slot)? < 3 {
        (state.line, state.generation) = (state.ensemble, 1);
        // It did not always say in which term it was founded. Whoever is still in its founding may
        // not have begun by this one. A founder may serve for months while it asks one that is
        // silent: it has not voted then, nor learned of a later record.
        let is_alone = state.vote == 0 && state.commit == state.base;
        let is_being_founded = state.awaits != 0 || (!state.asks.is_empty() && is_alone);
        if state.founded_in == 0 && is_being_founded && state.configured_at == 0 {
            state.founded_in = state.term;
        }
    }
    let members = &mut state.members;
    members.auto_leave = body.try_get_u8().ok()? != 0;
    for list in [
        &mut members.voters,
        &mut members.learners,
        &mut members.voters_outgoing,
        &mut members.learners_next,
    ] {
        for _ in 0..body.try_get_u32().ok()? {
            list.push(body.try_get_u64().ok()?);
        }
    }
    Some((sequence, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::sim::{Dice, Fault};
    use crate::storage::fixture::{FOLDER, Fixture};

    fn state(term: u64) -> RaftState {
        let members = Members {
            voters: vec![1, 2, 3],
            learners: vec![4],
            voters_outgoing: vec![1],
            learners_next: vec![5],
            auto_leave: true,
        };
        let (vote, commit) = (term % 3, term * 10);
        RaftState {
            id: 2,
            term,
            vote,
            commit,
            ensemble: 77,
            line: 66,
            generation: 4,
            base: 5,
            clears: true,
            own: (3, 0x3_0000_0009),
            founded_in: 4,
            founds: true,
            asks: vec![0, 9, 255],
            awaits: 0x103,
            replaces: 99,
            members,
            configured_at: 88,
            over: Some(Over::Removed),
        }
    }

    fn open(directory: &DataDirectory, term: u64) -> RaftStateFile {
        if RaftStateFile::look(directory).expect("looks").is_none() {
            RaftStateFile::create(directory, &state(term), None).expect("creates");
        }
        RaftStateFile::open(directory).expect("opens").expect("is there")
    }

    fn path() -> PathBuf {
        Path::new(FOLDER).join("raft.state")
    }

    #[test]
    fn what_was_saved_is_there_after_any_crash() {
        let fixture = Fixture::default();
        let mut dice = Dice(1);
        let mut saved = 0;
        let mut tried = 0;
        for _ in 0..2_000 {
            let directory = fixture.open();
            let mut file = open(&directory, 0);
            let found = file.get().term;
            assert!((saved..=tried).contains(&found), "{saved} to {tried}, not {found}");
            assert_eq!(*file.get(), state(found));
            saved = found;
            fixture.disk.fail_after(dice.below(30), Fault::PowerLoss);
            for term in saved + 1.. {
                tried = term;
                if file.save(state(term)).is_err() {
                    break;
                }
                saved = term;
            }
            assert!(matches!(file.save(state(9_999)), Err(StorageError::Poisoned)));
            drop((file, directory));
            fixture.disk.crash(&mut dice);
        }
        assert!(saved > 2_000);
    }

    /// What is final stands in one slot only, so that it costs one sync; a term and a vote stand in
    /// the other one, too.
    #[test]
    fn what_is_final_is_written_once_and_takes_no_promise_along() {
        let fixture = Fixture::default();
        let mut dice = Dice(1);
        let (mut saved, mut tried, mut said) = (0, 0, 0);
        for _ in 0..1_000 {
            let directory = fixture.open();
            let mut file = open(&directory, 0);
            let found = file.get().clone();
            let RaftState { term, commit, .. } = found;
            assert!((saved..=tried).contains(&term), "{saved} to {tried}, not {term}");
            assert!(commit >= said.max(10 * term), "{said}, not {commit}");
            assert_eq!(found, RaftState { commit, ..state(term) });
            (saved, said) = (term, commit);
            fixture.disk.fail_after(dice.below(30), Fault::PowerLoss);
            loop {
                let (_, syncs) = fixture.disk.writes_and_syncs();
                let more = said + dice.below(3);
                if dice.coin() {
                    if file.save_commit(more).is_err() {
                        break;
                    }
                    let (_, now) = fixture.disk.writes_and_syncs();
                    assert_eq!(now - syncs, u64::from(more > said));
                    said = more;
                } else {
                    tried = saved + 1;
                    let commit = said.max(10 * tried);
                    if file.save(RaftState { commit, ..state(tried) }).is_err() {
                        break;
                    }
                    (saved, said) = (tried, commit);
                }
            }
            assert!(matches!(file.save_commit(u64::MAX), Err(StorageError::Poisoned)));
            drop((file, directory));
            fixture.disk.crash(&mut dice);
        }
        assert!(saved > 1_000);
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let fixture = Fixture::default();
        let directory = fixture.open();
        let mut file = open(&directory, 6);
        file.save(state(7)).expect("saves");
        let bytes = fixture.disk.content(&path());
        assert_eq!(bytes.len(), 8192);
        let mut expected = b"FKRS\0\0\0\x03".to_vec();
        // Made with 1 and 2, opened with 3, saved with 4 and 5.
        for number in [5_u64, 2, 7, 1, 70, 77, 5] {
            expected.extend(number.to_be_bytes());
        }
        expected.extend([1, 1]);
        for list in [[1_u64, 2, 3].as_slice(), &[4], &[1], &[5]] {
            expected.extend((list.len() as u32).to_be_bytes());
            list.iter().for_each(|id| expected.extend(id.to_be_bytes()));
        }
        assert_eq!(bytes[..expected.len()], expected);
        assert!(bytes[expected.len()..3994].iter().all(|byte| *byte == 0));
        assert_eq!(bytes[3994..4002], 66_u64.to_be_bytes());
        assert_eq!(bytes[4002..4010], 4_u64.to_be_bytes());
        assert_eq!(bytes[4010], 1);
        assert_eq!(bytes[4011..4019], 4_u64.to_be_bytes());
        let mut asks = [0; 32];
        (asks[0], asks[1], asks[31]) = (1, 2, 0x80);
        assert_eq!(bytes[4019..4051], asks);
        assert_eq!(bytes[4051..4059], 0x103_u64.to_be_bytes());
        assert_eq!(bytes[4059..4067], 3_i64.to_be_bytes());
        assert_eq!(bytes[4067..4075], 0x3_0000_0009_i64.to_be_bytes());
        assert_eq!(bytes[4075], 2);
        assert_eq!(bytes[4076..4084], 88_u64.to_be_bytes());
        assert_eq!(bytes[4084..4092], 99_i64.to_be_bytes());
        expected[8..16].copy_from_slice(&4_u64.to_be_bytes());
        assert_eq!(bytes[4096..4096 + expected.len()], expected);
        assert_eq!(fixture.disk.content(&Path::new(FOLDER).join("acceptedEpoch")), b"7");
        for (over, number) in [(None, 0), (Some(Over::OlderCopy), 1)] {
            file.save(RaftState { over, ..state(7) }).expect("saves");
            let bytes = fixture.disk.content(&path());
            assert_eq!((bytes[4075], bytes[4096 + 4075]), (number, number));
            assert_eq!(file.get().over, over);
        }
    }

    #[test]
    fn the_key_of_passwords_stays_behind_what_changes() {
        let fixture = Fixture::default();
        let directory = fixture.open();
        let secret = SessionSecret { key: SessionKey::new([7; 32]), before: vec![5, -6] };
        RaftStateFile::create(&directory, &state(1), Some(&secret)).expect("creates");
        let mut file = open(&directory, 1);
        for term in 2..5 {
            file.save(state(term)).expect("saves");
        }
        drop(file);
        let file = open(&directory, 1);
        assert_eq!((file.get(), file.secret()), (&state(4), Some(&secret)));
        drop(file);
        let whole = fixture.disk.content(&path());
        let mut expected = vec![7; 32];
        expected.extend(2_u32.to_be_bytes());
        [5_i64, -6].iter().for_each(|id| expected.extend(id.to_be_bytes()));
        expected.extend(crc32fast::hash(&expected).to_be_bytes());
        assert_eq!(whole[8192..], expected);
        for damaged in 8192..whole.len() {
            let mut bytes = whole.clone();
            bytes[damaged] ^= 1;
            fixture.disk.plant(&path(), &bytes);
            let error = RaftStateFile::open(&directory).expect_err("refused");
            assert!(matches!(error, StorageError::RaftState { .. }), "{error}");
            fixture.disk.plant(&path(), &whole[..damaged.max(8193)]);
            RaftStateFile::look(&directory).expect_err("refused");
        }
    }

    #[test]
    fn a_promise_that_is_gone_is_no_start() {
        let fixture = Fixture::default();
        let directory = fixture.open();
        let mut file = open(&directory, 6);
        file.save(state(7)).expect("saves");
        drop(file);
        let whole = fixture.disk.content(&path());
        let flipped = |at: &[usize]| {
            let mut bytes = whole.clone();
            at.iter().for_each(|at| bytes[*at] ^= 1);
            bytes
        };
        for bytes in [flipped(&[0, 4096]), flipped(&[8191, 4095])] {
            fixture.disk.plant(&path(), &bytes);
            let error = RaftStateFile::open(&directory).expect_err("refused");
            assert!(matches!(error, StorageError::RaftState { .. }), "{error}");
        }
        for at in [0, 4095, 4096, 8191] {
            fixture.disk.plant(&path(), &flipped(&[at]));
            assert_eq!(*open(&directory, 1).get(), state(7));
        }
    }

    /// The other slot tells what was promised before.
    #[test]
    fn opening_what_an_earlier_release_wrote_takes_no_promise_back() {
        let members = Members { voters: vec![1, 2, 3], ..Members::default() };
        let promised = |vote| RaftState {
            id: 1,
            term: 7,
            vote,
            generation: 1,
            members: members.clone(),
            ..RaftState::default()
        };
        let mut bytes = [(0, 1), (2, 2)]
            .map(|(vote, sequence)| encode(&promised(vote), sequence).expect("a slot"))
            .concat();
        for slot in [0, 4096] {
            bytes[slot + 7] = 1;
            bytes[slot + 3994..slot + 4010].fill(0);
            let checksum = crc32fast::hash(&bytes[slot..slot + 4092]).to_be_bytes();
            bytes[slot + 4092..slot + 4096].copy_from_slice(&checksum);
        }
        let (mut dice, mut torn) = (Dice(1), 0);
        for round in 0..400 {
            let fixture = Fixture::default();
            let directory = fixture.open();
            RaftStateFile::create(&directory, &promised(0), None).expect("creates");
            fixture.disk.plant(&path(), &bytes);
            fixture.disk.fail_after(round % 12, Fault::PowerLoss);
            torn += u32::from(RaftStateFile::open(&directory).is_err());
            drop(directory);
            fixture.disk.crash(&mut dice);
            let found = RaftStateFile::open(&fixture.open()).expect("opens").expect("there");
            assert_eq!(*found.get(), promised(2), "round {round}");
        }
        assert!(torn > 100, "{torn}");
    }

    /// Of ZooKeeper, which went on with the directory, or of a state that was lost: then with a
    /// vote in that term, perhaps.
    #[test]
    fn a_later_epoch_makes_a_term_in_which_nothing_was_promised() {
        let fixture = Fixture::default();
        let directory = fixture.open();
        let mut file = open(&directory, 6);
        let before = fixture.disk.content(&path());
        file.save(state(9)).expect("saves");
        drop(file);
        fixture.disk.plant(&path(), &before);
        for _ in 0..2 {
            let expected = RaftState { term: 10, vote: 0, ..state(6) };
            assert_eq!(*open(&directory, 6).get(), expected);
            let accepted = Path::new(FOLDER).join("acceptedEpoch");
            assert_eq!(fixture.disk.content(&accepted), b"10");
        }
        // Neither slot has what was there before.
        let whole = fixture.disk.content(&path());
        for at in [0, 4096] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fixture.disk.plant(&path(), &bytes);
            assert_eq!(open(&directory, 6).get().term, 10);
        }
    }

    #[test]
    fn what_a_later_release_wrote_is_refused_by_name() {
        let fixture = Fixture::default();
        let directory = fixture.open();
        let mut file = open(&directory, 6);
        file.save(state(7)).expect("saves");
        drop(file);
        let whole = fixture.disk.content(&path());
        for slot in [0, 4096] {
            let mut bytes = whole.clone();
            bytes[slot + 7] = 4;
            let checksum = crc32fast::hash(&bytes[slot..slot + 4092]).to_be_bytes();
            bytes[slot + 4092..slot + 4096].copy_from_slice(&checksum);
            fixture.disk.plant(&path(), &bytes);
            let look = RaftStateFile::look(&directory).map(drop);
            for outcome in [look, RaftStateFile::open(&directory).map(drop)] {
                let error = outcome.expect_err("refused");
                let text = error.to_string();
                assert!(matches!(error, StorageError::LaterVersion { version: 4, .. }), "{text}");
                assert!(text.contains("raft.state was written by a later release"), "{text}");
            }
            assert_eq!(fixture.disk.content(&path()), bytes, "touched");
        }
    }

    /// What a release of before wrote: the same bytes, with this version and zeros for what it did
    /// not know.
    fn of_before(version: u8, unknown: std::ops::Range<usize>, state: &RaftState) -> Vec<u8> {
        let slots = [1, 2].map(|sequence| {
            let mut slot = encode(state, sequence).expect("a slot");
            slot[7] = version;
            slot[unknown.clone()].fill(0);
            let checksum = crc32fast::hash(&slot[..4092]).to_be_bytes();
            slot[4092..].copy_from_slice(&checksum);
            slot
        });
        slots.concat()
    }

    /// Of the first one, its founding was over, as far as it knew; of both, the ensemble was the
    /// first of its line.
    #[test]
    fn earlier_versions_are_read() {
        let first = RaftState { line: 77, generation: 1, founds: false, ..state(7) };
        let founded = RaftState { configured_at: 0, ..first.clone() };
        let of_nobody = RaftState { asks: Vec::new(), awaits: 0, ..founded.clone() };
        let alone = RaftState { vote: 0, commit: founded.base, awaits: 0, ..founded.clone() };
        let elected = RaftState { vote: alone.id, ..alone.clone() };
        let serving = RaftState { commit: alone.base + 1, ..alone.clone() };
        let (none, unsaid) = ((0, 0), 0);
        for (version, unknown, wrote, expected) in [
            (
                1,
                3994..4075,
                &first,
                RaftState { own: none, founded_in: unsaid, ..of_nobody.clone() },
            ),
            (2, 3994..4011, &first, first.clone()),
            // Before the term of the founding stood in it: whoever is still in its founding may not
            // have begun by that term.
            (2, 3994..4019, &founded, RaftState { founded_in: 7, ..founded.clone() }),
            (2, 3994..4019, &of_nobody, RaftState { founded_in: unsaid, ..of_nobody.clone() }),
            // Its members have changed since.
            (2, 3994..4019, &first, RaftState { founded_in: unsaid, ..first.clone() }),
            // A founder: alone yet, after it was elected, after it learned of a record that is
            // final.
            (2, 3994..4019, &alone, RaftState { founded_in: 7, ..alone.clone() }),
            (2, 3994..4019, &elected, RaftState { founded_in: unsaid, ..elected.clone() }),
            (2, 3994..4019, &serving, RaftState { founded_in: unsaid, ..serving.clone() }),
        ] {
            let expected = RaftState { configured_at: wrote.configured_at, ..expected };
            let fixture = Fixture::default();
            let directory = fixture.open();
            drop(open(&directory, 7));
            fixture.disk.plant(&path(), &of_before(version, unknown, wrote));
            assert_eq!(*open(&directory, 7).get(), expected);
            // From then on it is of this version.
            assert_eq!(fixture.disk.content(&path())[..8], *b"FKRS\0\0\0\x03");
            assert_eq!(*open(&directory, 7).get(), expected);
        }
    }

    /// As the last release before the lines wrote the file of a founder that two others had still
    /// to answer.
    #[test]
    fn a_file_of_the_second_version_is_read_as_it_was_written() {
        let mut slot = b"FKRS\0\0\0\x02".to_vec();
        for number in [2_u64, 0x101, 6, 0, 9, 0x77, 9] {
            slot.extend(number.to_be_bytes());
        }
        slot.extend([0, 0]);
        for voters in [&[0x101_u64, 0x102, 0x103][..], &[], &[], &[]] {
            slot.extend((voters.len() as u32).to_be_bytes());
            voters.iter().for_each(|id| slot.extend(id.to_be_bytes()));
        }
        slot.resize(4011, 0);
        slot.extend(6_u64.to_be_bytes());
        slot.push(0b1100);
        slot.resize(4059, 0);
        slot.extend(5_i64.to_be_bytes());
        slot.extend(0x5_0000_0009_i64.to_be_bytes());
        slot.resize(4092, 0);
        slot.extend(crc32fast::hash(&slot).to_be_bytes());
        let fixture = Fixture::default();
        let directory = fixture.open();
        drop(open(&directory, 0));
        fixture.disk.plant(&path(), &[vec![0; 4096], slot].concat());
        let expected = RaftState {
            id: 0x101,
            term: 6,
            commit: 9,
            ensemble: 0x77,
            line: 0x77,
            generation: 1,
            base: 9,
            own: (5, 0x5_0000_0009),
            founded_in: 6,
            asks: vec![2, 3],
            members: Members { voters: vec![0x101, 0x102, 0x103], ..Members::default() },
            ..RaftState::default()
        };
        assert_eq!(
            *RaftStateFile::open(&directory).expect("opens").expect("there").get(),
            expected
        );
        assert_eq!(fixture.disk.content(&Path::new(FOLDER).join("acceptedEpoch")), b"6");
    }

    #[test]
    fn what_a_failed_sync_left_readable_is_written_again_before_it_counts() {
        for seed in 0..20 {
            let fixture = Fixture::default();
            let directory = fixture.open();
            let mut file = open(&directory, 6);
            fixture.disk.fail_after(1 + 2 * (seed % 2), Fault::Eio);
            file.save(state(7)).expect_err("its sync fails");
            drop((file, directory));
            fixture.disk.kill();
            let directory = fixture.open();
            assert_eq!(*open(&directory, 1).get(), state(7), "it is in memory");
            drop(directory);
            fixture.disk.crash(&mut Dice(seed));
            assert_eq!(*open(&fixture.open(), 1).get(), state(7), "seed {seed}");
        }
    }

    #[test]
    fn one_bit_makes_no_member_forget_what_it_told() {
        let fixture = Fixture::default();
        let directory = fixture.open();
        let mut file = open(&directory, 6);
        file.save(RaftState { vote: 0, ..state(7) }).expect("saves");
        file.save(RaftState { vote: 3, ..state(7) }).expect("saves");
        drop(file);
        let whole = fixture.disk.content(&path());
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fixture.disk.plant(&path(), &bytes);
            if let Ok(Some(file)) = RaftStateFile::open(&directory) {
                assert_eq!(file.get().vote, 3, "byte {at}");
            }
        }
    }

    #[test]
    fn more_members_than_can_be_are_refused() {
        let fixture = Fixture::default();
        let directory = fixture.open();
        let mut file = open(&directory, 6);
        let mut many = state(7);
        many.members.voters = (0..480).collect();
        assert!(matches!(file.save(many), Err(StorageError::Members)));
        file.save(state(8)).expect("the file is unharmed");
    }
}
