//! Copies of a data directory, file by file as rsync and cp take them, while the server writes: the
//! server starts on one, or names the command after which it does. Either way what it shows is the
//! tree at one instant, and no earlier one than that in which the copy began.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use compat_tests::request::{self, mode, op};
use compat_tests::tree::{self, Tree};
use compat_tests::{Kind, RawClient, Server, count, ferrokeeper};

/// Znodes that are set; enough of them that a snapshot takes its time.
const RING: u64 = 40_000;
/// Znodes that come and go.
const LIVES: u64 = 50;
/// Writes in flight.
const BATCH: u64 = 32;
/// Copies of one server: its files only become more.
const COPIES_OF_ONE: usize = 10;

/// What the n-th write does. One writer does them all, so that every instant has one number.
enum Change {
    Set(u64),
    SetBoth(u64, u64),
    Turn(u64),
}

impl Change {
    fn of(n: u64) -> Self {
        // Far from each other, so that a snapshot that is being written has passed some of them.
        let slot = |n: u64| n.wrapping_mul(2_654_435_761) % RING;
        match n % 5 {
            0 => Self::Turn(n / 5 % LIVES),
            1 => Self::SetBoth(slot(n), slot(n + 1_000_000)),
            _ => Self::Set(slot(n)),
        }
    }
}

fn ring(slot: u64) -> String {
    format!("/ring/{slot}")
}

fn life(slot: u64) -> String {
    format!("/lives/{slot}")
}

/// 120 bytes that say which write they are of.
fn data(n: u64) -> Vec<u8> {
    format!("{n:0>120}").into_bytes()
}

fn number(data: &[u8]) -> u64 {
    String::from_utf8_lossy(data).parse().expect("data of this test")
}

/// The tree after a number of writes, by a model of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    /// The last write and the version of each.
    ring: Vec<(u64, i32)>,
    /// The write that created it.
    lives: Vec<Option<u64>>,
    /// The cversion above them.
    turns: i32,
}

impl State {
    fn new() -> Self {
        Self { ring: vec![(0, 0); RING as usize], lives: vec![None; LIVES as usize], turns: 0 }
    }

    fn after(writes: u64) -> Self {
        let mut state = Self::new();
        for n in 1..=writes {
            match Change::of(n) {
                Change::Set(slot) => state.set(slot, n),
                Change::SetBoth(one, other) => {
                    state.set(one, n);
                    state.set(other, n);
                }
                Change::Turn(slot) => {
                    let life = &mut state.lives[slot as usize];
                    *life = if life.is_some() { None } else { Some(n) };
                    state.turns += 1;
                }
            }
        }
        state
    }

    fn set(&mut self, slot: u64, n: u64) {
        let (last, version) = &mut self.ring[slot as usize];
        (*last, *version) = (n, *version + 1);
    }

    fn shown(tree: &Tree) -> Self {
        let mut state = Self::new();
        for (path, (data, stat)) in tree {
            let slot = || path.rsplit('/').next().and_then(|name| name.parse::<usize>().ok());
            if path == "/lives" {
                state.turns = stat.cversion;
            } else if path.starts_with("/ring/") {
                state.ring[slot().expect("a slot")] = (number(data), stat.version);
            } else if path.starts_with("/lives/") {
                state.lives[slot().expect("a slot")] = Some(number(data));
            }
        }
        state
    }

    /// The last write that has left its number.
    fn last(&self) -> u64 {
        let numbers = self.ring.iter().map(|(n, _)| *n).chain(self.lives.iter().flatten().copied());
        numbers.max().unwrap_or(0)
    }
}

/// The one writer.
struct Writer {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(server: &Server) -> Self {
        let mut client = server.connect(20_000);
        for path in ["/ring", "/lives"] {
            let body = request::create(path, None, mode::PERSISTENT);
            assert_eq!(client.call(op::CREATE, &body).expect("a reply").err, 0);
        }
        for first in (0..RING).step_by(100) {
            let create =
                |slot| (op::CREATE, request::create(&ring(slot), Some(&data(0)), mode::PERSISTENT));
            let requests: Vec<(i32, Vec<u8>)> = (first..first + 100).map(create).collect();
            let replies = client.call_all(&requests).expect("replies");
            assert!(replies.iter().all(|reply| reply.err == 0));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let [acknowledged, sent] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        let thread = {
            let (stop, acknowledged, sent) =
                (Arc::clone(&stop), Arc::clone(&acknowledged), Arc::clone(&sent));
            thread::spawn(move || write(client, &stop, &acknowledged, &sent))
        };
        Self { stop, acknowledged, sent, thread }
    }

    fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("the writer runs through");
    }
}

fn write(mut client: RawClient, stop: &AtomicBool, acknowledged: &AtomicU64, sent: &AtomicU64) {
    let mut alive = [false; LIVES as usize];
    let mut n = 0;
    while !stop.load(Ordering::SeqCst) {
        let requests: Vec<(i32, Vec<u8>)> = (n + 1..=n + BATCH)
            .map(|n| {
                let set = |slot| (op::SET_DATA, request::set_data(&ring(slot), &data(n), -1));
                match Change::of(n) {
                    Change::Set(slot) => set(slot),
                    Change::SetBoth(one, other) => {
                        (op::MULTI, request::multi(&[set(one), set(other)]))
                    }
                    Change::Turn(slot) => {
                        let alive = &mut alive[usize::try_from(slot).expect("a slot")];
                        *alive = !*alive;
                        if *alive {
                            let path = life(slot);
                            (op::CREATE, request::create(&path, Some(&data(n)), mode::PERSISTENT))
                        } else {
                            (op::DELETE, request::path_version(&life(slot), -1))
                        }
                    }
                }
            })
            .collect();
        sent.store(n + BATCH, Ordering::SeqCst);
        let replies = client.call_all(&requests).expect("the server serves");
        assert!(replies.iter().all(|reply| reply.err == 0), "{replies:?}");
        n += BATCH;
        acknowledged.store(n, Ordering::SeqCst);
    }
    client.close().expect("the session closes");
}

/// In which order files are read.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// By name, from a list made before: rsync.
    LogsFirst,
    SnapshotsFirst,
    /// As the folder has them, read while it is copied: cp.
    AsListed,
}

/// Copies the files of a folder that a server writes; what goes away meanwhile is left out.
fn copy_busy(from: &Path, to: &Path, order: Order) {
    fs::create_dir_all(to).expect("the copy's folder is made");
    let listed = fs::read_dir(from).expect("the folder can be listed");
    let paths = listed.map(|entry| entry.expect("an entry").path());
    let copy = |path: PathBuf| {
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy_busy(&path, &target, order);
        } else {
            copy_file(&path, &target);
        }
    };
    match order {
        Order::AsListed => paths.for_each(copy),
        Order::LogsFirst | Order::SnapshotsFirst => {
            let mut paths: Vec<PathBuf> = paths.collect();
            paths.sort();
            let is_snapshot = |path: &PathBuf| path.to_string_lossy().contains("/snapshot.");
            let (snapshots, others): (Vec<_>, Vec<_>) = paths.into_iter().partition(is_snapshot);
            if matches!(order, Order::SnapshotsFirst) {
                snapshots.into_iter().chain(others).for_each(copy);
            } else {
                others.into_iter().for_each(&copy);
                // A snapshot that is being written will be whole.
                thread::sleep(Duration::from_millis(400));
                snapshots.into_iter().for_each(copy);
            }
        }
    }
}

