//! A server that is measured: its process, its CPU time, its memory.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The longest start: five million znodes behind a kill.
const START_DEADLINE: Duration = Duration::from_secs(180);

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Apache,
    Rookeeper,
    /// The bare server of [`crate::floor`].
    Floor,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apache => "Apache ZooKeeper",
            Self::Rookeeper => "rookeeper",
            Self::Floor => "bare server",
        }
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) rookeeper: PathBuf,
    pub(crate) reference: PathBuf,
    /// Where the data directories are made: the disk that is measured.
    pub(crate) data: PathBuf,
}

/// A running server on a fresh directory; it ends with its value.
#[derive(Debug)]
pub(crate) struct Subject {
    child: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Subject {
    /// Starts one and waits until it serves.
    pub(crate) fn start(kind: Kind, programs: &Programs) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bench.").tempdir_in(&programs.data)?;
        let port = free_port()?;
        let config = dir.path().join("zoo.cfg");
        let data = dir.path().join("data");
        fs::create_dir(&data)?;
        let text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=2000\n\
             maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
            data.display()
        );
        fs::write(&config, text)?;
        let mut command = match kind {
            Kind::Apache => Command::new(&programs.reference),
            Kind::Rookeeper => {
                let mut command = Command::new(&programs.rookeeper);
                command.arg("server");
                command
            }
            Kind::Floor => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("floor").arg(port.to_string());
                command
            }
        };
        if kind != Kind::Floor {
            command.arg(&config);
        }
        let log = fs::File::create(dir.path().join("log"))?;
        let child = command
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| io::Error::other(format!("cannot run {command:?}: {error}")))?;
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let mut subject = Self { child, address, dir };
        let deadline = Instant::now() + START_DEADLINE;
        while !subject.serves() {
            if subject.child.try_wait()?.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(subject.dir.path().join("log"))?;
                return Err(io::Error::other(format!("{} does not start:\n{log}", kind.name())));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(subject)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    fn serves(&self) -> bool {
        let ask = || {
            let mut socket = TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?;
            socket.set_read_timeout(Some(Duration::from_millis(500)))?;
            socket.write_all(b"srvr")?;
            let mut text = String::new();
            socket.read_to_string(&mut text).map(|_| text.contains("Mode:"))
        };
        ask().unwrap_or(false)
    }

    /// CPU time so far, user and system, over all threads.
    pub(crate) fn cpu(&self) -> io::Result<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let ticks: u64 = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<u64>().ok())
            .sum();
        Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
    }

    /// Resident memory in bytes.
    pub(crate) fn rss(&self) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.map(|kb| kb << 10).ok_or_else(|| io::Error::other("no VmRSS in /proc"))
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port below those that the kernel gives to outgoing connections.
fn free_port() -> io::Result<u16> {
    let base = (std::process::id() % 10_000) as u16;
    (0..10_000)
        .map(|step| 20_000 + (base + step) % 10_000)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .ok_or_else(|| io::Error::other("no free port between 20,000 and 30,000"))
}

/// A program of the checkout or the error that says how to get it.
pub(crate) fn existing(path: &Path, make: &str) -> io::Result<PathBuf> {
    path.canonicalize()
        .map_err(|error| io::Error::other(format!("{}: {error}; {make}", path.display())))
}
