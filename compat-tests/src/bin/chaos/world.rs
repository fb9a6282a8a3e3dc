//! The servers, the network between them and the clients.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread;
use std::time::{Duration, Instant};

use compat_tests::request::{self, op};
use compat_tests::{
    ConnectRequest, Java, Kind, Program, RawClient, classpath, four_letter_words, python,
    repository, signal,
};

use crate::checker::Last;
use crate::history::{Nanos, now};
use crate::member::{CLIENT_PORT, Member, SMALL, copy_what_stays, run};
use crate::timeline::Timeline;

/// Hosts that are servers.
pub(crate) const SERVERS: [u8; 3] = [1, 2, 3];
/// And those of kazoo and of Curator.
pub(crate) const CLIENTS: [u8; 2] = [8, 9];
/// That of a copy of a server.
const COPY: u8 = 7;
/// What the clients write, in the world's folder.
pub(crate) const HISTORIES: [&str; 2] = ["kazoo.history", "curator.history"];
/// Together again after the last fault, or never.
const DEADLINE: Duration = Duration::from_secs(90);
/// Longer than a session and what servers and clients allow themselves.
const SESSIONS_END: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// What no server says unless something is wrong in it.
const DEFECTS: [&str; 2] = ["this is a bug", "panicked at"];
const SIGKILL: i32 = 9;

/// Everything that runs.
#[derive(Debug)]
pub(crate) struct World {
    network: Program,
    members: Vec<Member>,
    kazoo: Option<Program>,
    curator: Option<Program>,
    copy: Option<Member>,
    /// What copies did that none may do, and servers that ended for no reason, or not well.
    found: Vec<String>,
    timeline: Timeline,
    folder: PathBuf,
    /// The classes that run.
    _java: Java,
}

fn address(server: u8) -> SocketAddr {
    (Ipv4Addr::new(10, 77, 0, server), CLIENT_PORT).into()
}

impl World {
    /// Three servers that serve, and clients at work.
    pub(crate) fn start(kind: Kind, folder: &Path, seed: u64) -> io::Result<Self> {
        run(&["mount", "-t", "tmpfs", "-o", "size=6g", "tmpfs", "/run"])?;
        fs::create_dir_all("/run/netns")?;
        fs::create_dir_all(folder)?;
        let java = Java::compile(&["chaos"], classpath());
        let clients = repository().join("compat-tests/clients/chaos");
        let mut words: Vec<String> =
            vec!["python3".into(), clients.join("network.py").display().to_string()];
        words.push(seed.to_string());
        words.extend(SERVERS.iter().chain(&CLIENTS).chain(&[COPY]).map(ToString::to_string));
        let mut network = Program::start(&words, &[]).with_deadline(DEADLINE);
        assert_eq!(network.next_line().as_deref(), Some("ready"), "namespaces and tun devices");
        let mut members = Vec::new();
        for number in SERVERS {
            let mut member = Member::new(number, number, kind, folder.join(number.to_string()))?;
            member.start()?;
            members.push(member);
        }
        let mut world = Self {
            network,
            members,
            kazoo: None,
            curator: None,
            copy: None,
            found: Vec::new(),
            timeline: Timeline::default(),
            folder: folder.to_owned(),
            _java: java,
        };
        world.settle()?;
        let hosts: Vec<String> =
            SERVERS.iter().map(|server| address(*server).to_string()).collect();
        let arguments =
            |file| [hosts.join(","), seed.to_string(), folder.join(file).display().to_string()];
        let script = clients.join("kazoo_chaos.py").display().to_string();
        let mut words = vec![python().display().to_string(), script];
        words.extend(arguments(HISTORIES[0]));
        world.kazoo = Some(client(CLIENTS[0], words));
        let words = world._java.words("CuratorChaos", &arguments(HISTORIES[1]));
        world.curator = Some(client(CLIENTS[1], words));
        Ok(world)
    }

    /// Nothing goes from one host to the other.
    pub(crate) fn cut(&mut self, from: u8, to: u8) {
        self.timeline.cut(from, to, now());
        self.order(&format!("cut {from} {to}"));
    }

    /// What a server sends comes late, and so many percent of it never.
    pub(crate) fn delay(&mut self, server: u8, ms: u64, lost: u64) {
        self.timeline.late(server, now());
        self.order(&format!("late {server} {ms} {} {lost}", ms / 4));
    }

