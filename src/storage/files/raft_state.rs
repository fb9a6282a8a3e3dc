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
#[path = "raft_state_test.rs"]
mod raft_state_test;
