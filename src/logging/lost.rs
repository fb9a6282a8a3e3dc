//! A writer of log lines that loses those which it cannot write, or for which there was no place in
//! its queue, and says how many once it takes lines again.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use tracing_appender::non_blocking::ErrorCounter;

use super::line::Line;

/// The counter of a queue, which there is once the queue has its writer.
pub(super) type Dropped = Arc<OnceLock<ErrorCounter>>;

/// Takes whole lines.
pub(super) struct Losing<W> {
    writer: W,
    form: Line,
    dropped: Dropped,
    refused: u64,
    /// How many of both were told.
    told: u64,
    /// The last line was written in part.
    is_torn: bool,
}

impl<W: Write> Losing<W> {
    pub(super) const fn new(writer: W, form: Line, dropped: Dropped) -> Self {
        Self { writer, form, dropped, refused: 0, told: 0, is_torn: false }
    }

    fn lost(&self) -> u64 {
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        (self.refused + dropped as u64).saturating_sub(self.told)
    }

    fn put(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.writer.write_all(b"\n")?;
            self.is_torn = false;
        }
        let mut rest = line;
        while !rest.is_empty() {
            match self.writer.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.is_torn = rest.len() < line.len();
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for Losing<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let lost = self.lost();
        if lost > 0 && self.put(self.form.lost(lost).as_bytes()).is_ok() {
            self.told += lost;
        }
        if self.put(line).is_err() {
            self.refused += 1;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with room for so many bytes.
    struct Disk {
        bytes: Vec<u8>,
        room: usize,
    }

    impl Write for &mut Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.room -= taken;
            self.bytes.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_a_full_disk_does_not_take_is_counted() {
        let mut disk = Disk { bytes: Vec::new(), room: 10 };
        let mut lines = Losing::new(&mut disk, Line::Text, Dropped::default());
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            lines.write_all(line.as_bytes()).expect("it takes or loses");
        }
        lines.writer.room = 1000;
        lines.write_all(b"six\n").expect("it takes it");
        lines.write_all(b"seven\n").expect("it takes it");
        let text = String::from_utf8(disk.bytes).expect("UTF-8");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["one", "two", "th"], "{text}");
        assert!(lines[3].ends_with(" WARN logging: [FK0714] 3 log lines were lost"), "{text}");
        assert_eq!(lines[4..], ["six", "seven"]);
    }
}