    /// What was done to ways and servers so far.
    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// One line to the network.
    fn order(&mut self, line: &str) {
        self.network.say(line);
        assert_eq!(self.network.next_line().as_deref(), Some("done"), "{line}");
    }

    fn member(&mut self, server: u8) -> &mut Member {
        &mut self.members[usize::from(server) - 1]
    }

    pub(crate) fn kill(&mut self, server: u8) -> io::Result<()> {
        let before = now();
        let status = self.member(server).kill()?;
        self.timeline.end_stop(server, before, now());
        // One that had ended before does not end by the signal.
        if let Some(status) = status.filter(|status| status.signal() != Some(SIGKILL)) {
            self.has_ended(server, status);
        }
        Ok(())
    }

    /// A server is killed and loses all but its id.
    pub(crate) fn empty(&mut self, server: u8) -> io::Result<()> {
        self.kill(server)?;
        let member = self.member(server);
        for entry in fs::read_dir(member.folder.join("data"))? {
            let entry = entry?;
            if entry.file_name() == "myid" {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Copies what a server has while it writes, and starts the copy as that server. Its own list
    /// has its own address, as its machine would; the others know nothing of it.
    pub(crate) fn start_copy(&mut self, server: u8) -> io::Result<()> {
        let folder = self.folder.join("copy");
        if folder.exists() {
            fs::remove_dir_all(folder.join("data"))?;
        }
        let original = self.member(server);
        let from = original.folder.join("data");
        let mut copy = Member::new(server, COPY, original.kind, folder)?;
        copy_what_stays(&from, &copy.folder.join("data"))?;
        copy.start()?;
        self.copy = Some(copy);
        Ok(())
    }

    /// Ends the copy. It must serve nobody as long as the original does.
    pub(crate) fn end_copy(&mut self) -> io::Result<()> {
        let Some(mut copy) = self.copy.take() else { return Ok(()) };
        if let Some(mode) = mode(COPY) {
            self.found.push(format!("a copy of server {} serves as {mode}", copy.number));
        }
        copy.kill().map(drop)
    }

    /// Tells a server to end and starts it again.
    pub(crate) fn restart(&mut self, server: u8) -> io::Result<()> {
        self.note_ends()?;
        if let Some(child) = &self.member(server).child {
            signal(child.id(), "TERM");
        }
        // One that another fault has stopped ends when it goes on; systemd sends both, too.
        self.wake(server);
        if let Some(status) = self.ended(server)?
            && !status.success()
            && !self.member(server).is_excused()
        {
            self.found.push(format!("server {server} ended on SIGTERM, but not well: {status}"));
        }
        self.member(server).start()?;
        // The next one only once this one serves, as one does it; unless something else keeps it
        // from that.
        let deadline = Instant::now() + Duration::from_secs(20);
        while mode(server).is_none() && Instant::now() < deadline {
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    /// Waits until a server has ended that was told to; how it ended, if it was there.
    fn ended(&mut self, server: u8) -> io::Result<Option<ExitStatus>> {
        let member = self.member(server);
        let Some(child) = &mut member.child else { return Ok(None) };
        let deadline = Instant::now() + DEADLINE;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait()? {
                member.child = None;
                return Ok(Some(status));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Err(io::Error::other(format!("server {server} does not end on SIGTERM")))
    }

    /// SIGSTOP. It may have been killed by another fault.
    pub(crate) fn stop(&mut self, server: u8) {
        if let Some(child) = &self.members[usize::from(server) - 1].child {
            let ran_until = now();
            signal(child.id(), "STOP");
            self.timeline.stop(server, ran_until, stands_from(child.id()));
        }
    }

    /// SIGCONT. It may have been killed by another fault meanwhile.
    pub(crate) fn wake(&mut self, server: u8) {
        if let Some(child) = &self.members[usize::from(server) - 1].child {
            let stood_until = now();
            signal(child.id(), "CONT");
            self.timeline.end_stop(server, stood_until, now());
        }
    }

    /// Nothing more can be written where the third server has its data.
    pub(crate) fn fill_disk(&mut self) -> io::Result<()> {
        let member = self.member(SMALL);
        member.has_met_full_disk = true;
        let mut file = File::create(member.ballast())?;
        let block = vec![b'x'; 1 << 16];
        while file.write_all(&block).is_ok() {}
        while file.write_all(b"x").is_ok() {}
        Ok(())
    }

    pub(crate) fn kill_on_full_disk(&mut self) -> io::Result<()> {
        self.kill(SMALL)?;
        self.member(SMALL).start()
    }

    pub(crate) fn empty_disk(&mut self) -> io::Result<()> {
        let ballast = self.member(SMALL).ballast();
        if ballast.exists() { fs::remove_file(ballast) } else { Ok(()) }
    }

    pub(crate) fn step_clock(&mut self, server: u8, seconds: i64) -> io::Result<()> {
        fs::write(self.member(server).clock(), format!("{seconds:+}\n"))
    }

    /// The network works again, and everyone runs.
    pub(crate) fn heal(&mut self) -> io::Result<()> {
        self.order("heal");
        self.timeline.heal(now());
        self.note_ends()?;
        for member in self.members.iter_mut().filter(|member| member.child.is_none()) {
            member.start()?;
        }
        Ok(())
    }

    /// Who has ended by itself, which a disk that the run has filled allows, and nothing else.
    pub(crate) fn note_ends(&mut self) -> io::Result<()> {
        for server in SERVERS {
            let member = self.member(server);
            if let Some(child) = &mut member.child
                && let Some(status) = child.try_wait()?
            {
                member.child = None;
                self.has_ended(server, status);
            }
        }
        Ok(())
    }

    fn has_ended(&mut self, server: u8, status: ExitStatus) {
        let member = self.member(server);
        member.ended_by_itself += 1;
        let is_excused = member.is_excused();
        let said = format!("server {server} ended by itself: {status}");
        crate::say(&said);
        if !is_excused {
            self.found.push(said);
        }
    }

    pub(crate) fn ended_by_themselves(&self) -> u32 {
        self.members.iter().map(|member| member.ended_by_itself).sum()
    }

    /// Waits until one leads and the others follow; returns how long.
    pub(crate) fn settle(&mut self) -> io::Result<Duration> {
        let began = Instant::now();
        loop {
            let modes = SERVERS.map(|server| mode(server).unwrap_or_default());
            let count = |mode: &str| modes.iter().filter(|one| *one == mode).count();
            if (count("leader"), count("follower")) == (1, SERVERS.len() - 1) {
                let member = self.member(SMALL);
                member.has_met_full_disk = member.ballast().exists();
                return Ok(began.elapsed());
            }
            if began.elapsed() > DEADLINE {
                return Err(io::Error::other(format!(
                    "not together within {DEADLINE:?}: {modes:?}"
                )));
            }
            // As whatever watches over services does.
            self.note_ends()?;
            for member in self.members.iter_mut().filter(|member| member.child.is_none()) {
                member.start()?;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    pub(crate) fn leader(&self) -> Option<u8> {
        SERVERS.into_iter().find(|server| mode(*server).as_deref() == Some("leader"))
    }

    /// The clients do nothing any more, and their sessions stay.
    pub(crate) fn stop_clients(&mut self) {
        for program in [&mut self.kazoo, &mut self.curator].into_iter().flatten() {
            program.say("stop");
            wait_for(program, "stopped");
        }
    }

    /// They close their sessions.
    pub(crate) fn end_clients(&mut self) {
        for program in [self.kazoo.take(), self.curator.take()].into_iter().flatten() {
            let (succeeded, said) = program.finish();
            assert!(succeeded, "{}", said.join("\n"));
        }
    }

    /// What the servers show, and where they differ. Sessions that were given up may expire between
    /// two looks, and no new ones come: each look has at most the sessions of the look before, and
    /// the last one is at the first server.
    pub(crate) fn last(&self) -> io::Result<(Last, Vec<String>)> {
        let first = last_of(SERVERS[0])?;
        let mut found = Vec::new();
        let mut before = first.sessions.clone();
        for server in SERVERS[1..].iter().chain(&SERVERS[..1]) {
            let last = last_of(*server)?;
            for (part, equal) in [
                ("registers", first.registers == last.registers),
                ("sequential znodes", first.sequential == last.sequential),
            ] {
                if !equal {
                    found.push(format!("server {server} has other {part} than server 1"));
                }
            }
            let new: Vec<&String> = last.sessions.difference(&before).collect();
            if !new.is_empty() {
                found.push(format!("server {server} has {new:?}, which the one before it had not"));
            }
            before = last.sessions;
        }
        Ok((first, found))
    }

    /// Sessions whose ephemerals stay although all clients have gone.
    pub(crate) fn sessions_left(&self) -> io::Result<Vec<String>> {
        let deadline = Instant::now() + SESSIONS_END;
        loop {
            let left = last_of(SERVERS[0])?.sessions;
            if left.is_empty() || Instant::now() > deadline {
                let said =
                    |session| format!("{session} still has its ephemeral after {SESSIONS_END:?}");
                return Ok(left.into_iter().map(said).collect());
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// What servers said of themselves that none should have to.
    pub(crate) fn defects(&self) -> Vec<String> {
        let mut found = self.found.clone();
        let copies = [(self.folder.join("copy/log"), "a copy".to_owned())];
        let members = self.members.iter();
        let members = members.map(|member| (member.log(), format!("server {}", member.number)));
        for (log, name) in members.chain(copies) {
            let log = fs::read(log).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines = log.lines().filter(|line| DEFECTS.iter().any(|word| line.contains(word)));
            found.extend(lines.map(|line| format!("{name}: {line}")));
        }
        found
    }

    /// Copies what shows how it was.
    pub(crate) fn keep(&self, to: &Path) -> io::Result<()> {
        fs::create_dir_all(to)?;
        for file in HISTORIES {
            fs::copy(self.folder.join(file), to.join(file))?;
        }
        for member in &self.members {
            fs::copy(member.log(), to.join(format!("server-{}.log", member.number)))?;
        }
        fs::write(to.join("timeline"), format!("{:#?}\n", self.timeline))?;
        let copies = self.folder.join("copy/log");
        if copies.exists() {
            fs::copy(copies, to.join("copies.log"))?;
        }
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for member in self.members.iter_mut().chain(&mut self.copy) {
            let _ = member.kill();
        }
    }
}

/// A program on a host of its own, at work.
fn client(host: u8, words: Vec<String>) -> Program {
    let mut all: Vec<String> = ["ip", "netns", "exec"].map(String::from).to_vec();
    all.push(format!("host{host}"));
    all.extend(words);
    let mut program = Program::start(&all, &[]).with_deadline(DEADLINE);
    wait_for(&mut program, "ready");
    program
}

/// kazoo and Curator may say more.
fn wait_for(program: &mut Program, word: &str) {
    while let Some(line) = program.next_line() {
        if line == word {
            return;
        }
    }
    panic!("a client ended before it was {word}");
}

/// From when on every thread of a process is seen to stand; never, if that takes long.
fn stands_from(pid: u32) -> Nanos {
    let deadline = Instant::now() + Duration::from_secs(1);
    while Instant::now() < deadline {
        if stands(pid).unwrap_or(false) {
            return now();
        }
        thread::sleep(Duration::from_millis(1));
    }
    Nanos::MAX
}

fn stands(pid: u32) -> io::Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let stat = fs::read_to_string(thread?.path().join("stat"))?;
        // The state is after the name, which may have anything in it.
        if stat.rsplit(')').next().is_none_or(|rest| !rest.starts_with(" T")) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn mode(server: u8) -> Option<String> {
    let patience = Duration::from_millis(700);
    let text = four_letter_words::ask_within(address(server), "srvr", patience).ok()?;
    text.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
}

fn last_of(server: u8) -> io::Result<Last> {
    let (mut client, _) = RawClient::open(address(server), &ConnectRequest::new(20_000))?;
    client.call(op::SYNC, &request::path("/"))?;
    let mut below = |path: &str| -> io::Result<Vec<String>> {
        let reply = client.call(op::GET_CHILDREN, &request::path_watch(path, false))?;
        let names = if reply.err == 0 { reply.children() } else { Vec::new() };
        Ok(names.into_iter().map(|name| format!("{path}/{name}")).collect())
    };
    let mut registers = below("/chaos/r")?;
    registers.extend(below("/chaos/held")?);
    let sequential = below("/chaos/q")?;
    let sessions: BTreeSet<String> = below("/chaos/e")?
        .into_iter()
        .filter_map(|path| path.rsplit('/').next().map(str::to_owned))
        .collect();
    let mut get = |paths: Vec<String>| -> io::Result<BTreeMap<String, (String, i32)>> {
        let mut found = BTreeMap::new();
        for path in paths {
            let reply = client.call(op::GET_DATA, &request::path_watch(&path, false))?;
            let value = String::from_utf8_lossy(&reply.data()).into_owned();
            found.insert(path, (value, reply.stat().version));
        }
        Ok(found)
    };
    let registers = get(registers)?;
    let sequential = get(sequential)?.into_iter().map(|(path, (value, _))| (path, value)).collect();
    client.close()?;
    Ok(Last { registers, sequential, sessions })
}
