//! A server process with its own directory and port. It never outlives its value.

use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{self, Client, DEADLINE};

const BINARY: &str = env!("CARGO_BIN_EXE_ferrokeeper");

/// A directory with a zoo.cfg, and what was started on it.
#[derive(Debug)]
pub(crate) struct Server {
    dir: TempDir,
    port: u16,
    child: Option<Child>,
}

impl Server {
    /// A directory with `config` after the lines that every server needs; nothing runs yet.
    pub(crate) fn prepare(config: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("server.").tempdir().expect("a directory");
        let port = free_port();
        let server = Self { dir, port, child: None };
        fs::create_dir(server.data()).expect("a data directory");
        let text = format!(
            "dataDir={}\nclientPort={port}\ntickTime=200\npreAllocSize=1024\nmaxClientCnxns=0\n\
             4lw.commands.whitelist=*\nadmin.enableServer=false\n{config}\n",
            server.data().display()
        );
        fs::write(server.config(), text).expect("zoo.cfg");
        server
    }

    pub(crate) fn start(config: &str) -> Self {
        let mut server = Self::prepare(config);
        server.run();
        server
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.dir.path().join("zoo.cfg")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// `ferrokeeper server zoo.cfg`, its words going to a file.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(BINARY);
        command.arg("server").arg(self.config());
        self.settle(&mut command);
        command
    }

    /// The same where whoever runs this test may have signals ignored, as `nohup` has.
    pub(crate) fn hearing(&self) -> Command {
        let mut command = Command::new("env");
        command.args(["--default-signal=HUP,INT", BINARY, "server"]).arg(self.config());
        self.settle(&mut command);
        command
    }

    /// The same through a shell: `script` ends in `exec "$0" "$@"`.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script, BINARY, "server"]).arg(self.config());
        self.settle(&mut command);
        command
    }

    pub(crate) fn settle(&self, command: &mut Command) {
        let log = File::options().create(true).append(true).open(self.log_path()).expect("a log");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .env_remove("SERVER_JVMFLAGS")
            .env_remove("JVMFLAGS")
            .env_remove("FERROKEEPER_LOG")
            .env_remove("FERROKEEPER_LOG_FORMAT")
            .env_remove("ZOO_LOG_DIR");
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    pub(crate) fn run(&mut self) {
        let command = self.command();
        self.run_as(command);
    }

    /// Starts what ends by itself, perhaps before it answers anybody, and waits for that.
    pub(crate) fn run_to_its_end(&mut self) -> ExitStatus {
        self.child = Some(self.command().spawn().expect("it starts"));
        self.wait()
    }

    /// Starts and waits until it serves.
    pub(crate) fn run_as(&mut self, mut command: Command) {
        self.child = Some(command.spawn().expect("it starts"));
        let began = Instant::now();
        while !self.is_up() {
            let child = self.child.as_mut().expect("a child");
            if let Some(status) = child.try_wait().expect("our child") {
                panic!("it ended with {status}: {}", self.log());
            }
            assert!(began.elapsed() < DEADLINE, "it does not serve: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Whether it answers; a server alone also serves clients. A start that takes long answers
    /// words before that.
    fn is_up(&self) -> bool {
        let config = fs::read_to_string(self.config()).expect("zoo.cfg");
        let is_member = config.lines().filter(|line| line.starts_with("server.")).count() > 1;
        self.answer("ruok").is_some_and(|text| text == "imok")
            && (is_member || self.answer("srvr").is_some_and(|text| text.contains("Mode: ")))
    }

    fn answer(&self, word: &str) -> Option<String> {
        let mut stream = TcpStream::connect(self.address()).ok()?;
        let mut text = String::new();
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout");
        stream.write_all(word.as_bytes()).ok()?;
        stream.read_to_string(&mut text).ok()?;
        Some(text)
    }

    pub(crate) fn connect(&self, timeout_ms: i32) -> Client {
        Client::connect(self.address(), timeout_ms)
    }

    pub(crate) fn word(&self, word: &str) -> String {
        client::word(self.address(), word)
    }

    /// A line of `mntr`.
    pub(crate) fn figure(&self, name: &str) -> i64 {
        let text = self.word("mntr");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("zk_{name}\t")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {text}"))
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        end_of(&mut child).unwrap_or_else(|| {
            self.child = Some(child);
            panic!("it does not end: {}", self.log())
        })
    }

    /// The most memory that it ever had, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("a status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
        let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
        kilobytes * 1024
    }
}

/// A port of ours until this process ends, where nobody listens yet. It is below the range that the
/// kernel hands to outgoing connections: those would steal it while a server is down between two
/// runs.
pub(crate) fn free_port() -> u16 {
    /// The same ports of UDP, which no server wants: who holds one owns the number, among all test
    /// runs on this machine. compat-tests claims its own in the same way.
    static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let mut claims = CLAIMS.lock().expect("no panic");
    let base = std::process::id() % 11_000;
    for step in 0..12_000 {
        let port = u16::try_from(20_000 + (base + step) % 12_000).expect("below 32,000");
        let Ok(claim) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            claims.push(claim);
            return port;
        }
    }
    panic!("no free port between 20,000 and 32,000");
}

/// Sends a signal to a process that this test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status()
        .expect("kill runs");
    assert!(status.success(), "no signal for {pid}");
}

/// How a process ended, if it did in time.
pub(crate) fn end_of(child: &mut Child) -> Option<ExitStatus> {
    let began = Instant::now();
    while began.elapsed() < DEADLINE {
        if let Some(status) = child.try_wait().expect("our child") {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // By its handle: a stopped process ends, too.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A pipe that takes nothing more until somebody reads it.
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let blocks = |writer: &PipeWriter, it_does: bool| {
        rustix::io::ioctl_fionbio(writer, !it_does).expect("a pipe takes that");
    };
    blocks(&writer, false);
    while writer.write(&[b'\n'; 4096]).is_ok() {}
    blocks(&writer, true);
    (reader, writer)
}
