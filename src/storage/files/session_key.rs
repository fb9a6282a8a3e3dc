//! `session.key`: the 32 random bytes behind session passwords, readable by the owner only.
//!
//! Made once, with a fresh directory, or handed over by the founder of an ensemble. A directory
//! that ZooKeeper wrote has none, and gets none here: its sessions live on ZooKeeper's formula.
//! Where the bytes come from is the caller's.

use std::fmt;
use std::path::Path;

use super::atomic_file;
use super::checked_text::{self, Lines};
use super::file_name;
use crate::storage::disk::{Access, Disk};
use crate::storage::error::{During, StorageError};

/// A line for each of some ten million sessions.
const BEFORE_LEN_MAX: u64 = 200 << 20;

/// Bytes of the checksum after a key.
const CHECKSUM_LEN: usize = 4;

/// The key of keyed session passwords.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey([u8; Self::LEN]);

impl SessionKey {
    /// Bytes of a key.
    pub const LEN: usize = 32;

    /// A key of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Reads the key in `folder`, a `version-2` of snapshots; `None` if there is none.
    ///
    /// # Errors
    /// When the file cannot be read, has another length, or fails its checksum.
    pub fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, StorageError> {
        let path = folder.join(file_name::SESSION_KEY);
        let limit = (Self::LEN + CHECKSUM_LEN) as u64;
        let Some(bytes) = atomic_file::read(disk, &path, limit)? else { return Ok(None) };
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(len) => return Err(StorageError::SessionKey { path, len }),
        };
        match bytes.split_first_chunk::<{ Self::LEN }>() {
            // Of before there was a checksum.
            Some((key, [])) => Ok(Some(Self(*key))),
            Some((key, checksum)) if checksum.len() == CHECKSUM_LEN => {
                match checksum == checksum_of(key) {
                    true => Ok(Some(Self(*key))),
                    false => Err(StorageError::SessionKeyChecksum { path }),
                }
            }
            _ => Err(StorageError::SessionKey { path, len: bytes.len() as u64 }),
        }
    }

    /// Writes the key of a fresh directory, durably.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn create(
        disk: &dyn Disk,
        folder: &Path,
        bytes: [u8; Self::LEN],
    ) -> Result<Self, StorageError> {
        let content = [&bytes[..], &checksum_of(&bytes)].concat();
        atomic_file::replace(disk, folder, file_name::SESSION_KEY, &content, Access::Private)?;
        Ok(Self(bytes))
    }

    /// Removes the key of a directory that ZooKeeper went on with, durably.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn remove(disk: &dyn Disk, folder: &Path) -> Result<(), StorageError> {
        atomic_file::remove_if_there(disk, &folder.join(file_name::SESSION_KEY))?;
        disk.sync_folder(folder).during("sync the folder", folder)
    }

    /// The secret itself.
    #[must_use]
    pub fn bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

fn checksum_of(key: &[u8; SessionKey::LEN]) -> [u8; CHECKSUM_LEN] {
    crc32fast::hash(key).to_be_bytes()
}

/// Keeps the secret out of logs.
impl fmt::Debug for SessionKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SessionKey(..)")
    }
}

/// What the passwords of sessions are made with where there is a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSecret {
    /// The key.
    pub key: SessionKey,
    /// Sessions that were opened before there was a key: theirs are ZooKeeper's.
    pub before: Vec<i64>,
}

impl SessionSecret {
    /// Reads what is in `folder`; `None` if there is no key.
    ///
    /// # Errors
    /// When a file cannot be read or holds something else.
    pub fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>, StorageError> {
        let Some(key) = SessionKey::read(disk, folder)? else { return Ok(None) };
        Ok(Some(Self { key, before: sessions_before_key(disk, folder)? }))
    }

