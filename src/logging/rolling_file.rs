//! A file of lines that is renamed when it is full, as ZooKeeper's logback.xml has it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Bytes of a file.
const FILE_MAX: u64 = 10 << 20;
/// Full files that are kept.
const KEPT: u32 = 10;

/// The file `name`, behind it `name.1` to `name.10`, the newest first.
#[derive(Debug)]
pub(crate) struct RollingFile {
    path: PathBuf,
    file: File,
    len: u64,
    max: u64,
}

impl RollingFile {
    /// Opens the file, and makes the folder that it stands in.
    ///
    /// # Errors
    /// When that cannot be done.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = append_to(path)?;
        let len = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), file, len, max: FILE_MAX })
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }

    fn roll(&mut self) -> io::Result<()> {
        for number in (1..KEPT).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.numbered(1))?;
        self.file = append_to(&self.path)?;
        self.len = 0;
        Ok(())
    }
}

/// What is logged names clients and paths: it is not for everybody on the machine.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

impl Write for RollingFile {
    /// Takes whole lines.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let len = line.len() as u64;
        if self.len > 0 && self.len + len > self.max {
            // Where that fails the file grows: lines are worth more than its size.
            let _ = self.roll();
        }
        self.file.write_all(line)?;
        self.len += len;
        Ok(line.len())
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
        rolling.max = 20;
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
        again.max = 20;
        again.write_all(b"line 0030\n").expect("writes");
        assert_eq!(read("zookeeper.log").expect("is there"), "line 0030\n");
    }

    #[test]
    fn a_line_longer_than_a_file_is_written_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("zookeeper.log");
        let mut rolling = RollingFile::open(&path).expect("opens");
        rolling.max = 4;
        rolling.write_all(b"much longer\n").expect("writes");
        assert_eq!(fs::read_to_string(&path).expect("is there"), "much longer\n");
    }
}
