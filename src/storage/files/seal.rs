//! `ferrokeeper.sealed`: up to which zxid the files that ZooKeeper wrote are released.
//!
//! Until an operator seals the directory, those files are the way back and are kept whatever a
//! purge says. The file is one line, the zxid in hexadecimal with `0x` in front, and a line with
//! its checksum: a greater zxid would release more. A missing file releases nothing.

use std::path::Path;

use super::atomic_file;
use super::checked_text::{self, Lines};
use super::file_name;
use crate::storage::disk::{Access, Disk};
use crate::storage::error::StorageError;

/// Longer than any zxid, its line end and the checksum.
const LEN_MAX: u64 = 32 + checked_text::LINE_LEN;

/// The zxid up to which ZooKeeper's files in the directory are released; `folder` is the
/// `version-2` of snapshots.
///
/// # Errors
/// When the file cannot be read, holds no zxid or fails its checksum.
pub fn sealed_up_to(disk: &dyn Disk, folder: &Path) -> Result<Option<i64>, StorageError> {
    let path = folder.join(file_name::SEALED);
    let Some(bytes) = atomic_file::read(disk, &path, LEN_MAX)? else { return Ok(None) };
    let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match text.as_deref().map(checked_text::checked) {
        Some(Lines::Wrong) => Err(StorageError::SealedChecksum { path }),
        Some(Lines::Good(line)) if let Some(zxid) = parse(line) => Ok(Some(zxid)),
        _ => Err(StorageError::Sealed { path }),
    }
}

/// Releases ZooKeeper's files whose names are at most `zxid`, durably.
///
/// # Errors
/// When the disk refuses; what was released before is then unchanged, or `zxid` holds.
pub fn write(disk: &dyn Disk, folder: &Path, zxid: i64) -> Result<(), StorageError> {
    let text = checked_text::with_checksum(format!("{zxid:#x}\n"));
    atomic_file::replace(disk, folder, file_name::SEALED, text.as_bytes(), Access::Shared)
}

fn parse(line: &str) -> Option<i64> {
    file_name::hex(line.strip_suffix('\n')?.strip_prefix("0x")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::disk::sim::SimDisk;

    const FOLDER: &str = "/data/version-2";

    fn disk() -> SimDisk {
        let disk = SimDisk::default();
        disk.create_folder(Path::new(FOLDER)).expect("folder");
        disk
    }

    #[test]
    fn what_is_sealed_is_read_back() {
        let (disk, folder) = (disk(), Path::new(FOLDER));
        assert_eq!(sealed_up_to(&disk, folder).expect("reads"), None);
        for zxid in [0, 0x5_0000_000a, i64::MAX] {
            write(&disk, folder, zxid).expect("writes");
            assert_eq!(sealed_up_to(&disk, folder).expect("reads"), Some(zxid));
        }
        write(&disk, folder, 0x5_0000_000a).expect("writes");
        let path = folder.join("ferrokeeper.sealed");
        assert_eq!(disk.content(&path), b"0x50000000a\ncrc32 0x4b702dbe\n");
        // One of before there was a checksum.
        disk.plant(&path, b"0x50000000b\n");
        assert_eq!(sealed_up_to(&disk, folder).expect("reads"), Some(0x5_0000_000b));
    }

    #[test]
    fn no_bit_of_a_seal_changes_unseen() {
        let (disk, folder) = (disk(), Path::new(FOLDER));
        let path = folder.join("ferrokeeper.sealed");
        write(&disk, folder, 0x5_0000_000a).expect("writes");
        let whole = disk.content(&path);
        for bit in 0..whole.len() * 8 {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            disk.plant(&path, &bytes);
            let error = sealed_up_to(&disk, folder).expect_err("refused");
            assert!(error.to_string().contains("ferrokeeper.sealed"), "bit {bit}: {error}");
        }
        // A digit is another digit.
        disk.plant(&path, &[b"0x70000000a\n", &whole[12..]].concat());
        let error = sealed_up_to(&disk, folder).expect_err("refused");
        assert!(matches!(error, StorageError::SealedChecksum { .. }), "{error}");
        write(&disk, folder, 0x5_0000_000a).expect("writes");
        assert_eq!(disk.content(&path), whole);
    }

    #[test]
    fn a_file_without_a_zxid_is_refused() {
        for content in ["", "0x\n", "12\n", "0x1", "0x-1\n", "0xffffffffffffffff\n", "0x1\n0x2\n"] {
            let disk = disk();
            disk.plant(&Path::new(FOLDER).join("ferrokeeper.sealed"), content.as_bytes());
            let error = sealed_up_to(&disk, Path::new(FOLDER)).expect_err("refused");
            assert!(matches!(error, StorageError::Sealed { .. }), "{content:?}: {error}");
        }
    }
}