    /// Sees to it that `folder` holds `secret` and nothing else of the kind, durably. It can be
    /// done again where it was cut short.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn install(
        secret: Option<&Self>,
        disk: &dyn Disk,
        folder: &Path,
    ) -> Result<(), StorageError> {
        // What cannot be read is replaced as well.
        if Self::read(disk, folder).is_ok_and(|found| found.as_ref() == secret) {
            return Ok(());
        }
        SessionKey::remove(disk, folder)?;
        let before = folder.join(file_name::SESSIONS_BEFORE_KEY);
        atomic_file::remove_if_there(disk, &before)?;
        if let Some(Self { key, before }) = secret {
            if !before.is_empty() {
                write_sessions_before_key(disk, folder, before)?;
            }
            SessionKey::create(disk, folder, *key.bytes())?;
        }
        disk.sync_folder(folder).during("sync the folder", folder)
    }
}

/// Writes down, durably, which sessions were opened before there was a key: their passwords stay
/// ZooKeeper's.
///
/// # Errors
/// When the disk refuses.
pub fn write_sessions_before_key(
    disk: &dyn Disk,
    folder: &Path,
    sessions: &[i64],
) -> Result<(), StorageError> {
    let lines: String = sessions.iter().map(|session| format!("{session:#x}\n")).collect();
    let text = checked_text::with_checksum(lines);
    let name = file_name::SESSIONS_BEFORE_KEY;
    atomic_file::replace(disk, folder, name, text.as_bytes(), Access::Shared)
}

