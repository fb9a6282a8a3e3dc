//! A server that is measured: its process, its CPU time, its memory.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The longest start: ten million znodes after a kill.
const START_DEADLINE: Duration = Duration::from_secs(600);
/// Between two looks at whether a server serves.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// Whose files grow no more for so long writes nothing but what it is asked; and how long it may
/// take until then.
const REST: Duration = Duration::from_secs(1);
const REST_DEADLINE: Duration = Duration::from_secs(60);
/// Beyond so many znodes the usual heap is too small.
const ZNODES_OF_THE_USUAL_HEAP: u32 = 1_000_000;
/// Of the ample heap, in megabytes: in any case, for each thousand znodes, and at most.
const AMPLE: u32 = 2_000;
const AMPLE_FOR_A_THOUSAND: u32 = 2;
const AMPLE_AT_MOST: u32 = 16_000;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Apache,
    Ferrokeeper,
    /// The bare server of [`crate::floor`].
    Floor,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Apache => "Apache ZooKeeper",
            Self::Ferrokeeper => "ferrokeeper",
            Self::Floor => "bare server",
        }
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) ferrokeeper: PathBuf,
    pub(crate) reference: PathBuf,
    /// Where the data directories are made: the disk that is measured.
    pub(crate) data: PathBuf,
}

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) kind: Kind,
    pub(crate) programs: &'a Programs,
    /// Lines of zoo.cfg beside the usual ones.
    pub(crate) settings: String,
    /// What it will hold.
    pub(crate) znodes: u32,
    pub(crate) heap: Heap,
}

/// What memory Apache ZooKeeper's JVM gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heap {
    /// What `JVMFLAGS` says; more where that cannot hold the znodes.
    Usual,
    /// So much that collecting garbage is never what is measured.
    Ample,
}

impl Heap {
    /// In megabytes; None: what `JVMFLAGS` says.
    fn megabytes(self, znodes: u32) -> Option<u32> {
        let is_usual = self == Self::Usual && znodes <= ZNODES_OF_THE_USUAL_HEAP;
        let ample = AMPLE + znodes / 1000 * AMPLE_FOR_A_THOUSAND;
        (!is_usual).then(|| ample.min(AMPLE_AT_MOST))
    }
}

/// A running server; it ends with its value.
#[derive(Debug)]
pub(crate) struct Subject {
    kind: Kind,
    child: Child,
    address: SocketAddr,
    dir: TempDir,
}

impl Launch<'_> {
    /// Starts it on a fresh directory and waits until it serves.
    pub(crate) fn fresh(&self) -> io::Result<Subject> {
        let dir = folder(self.programs)?;
        fs::create_dir(data(dir.path()))?;
        self.on(dir)
    }

    /// Starts it on the folder of a server of before, or one that looks like it, and waits until it
    /// serves.
    pub(crate) fn on(&self, dir: TempDir) -> io::Result<Subject> {
        let mut subject = self.begin(dir, free_port()?)?;
        subject.wait_until_serving()?;
        Ok(subject)
    }

    /// Starts it on the same, for clients on `port`; it serves later.
    pub(crate) fn begin(&self, dir: TempDir, port: u16) -> io::Result<Subject> {
        let config = dir.path().join("zoo.cfg");
        let text = format!(
            "dataDir={}\nclientPort={port}\nclientPortAddress=127.0.0.1\ntickTime=2000\n\
             maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n{}",
            data(dir.path()).display(),
            self.settings
        );
        fs::write(&config, text)?;
        let mut command = match self.kind {
            Kind::Apache => Command::new(&self.programs.reference),
            Kind::Ferrokeeper => {
                let mut command = Command::new(&self.programs.ferrokeeper);
                command.arg("server");
                command
            }
            Kind::Floor => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("floor").arg(port.to_string());
                command
            }
        };
        if self.kind != Kind::Floor {
            command.arg(&config);
        }
        if let Some(megabytes) = self.heap.megabytes(self.znodes) {
            command.env("JVMFLAGS", format!("-Xmx{megabytes}m"));
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
        Ok(Subject { kind: self.kind, child, address, dir })
    }
}

/// A folder for a server on the disk that is measured.
pub(crate) fn folder(programs: &Programs) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("bench.").tempdir_in(&programs.data)
}