fn copy_file(from: &Path, to: &Path) {
    let mut source = match File::open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == ErrorKind::NotFound => return,
        Err(error) => panic!("{}: {error}", from.display()),
    };
    let mut target = File::create(to).expect("the copy is made");
    let written = source.metadata().and_then(|metadata| metadata.modified()).expect("its time");
    let changing = written.elapsed().is_ok_and(|age| age < Duration::from_secs(1));
    let mut piece = vec![0; 8 << 10];
    loop {
        let read = source.read(&mut piece).expect("a file of the server can be read");
        let read = &piece[..read];
        if read.is_empty() {
            return;
        }
        target.write_all(read).expect("the copy is written");
        // The end of what is written by now: what comes while a disk or a network takes its time
        // stands after a hole.
        let blank = |part: Option<&[u8]>| part.is_some_and(|part| part.iter().all(|b| *b == 0));
        let ends_here = !blank(read.first_chunk::<200>().map(|part| &part[..]))
            && blank(read.last_chunk::<200>().map(|part| &part[..]));
        if changing && ends_here {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns when the server begins one (or has just written one, if it names it only then).
fn wait_for_a_snapshot(server: &Server) {
    let folder = server.data_dir().join("version-2");
    let snapshots = || {
        let names = fs::read_dir(&folder).expect("the folder can be listed");
        names
            .filter(|name| {
                let name = name.as_ref().expect("an entry").file_name();
                name.to_string_lossy().starts_with("snapshot.")
            })
            .count()
    };
    let (now, deadline) = (snapshots(), Instant::now() + Duration::from_secs(30));
    while snapshots() == now {
        assert!(Instant::now() < deadline, "no snapshot is taken");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The command that a refusal names.
fn way_out(said: &str) -> Option<&str> {
    let (_, rest) = said.split_once("`ferrokeeper ")?;
    rest.split_once('`').map(|(command, _)| command)
}

/// Starts on the copy, if need be by the command; returns whether it was.
fn start(server: &mut Server) -> bool {
    let Err(said) = server.try_restart() else { return false };
    let command = way_out(&said).unwrap_or_else(|| panic!("no command is named:\n{said}"));
    let output = Command::new("sh")
        .args(["-c", &format!("{} {command}", ferrokeeper().display())])
        .output()
        .expect("a shell runs");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {told}\nnamed by:\n{said}");
    server.restart();
    true
}

fn copies_of(kind: Kind, copies: usize) {
    let mut by_command = 0;
    for first in (0..copies).step_by(COPIES_OF_ONE) {
        // A file that goes while it is copied is another matter.
        let config = ["snapCount=5000", "preAllocSize=1024", "autopurge.purgeInterval=0"];
        let server = Server::start(kind, &config);
        let writer = Writer::start(&server);
        for copy in first..copies.min(first + COPIES_OF_ONE) {
            let order = [Order::LogsFirst, Order::SnapshotsFirst, Order::AsListed][copy % 3];
            let folder = tempfile::tempdir().expect("a folder");
            // So that a snapshot is being written at some of them.
            thread::sleep(Duration::from_millis(37 * (copy as u64 % 7) + 100));
            if matches!(order, Order::LogsFirst) {
                wait_for_a_snapshot(&server);
            }
            let before = writer.acknowledged.load(Ordering::SeqCst);
            copy_busy(&server.data_dir(), folder.path(), order);
            let sent = writer.sent.load(Ordering::SeqCst);

            let mut other = Server::on_copy(Kind::Ferrokeeper, &[], folder.path());
            let commanded = start(&mut other);
            by_command += usize::from(commanded);
            let mut client = other.connect(20_000);
            let shown = State::shown(&tree::walk(&mut client).expect("the tree"));
            client.close().expect("the session closes");
            // A delete leaves no number.
            let last = shown.last();
            let at = (last..=last + 1).find(|n| shown == State::after(*n));
            assert!(
                at.is_some_and(|at| (before..=sent).contains(&at)),
                "copy {copy} of {kind:?}, {order:?}, by command: {commanded}: acknowledged before \
                 it {before}, sent until its end {sent}; the tree is that of {at:?}, its last \
                 number {last}\n{}\n{}",
                differences(&shown, &State::after(last)),
                other.log()
            );
        }
        writer.stop();
    }
    show(&format!("{copies} copies of {kind:?}, {by_command} of them started by the command"));
}

/// For whoever runs the long version.
#[expect(clippy::print_stdout, reason = "the figure of the long run")]
fn show(line: &str) {
    println!("{line}");
}

fn differences(shown: &State, expected: &State) -> String {
    let mut lines = vec![format!("turns {} for {}", shown.turns, expected.turns)];
    for (slot, (shown, expected)) in shown.ring.iter().zip(&expected.ring).enumerate() {
        if shown != expected {
            lines.push(format!("{}: {shown:?} for {expected:?}", ring(slot as u64)));
        }
    }
    lines.truncate(20);
    lines.join("\n")
}

#[test]
fn of_a_ferrokeeper() {
    copies_of(Kind::subject(), count("BUSY_COPIES", 3));
}

#[test]
fn of_a_zookeeper() {
    copies_of(Kind::Reference, count("BUSY_COPIES", 3));
}