/// The sessions that were opened before there was a key; none where the directory had one from the
/// beginning.
///
/// # Errors
/// When the file cannot be read, holds something else or fails its checksum.
fn sessions_before_key(disk: &dyn Disk, folder: &Path) -> Result<Vec<i64>, StorageError> {
    let path = folder.join(file_name::SESSIONS_BEFORE_KEY);
    let Some(bytes) = atomic_file::read(disk, &path, BEFORE_LEN_MAX)? else {
        return Ok(Vec::new());
    };
    let parse = |line: &str| u64::from_str_radix(line.strip_prefix("0x")?, 16).ok();
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let sessions = match text.as_deref().map(checked_text::checked) {
        Some(Lines::Wrong) => return Err(StorageError::SessionsBeforeKeyChecksum { path }),
        Some(Lines::Good(lines)) => {
            lines.lines().map(|line| parse(line).map(u64::cast_signed)).collect()
        }
        None => None,
    };
    sessions.ok_or(StorageError::SessionsBeforeKey { path })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::storage::disk::RealDisk;

    #[test]
    fn a_key_is_private_and_comes_back() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(SessionKey::read(&RealDisk, folder.path()).expect("reads"), None);
        let key = SessionKey::create(&RealDisk, folder.path(), [7; 32]).expect("creates");
        assert_eq!(SessionKey::read(&RealDisk, folder.path()).expect("reads"), Some(key.clone()));
        let path = folder.path().join("session.key");
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 1);
        assert_eq!(format!("{key:?}"), "SessionKey(..)");
        SessionKey::remove(&RealDisk, folder.path()).expect("removes");
        assert_eq!(SessionKey::read(&RealDisk, folder.path()).expect("reads"), None);
    }

    #[test]
    fn sessions_of_before_come_back() {
        let folder = tempfile::tempdir().expect("folder");
        let read = || sessions_before_key(&RealDisk, folder.path());
        assert_eq!(read().expect("reads"), Vec::<i64>::new());
        for sessions in [vec![], vec![0x0100_0029_fe52_0000, -2]] {
            write_sessions_before_key(&RealDisk, folder.path(), &sessions).expect("writes");
            assert_eq!(read().expect("reads"), sessions);
        }
        for content in ["x", "12\n", "0x1\n\n", "0x\n"] {
            std::fs::write(folder.path().join("sessions.before.key"), content).expect("writes");
            let error = read().expect_err("refused");
            assert!(matches!(error, StorageError::SessionsBeforeKey { .. }), "{content:?}");
        }
    }

    #[test]
    fn no_bit_of_the_sessions_of_before_changes_unseen() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("sessions.before.key");
        let read = || sessions_before_key(&RealDisk, folder.path());
        let sessions = [0x0100_0029_fe52_0000, 5];
        write_sessions_before_key(&RealDisk, folder.path(), &sessions).expect("writes");
        let whole = std::fs::read(&path).expect("reads");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).expect("writes");
            let error = read().expect_err("refused");
            assert!(error.to_string().contains("sessions.before.key"), "bit {bit}: {error}");
        }
        // A digit is another digit, and a line is gone.
        let text = String::from_utf8(whole).expect("text");
        for other in [text.replace("0x5\n", "0x7\n"), text.replace("0x5\n", "")] {
            std::fs::write(&path, other).expect("writes");
            let error = read().expect_err("refused");
            assert!(matches!(error, StorageError::SessionsBeforeKeyChecksum { .. }), "{error}");
        }
        // One of before there was a checksum.
        std::fs::write(&path, "0x10000029fe520000\n0x7\n").expect("writes");
        assert_eq!(read().expect("reads"), [0x1000_0029_fe52_0000, 7]);
    }

    #[test]
    fn a_file_of_sessions_that_is_too_long_is_not_taken_for_none() {
        let folder = tempfile::tempdir().expect("folder");
        let file = std::fs::File::create(folder.path().join("sessions.before.key")).expect("made");
        file.set_len(BEFORE_LEN_MAX + 1).expect("longer");
        let error = sessions_before_key(&RealDisk, folder.path()).expect_err("refused");
        assert!(matches!(error, StorageError::SessionsBeforeKey { .. }), "{error}");
    }

    #[test]
    fn a_folder_has_the_secret_that_it_was_given_whatever_was_there() {
        let folder = tempfile::tempdir().expect("folder");
        let secret = |byte, before: &[i64]| {
            Some(SessionSecret { key: SessionKey::new([byte; 32]), before: before.to_vec() })
        };
        for next in [None, secret(1, &[5, -6]), secret(1, &[]), secret(2, &[7]), None] {
            for _ in 0..2 {
                SessionSecret::install(next.as_ref(), &RealDisk, folder.path()).expect("installs");
                let found = SessionSecret::read(&RealDisk, folder.path()).expect("reads");
                assert_eq!(found, next);
            }
        }
        assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 0);
        std::fs::write(folder.path().join("session.key"), "x").expect("writes");
        SessionSecret::install(None, &RealDisk, folder.path()).expect("installs");
        assert_eq!(SessionSecret::read(&RealDisk, folder.path()).expect("reads"), None);
    }

    #[test]
    fn no_bit_of_a_key_changes_unseen() {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("session.key");
        let key = SessionKey::create(&RealDisk, folder.path(), [7; 32]).expect("creates");
        let whole = std::fs::read(&path).expect("reads");
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bytes).expect("writes");
            let error = SessionKey::read(&RealDisk, folder.path()).expect_err("refused");
            assert!(matches!(error, StorageError::SessionKeyChecksum { .. }), "bit {bit}: {error}");
            // Whoever has it from elsewhere writes it again.
            if bit == 0 {
                let secret = SessionSecret { key: key.clone(), before: Vec::new() };
                SessionSecret::install(Some(&secret), &RealDisk, folder.path()).expect("installs");
                assert_eq!(std::fs::read(&path).expect("reads"), whole);
            }
        }
        // One of before there was a checksum.
        std::fs::write(&path, [7; 32]).expect("writes");
        assert_eq!(SessionKey::read(&RealDisk, folder.path()).expect("reads"), Some(key));
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        for len in [0, 31, 33, 35, 37] {
            let folder = tempfile::tempdir().expect("folder");
            std::fs::write(folder.path().join("session.key"), vec![1; len]).expect("writes");
            let error = SessionKey::read(&RealDisk, folder.path()).expect_err("refused");
            assert!(error.to_string().contains(&format!("has {len} bytes")), "{error}");
        }
    }
}