/// The data directory below a server's folder.
pub(crate) fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// Where the log and the snapshots are below a server's folder.
pub(crate) fn files(folder: &Path) -> PathBuf {
    data(folder).join("version-2")
}

impl Subject {
    /// Where its log and its snapshots are.
    pub(crate) fn files(&self) -> PathBuf {
        files(self.dir.path())
    }

    /// Ends it by SIGKILL and leaves its folder.
    pub(crate) fn kill(self) -> io::Result<TempDir> {
        self.end(Signal::KILL)
    }

    /// Ends it by a signal and leaves its folder.
    pub(crate) fn end(self, signal: Signal) -> io::Result<TempDir> {
        let mut ended = self;
        ended.signal(signal)?;
        ended.child.wait()?;
        // What is dropped with the value has ended already.
        let elsewhere = TempDir::new()?;
        Ok(std::mem::replace(&mut ended.dir, elsewhere))
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn wait_until_serving(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        while self.mode().is_none() {
            if self.child.try_wait()?.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(self.dir.path().join("log"))?;
                let name = self.kind.name();
                return Err(io::Error::other(format!("{name} does not start:\n{log}")));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    /// Standalone, leader or follower; None while it does not serve.
    pub(crate) fn mode(&self) -> Option<String> {
        let text = self.word("srvr").ok()?;
        text.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// What it answers to a four-letter word.
    pub(crate) fn word(&self, word: &str) -> io::Result<String> {
        let mut socket = TcpStream::connect_timeout(&self.address, Duration::from_secs(1))?;
        socket.set_read_timeout(Some(Duration::from_millis(500)))?;
        socket.write_all(word.as_bytes())?;
        let mut text = String::new();
        socket.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Waits until it writes nothing any more of what was asked before, as a snapshot, and the disk
    /// has all of it.
    pub(crate) fn rest(&self) -> io::Result<()> {
        let lengths = || -> io::Result<Vec<(PathBuf, u64)>> {
            let mut lengths = Vec::new();
            for entry in fs::read_dir(self.files())? {
                let path = entry?.path();
                // A file may go between the two calls.
                let len = fs::metadata(&path).map_or(0, |metadata| metadata.len());
                lengths.push((path, len));
            }
            lengths.sort_unstable();
            Ok(lengths)
        };
        let deadline = Instant::now() + REST_DEADLINE;
        let mut before = Vec::new();
        let mut now = lengths()?;
        while before != now && Instant::now() < deadline {
            thread::sleep(REST);
            before = std::mem::replace(&mut now, lengths()?);
        }
        Ok(rustix::fs::syncfs(fs::File::open(self.files())?)?)
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
        self.memory("VmRSS:")
    }

    /// The most that was resident so far, in bytes.
    pub(crate) fn peak_rss(&self) -> io::Result<u64> {
        self.memory("VmHWM:")
    }

    /// From now on the most is that of what comes.
    pub(crate) fn forget_peak(&self) -> io::Result<()> {
        /// What the kernel takes for it (proc(5), clear_refs).
        const PEAK: &str = "5";
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), PEAK)
    }

    fn memory(&self, field: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.map(|kb| kb << 10).ok_or_else(|| io::Error::other(format!("no {field} in /proc")))
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
    Ok(free_ports::<1>()?[0])
}

/// Several of them, all different, also from those of the last times, which nobody may listen on
/// yet.
pub(crate) fn free_ports<const COUNT: usize>() -> io::Result<[u16; COUNT]> {
    static NEXT: Mutex<u32> = Mutex::new(0);
    let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
    let base = std::process::id();
    let (mut ports, mut bound) = (Vec::new(), Vec::new());
    while ports.len() < COUNT {
        let port = (20_000 + (base + *next) % 10_000) as u16;
        *next += 1;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            ports.push(port);
            bound.push(listener);
        } else if *next > 1_000_000 {
            break;
        }
    }
    let too_few = |_| io::Error::other("too few free ports between 20,000 and 30,000");
    ports.try_into().map_err(too_few)
}

/// A program of the checkout or the error that says how to get it.
pub(crate) fn existing(path: &Path, make: &str) -> io::Result<PathBuf> {
    path.canonicalize()
        .map_err(|error| io::Error::other(format!("{}: {error}; {make}", path.display())))
}
