//! A program of someone else's, talked to line by line, with deadlines, and never left behind.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// No stock client needs longer for its next line.
const LINE_DEADLINE: Duration = Duration::from_secs(40);

/// The workspace's folder.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder in the workspace").into()
}

/// Where `scripts/test` and `scripts/reference` keep what they fetch.
///
/// # Panics
/// Without a home directory.
pub fn cache() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        home.map(|home| home.join(".cache"))
    });
    cache.expect("a home directory").join("ferrokeeper")
}

/// The Python that has kazoo; `scripts/test` makes the environment, outside of the system's Python.
pub fn python() -> PathBuf {
    let python = cache().join("venv/bin/python");
    assert!(python.exists(), "{} is missing: scripts/test makes it", python.display());
    python
}

/// The class path of Apache ZooKeeper 3.9.5, its client and Curator.
pub fn classpath() -> String {
    let output = Command::new(repository().join("scripts/reference")).arg("--classpath").output();
    let output = output.expect("scripts/reference runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("a path").trim_end().into()
}

/// A running program; stdout and stderr come as one stream of lines.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// How long it may be silent.
    deadline: Duration,
    /// What it has printed so far, for the message of a missed deadline.
    seen: Vec<String>,
}

impl Program {
    /// Starts `words[0]` with the others as arguments, in a process group of its own: the shell
    /// scripts among the stock clients start a JVM that must end with them.
    pub fn start(words: &[String], environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 2>&1", "sh"])
            .args(words)
            .envs(environment.iter().copied())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {words:?}: {error}"));
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            // Ends when the program's last process has closed its output.
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text =
                    String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_string();
                if sender.send(text).is_err() {
                    return;
                }
                line.clear();
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, deadline: LINE_DEADLINE, seen: Vec::new() }
    }

    /// The same program, which may be silent for longer than a client.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Writes a line to its stdin.
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        let written = stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush());
        if let Err(error) = written {
            panic!("cannot say {line:.80}: {error}; it said:\n{}", self.seen.join("\n"));
        }
    }

    /// Its next line; None at the end of its output.
    pub fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(self.deadline) {
            Ok(line) => {
                self.seen.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("silent for {:?}; it said:\n{}", self.deadline, self.seen.join("\n"))
            }
        }
    }

    /// Closes its stdin and waits until it has ended; returns whether by itself with success,
    /// and the lines it still printed.
    pub fn finish(mut self) -> (bool, Vec<String>) {
        self.stdin = None;
        let mut rest = Vec::new();
        while let Some(line) = self.next_line() {
            rest.push(line);
        }
        let deadline = Instant::now() + LINE_DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the program is our child") {
                return (status.success(), rest);
            }
            assert!(Instant::now() < deadline, "output closed, but still running");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a signal to the program and its children.
    pub fn signal(&self, signal: Signal) {
        if let Err(error) = signal_group(&self.child, signal) {
            panic!("cannot send {signal:?} to group {}: {error}", self.child.id());
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Sends a signal to all that a child has started and left, the child among them if it still runs:
/// it was started in a process group of its own.
///
/// # Errors
/// If there is nobody.
pub fn signal_group(child: &Child, signal: Signal) -> io::Result<()> {
    Ok(kill_process_group(Pid::from_child(child), signal)?)
}

/// The last lines of a log file.
pub(crate) fn log_tail(path: &Path, lines: usize) -> String {
    let text = String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.lines().collect();
    all.get(all.len().saturating_sub(lines)..).unwrap_or_default().join("\n")
}
