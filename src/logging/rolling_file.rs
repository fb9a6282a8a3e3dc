//! A file of lines that is renamed when it is full, as ZooKeeper's logback.xml has it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Bytes of a file.
const FILE_MAX: u64 = 10 << 20;
/// Full files that are kept.
const KEPT: u32 = 10;

/// The file `name`, behind it `name.1` to `name.10`, the newest first. Others may move it away, cut it or delete it, as
/// logrotate does: the next line goes to a file of that name.
#[derive(Debug)]
pub(crate) struct RollingFile {
    path: PathBuf,
    file: File,
    /// What was written last ended a line.
    is_at_line: bool,
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
        let path = path.to_owned();
        Ok(Self { path, file, is_at_line: true, max: FILE_MAX, rolls_at: FILE_MAX })
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    /// Opens another file where this one is not at its path any more, or is full. Where that fails it goes on in this one:
    /// lines are worth more than their place.
    fn turn_over(&mut self, more: u64) {
        let Ok(own) = self.file.metadata() else { return };
        let there = fs::metadata(&self.path);
        if !there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
            self.begin();
        } else if own.is_file() && own.len() > 0 && own.len() + more > self.rolls_at {
            match self.rename() {
                Ok(()) => self.begin(),
                // Not for each line again.
                Err(_) => self.rolls_at = own.len() + self.max / 10,
            }
        }
    }

    fn begin(&mut self) {
        if let Ok(file) = append_to(&self.path) {
            self.file = file;
            self.rolls_at = self.max;
        }
    }

    /// Makes place behind the file only as far as a number is free, so that a failure moves nothing out.
    fn rename(&self) -> io::Result<()> {
        let is_free = |number: &u32| !self.numbered(*number).exists();
        let last = (1..KEPT).find(is_free).unwrap_or(KEPT);
        for number in (1..last).rev() {
            fs::rename(self.numbered(number), self.numbered(number + 1))?;
        }
        fs::rename(&self.path, self.numbered(1))
    }
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
            self.turn_over(lines.len() as u64);
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
}
