//! Where lines of the audit log go.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::config::AuditTo;
use crate::logging::RollingFile;

/// Where programs on this machine leave lines for syslog.
const SYSLOG: &str = "/dev/log";
/// Bytes of a datagram that each socket takes: the system lets nobody set less.
const TAKEN_BY_ALL: usize = 1 << 10;

/// A place that takes lines.
#[derive(Debug)]
pub(super) enum Sink {
    File(RollingFile),
    Stdout(File),
    Syslog(UnixDatagram, PathBuf),
}

impl Sink {
    /// # Errors
    /// When there is no such place.
    pub(super) fn open(to: &AuditTo) -> io::Result<Self> {
        Ok(match to {
            AuditTo::File(path) => Self::File(RollingFile::open_only_there(path)?),
            // Not through the standard library's buffer: what it has taken is not written.
            AuditTo::Stdout => Self::Stdout(io::stdout().as_fd().try_clone_to_owned()?.into()),
            AuditTo::Syslog => Self::syslog(Path::new(SYSLOG))?,
        })
    }

    pub(super) fn syslog(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Self::Syslog(socket, path.to_owned()))
    }

    /// Whether it takes one line at a time only.
    pub(super) const fn is_by_line(&self) -> bool {
        matches!(self, Self::Syslog(..))
    }

    /// Writes lines, or the first of them, or the rest of one; gives how many bytes it took.
    ///
    /// # Errors
    /// When it takes nothing.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.write(lines),
            Self::Stdout(file) => file.write(lines),
            Self::Syslog(socket, path) => {
                // It may have been restarted.
                if socket.send(lines).is_err() {
                    socket.connect(path)?;
                    socket.send(lines)?;
                }
                Ok(lines.len())
            }
        }
    }
}

/// Whether syslog's socket will never take a line of such a length.
pub(super) fn is_too_long(error: &io::Error, len: usize) -> bool {
    error.raw_os_error() == Some(Errno::MSGSIZE.raw_os_error()) && len > TAKEN_BY_ALL
}
