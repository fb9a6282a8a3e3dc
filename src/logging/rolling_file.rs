//! A file of lines that is renamed when it is full, as ZooKeeper's logback.xml has it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a file.
const FILE_MAX: u64 = 10 << 20;
/// Full files that are kept.
const KEPT: u32 = 10;

/// The file `name`, after it `name.1` to `name.10`, the newest first. Others may move it away, cut
/// it or delete it, as logrotate does: the next line goes to a file of that name.
#[derive(Debug)]
pub(crate) struct RollingFile {
    path: PathBuf,
    file: File,
    /// What was written last ended a line.
    is_at_line: bool,
    /// Somebody before left the file in the middle of a line, which is to end first.
    is_torn: bool,
    /// Whether no line may go anywhere but to the path.
    only_there: bool,
    max: u64,
    /// The length at which it is renamed: `max`, or more where that could not be done.
    rolls_at: u64,
}

impl RollingFile {
    /// Opens the file, and makes the folder that it stands in.
    ///
    /// # Errors
    /// When that cannot be done.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = append_to(path)?;
        let is_torn = ends_torn(path);
        let path = path.to_owned();
        let (is_at_line, only_there) = (true, false);
        let (max, rolls_at) = (FILE_MAX, FILE_MAX);
        Ok(Self { path, file, is_at_line, is_torn, only_there, max, rolls_at })
    }

    /// The same for lines that are worth nothing elsewhere: where the file is not at its path any
    /// more and none can be opened there, a write fails. Others go on in the file that was moved
    /// away, as long as it is there.
    pub(crate) fn open_only_there(path: &Path) -> io::Result<Self> {
        Ok(Self { only_there: true, ..Self::open(path)? })
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    /// Opens another file where this one is not at its path any more, or is full.
    fn turn_over(&mut self, more: u64) -> io::Result<()> {
        let own = self.file.metadata()?;
        let there = fs::metadata(&self.path);
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            return self.begin();
        }
        if own.is_file() && own.len() > 0 && own.len() + more > self.rolls_at {
            match self.rename() {
                Ok(()) => return self.begin(),
                // Not for each line again.
                Err(_) => self.rolls_at = own.len() + self.max / 10,
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        match append_to(&self.path) {
            Ok(file) => {
                (self.file, self.is_torn) = (file, ends_torn(&self.path));
                (self.is_at_line, self.rolls_at) = (true, self.max);
                Ok(())
            }
            // Lines are worth more than their place, if it is one.
            Err(_) if !self.only_there && !self.is_deleted() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Whether what is written to the file now is nowhere when it is closed.
    fn is_deleted(&self) -> bool {
        self.file.metadata().is_ok_and(|own| own.is_file() && own.nlink() == 0)
    }

    /// Makes place after the file only as far as a number is free, so that a failure moves nothing
    /// out.
    fn rename(&self) -> io::Result<()> {
        let is_free = |number: &u32| !self.numbered(*number).exists();
        let last = (1..KEPT).find(is_free).unwrap_or(KEPT);
        for number in (1..last).rev() {
            fs::rename(self.numbered(number), self.numbered(number + 1))?;
        }
        fs::rename(&self.path, self.numbered(1))
    }
}

/// Whether a file ends in the middle of a line; not if it cannot be read.
fn ends_torn(path: &Path) -> bool {
    let last = || {
        let file = File::open(path).ok()?;
        let its = file.metadata().ok().filter(|its| its.is_file())?;
        let mut last = [0];
        file.read_exact_at(&mut last, its.len().checked_sub(1)?).ok()?;
        Some(last)
    };
    last().is_some_and(|last| last != *b"\n")
}

/// What is logged names clients and paths: it is not for everybody on the machine.
fn append_to(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

impl Write for RollingFile {
    /// Takes lines, or the rest of one; it looks after the file ahead of a line only.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if self.is_at_line {
            self.turn_over(lines.len() as u64)?;
        } else if self.is_deleted() {
            // The rest of what was taken in part need not go the same way.
            self.begin()?;
        }
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.is_torn = false;
        }
        let written = self.file.write(lines)?;
        if let Some(last) = lines[..written].last() {
            self.is_at_line = *last == b'\n';
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_files_are_numbered_and_the_oldest_go() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("logs/zookeeper.log");
        let mut rolling = RollingFile::open(&path).expect("opens");
        (rolling.max, rolling.rolls_at) = (20, 20);
        for number in 0..30 {
            rolling.write_all(format!("line {number:04}\n").as_bytes()).expect("writes");
        }
        let read = |name: &str| fs::read_to_string(dir.path().join("logs").join(name));
        assert_eq!(read("zookeeper.log").expect("is there"), "line 0028\nline 0029\n");
        assert_eq!(read("zookeeper.log.1").expect("is there"), "line 0026\nline 0027\n");
        assert_eq!(read("zookeeper.log.10").expect("is there"), "line 0008\nline 0009\n");
        assert!(read("zookeeper.log.11").is_err());
        drop(rolling);

        let mut again = RollingFile::open(&path).expect("opens");
        again.rolls_at = 20;
        again.write_all(b"line 0030\n").expect("writes");
        assert_eq!(read("zookeeper.log").expect("is there"), "line 0030\n");
    }

    #[test]
    fn a_line_longer_than_a_file_is_written_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("zookeeper.log");
        let mut rolling = RollingFile::open(&path).expect("opens");
        rolling.rolls_at = 4;
        rolling.write_all(b"much longer\n").expect("writes");
        assert_eq!(fs::read_to_string(&path).expect("is there"), "much longer\n");
    }

    /// A file with a full one before it, and what reads them.
    fn two_files() -> (tempfile::TempDir, RollingFile, impl Fn(&str) -> String) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut rolling = RollingFile::open(&dir.path().join("log")).expect("opens");
        (rolling.max, rolling.rolls_at) = (20, 20);
        rolling.write_all(b"line 1234\n").expect("writes");
        rolling.write_all(b"line 5678\n").expect("writes");
        rolling.write_all(b"line 9\n").expect("writes");
        let folder = dir.path().to_owned();
        let read = move |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert_eq!((&*read("log.1"), &*read("log")), ("line 1234\nline 5678\n", "line 9\n"));
        (dir, rolling, read)
    }

    /// What logrotate does by default, and with `create`.
    #[test]
    fn a_file_that_was_moved_away_is_begun_anew() {
        for creates in [false, true] {
            let (dir, mut rolling, read) = two_files();
            let path = dir.path().join("log");
            fs::rename(&path, dir.path().join("moved")).expect("is there");
            if creates {
                File::create(&path).expect("a new one");
            }
            rolling.write_all(b"next 1234\n").expect("writes");
            assert_eq!((&*read("moved"), &*read("log")), ("line 9\n", "next 1234\n"));
            // What was moved away does not count.
            rolling.write_all(b"next 5678\n").expect("writes");
            assert_eq!(read("log"), "next 1234\nnext 5678\n");
            rolling.write_all(b"last\n").expect("writes");
            assert_eq!((&*read("log.1"), &*read("log")), ("next 1234\nnext 5678\n", "last\n"));
            assert_eq!(read("log.2"), "line 1234\nline 5678\n");
        }
    }

    /// logrotate's `copytruncate`.
    #[test]
    fn a_file_that_was_cut_goes_on_at_its_beginning() {
        let (dir, mut rolling, read) = two_files();
        File::options()
            .write(true)
            .open(dir.path().join("log"))
            .expect("is there")
            .set_len(0)
            .expect("cut");
        rolling.write_all(b"next 1234\n").expect("writes");
        rolling.write_all(b"next 5678\n").expect("writes");
        assert_eq!(read("log"), "next 1234\nnext 5678\n");
        assert_eq!(read("log.1"), "line 1234\nline 5678\n");
    }

    #[test]
    fn a_file_that_was_deleted_takes_no_other_along() {
        let (dir, mut rolling, read) = two_files();
        for number in 1000..1020 {
            fs::remove_file(dir.path().join("log")).expect("is there");
            rolling.write_all(format!("line {number}\n").as_bytes()).expect("writes");
            assert_eq!(read("log"), format!("line {number}\n"));
        }
        assert_eq!(read("log.1"), "line 1234\nline 5678\n");
        fs::remove_dir_all(dir.path()).expect("is there");
        rolling.write_all(b"last\n").expect("writes");
        assert_eq!(read("log"), "last\n");
    }

    /// logrotate with `create 600 root root`, and a server that is not root. A folder stands for
    /// what cannot be opened.
    #[test]
    fn no_line_goes_into_a_file_that_is_gone() {
        for only_there in [false, true] {
            let (dir, mut rolling, read) = two_files();
            rolling.only_there = only_there;
            let (path, moved) = (dir.path().join("log"), dir.path().join("moved"));
            fs::rename(&path, &moved).expect("is there");
            fs::create_dir(&path).expect("in its place");
            assert_eq!(rolling.write(b"next\n").is_err(), only_there);
            let kept = if only_there { "line 9\n" } else { "line 9\nnext\n" };
            assert_eq!(read("moved"), kept);
            fs::remove_file(&moved).expect("is there");
            for _ in 0..2 {
                rolling.write(b"nowhere\n").expect_err("refused");
            }
            fs::remove_dir(&path).expect("is there");
            rolling.write_all(b"last\n").expect("writes");
            assert_eq!(read("log"), "last\n");
        }
    }

    /// Somebody makes room by deleting the log that filled the disk.
    #[test]
    fn the_rest_of_lines_that_were_taken_in_part_goes_into_a_file_that_is_there() {
        let (dir, mut rolling, read) = two_files();
        rolling.write_all(b"some of").expect("writes");
        fs::remove_file(dir.path().join("log")).expect("is there");
        rolling.write_all(b" a line\nnext\n").expect("writes");
        assert_eq!(read("log"), " a line\nnext\n");
    }

    /// A process that is killed, and a disk that is full, leave a part of a line.
    #[test]
    fn a_line_that_was_left_in_its_middle_takes_no_other_along() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("log");
        for (before, behind) in [
            ("torn", "torn\nnext\nlast\n"),
            ("whole\n", "whole\nnext\nlast\n"),
            ("", "next\nlast\n"),
        ] {
            fs::write(&path, before).expect("writes");
            let mut rolling = RollingFile::open(&path).expect("opens");
            rolling.write_all(b"next\n").expect("writes");
            rolling.write_all(b"last\n").expect("writes");
            assert_eq!(fs::read_to_string(&path).expect("is there"), behind);
        }
        // As does a file that somebody else put there.
        fs::remove_file(&path).expect("is there");
        let mut rolling = RollingFile::open(&path).expect("opens");
        fs::rename(&path, dir.path().join("moved")).expect("is there");
        fs::write(&path, "torn").expect("writes");
        rolling.write_all(b"next\n").expect("writes");
        assert_eq!(fs::read_to_string(&path).expect("is there"), "torn\nnext\n");
    }
}
