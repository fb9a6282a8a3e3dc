//! Three servers: started together, loaded, and one of them lost and brought back.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::case::{OfEnsemble, Spans};
use crate::connection::Connection;
use crate::load::{Load, Pace};
use crate::measure::{Figures, loaded};
use crate::request::{self, Workload, key_path};
use crate::subject::{self, Launch, Subject};
use crate::{outage, population};

const SERVERS: usize = 3;
/// Who warms them up before something happens to a leader.
const CONNECTIONS: u32 = 15;
const WINDOW: u32 = 32;
/// All three serve by then, or never.
const DEADLINE: Duration = Duration::from_secs(300);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Three servers of one list, each running or with the folder of its last run.
#[derive(Debug)]
pub(crate) struct Ensemble<'a> {
    launch: Launch<'a>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    port: u16,
    state: State,
}

#[derive(Debug)]
enum State {
    Running(Subject),
    Ended(TempDir),
    /// Between the two, or lost with an error.
    Nowhere,
}

impl<'a> Ensemble<'a> {
    /// Starts three on fresh directories and waits until one leads and the others follow.
    pub(crate) fn fresh(launch: &Launch<'a>) -> io::Result<Self> {
        let ports = subject::free_ports::<{ 3 * SERVERS }>()?;
        let mut settings = String::from("initLimit=10\nsyncLimit=5\n");
        for (id, ports) in (1..).zip(ports.chunks(3)) {
            settings.push_str(&format!("server.{id}=127.0.0.1:{}:{}\n", ports[1], ports[2]));
        }
        let settings = format!("{}{settings}", launch.settings);
        let mut ensemble =
            Self { launch: Launch { settings, ..launch.clone() }, members: Vec::new() };
        for (number, ports) in ports.chunks(3).enumerate() {
            let dir = subject::folder(launch.programs)?;
            fs::create_dir(subject::data(dir.path()))?;
            name(&dir, number)?;
            ensemble.members.push(Member { port: ports[0], state: State::Ended(dir) });
            ensemble.start(number)?;
        }
        ensemble.settle()?;
        Ok(ensemble)
    }

    /// Waits until one leads, the others follow, and it has heard of them.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        for member in &mut self.members {
            member.subject_mut()?.wait_until_serving()?;
        }
        let deadline = Instant::now() + DEADLINE;
        while !self.is_complete()? {
            if Instant::now() > deadline {
                let modes: Vec<_> = self.subjects()?.map(Subject::mode).collect();
                return Err(io::Error::other(format!("no leader with two followers: {modes:?}")));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    fn is_complete(&self) -> io::Result<bool> {
        let mut synced = false;
        let mut followers = 0;
        for subject in self.subjects()? {
            match subject.mode().as_deref() {
                Some("leader") => {
                    let text = subject.word("mntr").unwrap_or_default();
                    synced = text.lines().any(|line| {
                        line.strip_prefix("zk_synced_followers")
                            .is_some_and(|rest| rest.trim().parse() == Ok(SERVERS as f64 - 1.0))
                    });
                }
                Some("follower") => followers += 1,
                _ => (),
            }
        }
        Ok(synced && followers == SERVERS - 1)
    }

    /// The number of the one that leads.
    pub(crate) fn leader(&self) -> io::Result<usize> {
        let position =
            self.subjects()?.position(|subject| subject.mode().as_deref() == Some("leader"));
        position.ok_or_else(|| io::Error::other("nobody leads"))
    }

    /// Where clients go; the leader is the last: a single client is a follower's.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let leader = self.leader()?;
        let mut addresses: Vec<SocketAddr> = self.subjects()?.map(Subject::address).collect();
        let last = addresses.remove(leader);
        addresses.push(last);
        Ok(addresses)
    }

    pub(crate) fn signal(&self, number: usize, signal: Signal) -> io::Result<()> {
        self.members[number].subject()?.signal(signal)
    }

    /// Ends a server and keeps its folder.
    pub(crate) fn end(&mut self, number: usize, signal: Signal) -> io::Result<()> {
        let member = &mut self.members[number];
        if let State::Running(subject) = std::mem::replace(&mut member.state, State::Nowhere) {
            member.state = State::Ended(subject.end(signal)?);
        }
        Ok(())
    }

    /// Starts one that has ended, on its folder.
    pub(crate) fn start(&mut self, number: usize) -> io::Result<()> {
        let member = &mut self.members[number];
        if let State::Ended(dir) = std::mem::replace(&mut member.state, State::Nowhere) {
            member.state = State::Running(self.launch.begin(dir, member.port)?);
        }
        Ok(())
    }

    pub(crate) fn subjects(&self) -> io::Result<impl Iterator<Item = &Subject>> {
        let subjects: io::Result<Vec<&Subject>> =
            self.members.iter().map(Member::subject).collect();
        Ok(subjects?.into_iter())
    }

    fn sum<Sum: std::iter::Sum>(
        &self,
        of: impl Fn(&Subject) -> io::Result<Sum>,
    ) -> io::Result<Sum> {
        self.subjects()?.map(of).sum()
    }

    /// Nothing is left of a server that has ended but its id.
    fn empty(&mut self, number: usize) -> io::Result<()> {
        let State::Ended(dir) = &self.members[number].state else {
            return Err(io::Error::other("a running server is not emptied"));
        };
        let data = subject::data(dir.path());
        fs::remove_dir_all(&data)?;
        fs::create_dir(&data)?;
        name(dir, number)
    }
}

impl Member {
    fn subject(&self) -> io::Result<&Subject> {
        match &self.state {
            State::Running(subject) => Ok(subject),
            State::Ended(_) | State::Nowhere => Err(io::Error::other("a server is not running")),
        }
    }

    fn subject_mut(&mut self) -> io::Result<&mut Subject> {
        match &mut self.state {
            State::Running(subject) => Ok(subject),
            State::Ended(_) | State::Nowhere => Err(io::Error::other("a server is not running")),
        }
    }
}

fn name(dir: &TempDir, number: usize) -> io::Result<()> {
    fs::write(subject::data(dir.path()).join("myid"), (number + 1).to_string())
}

/// The figures of a case on three servers of its own.
pub(crate) fn figures(
    launch: &Launch<'_>,
    of: OfEnsemble,
    value_len: usize,
    spans: &Spans,
) -> io::Result<Figures> {
    let mut ensemble = Ensemble::fresh(launch)?;
    let keys = launch.znodes;
    let addresses = ensemble.addresses()?;
    population::create(addresses[0], keys, value_len)?;
    ensemble.settle()?;
    let load = |workload, connections, pace| Load {
        workload,
        connections,
        pace,
        value_len,
        keys: NonZeroU32::new(keys).unwrap_or(NonZeroU32::MIN),
        warm_up: spans.warm_up,
        measured: spans.measured,
        slice: None,
    };
    match of {
        OfEnsemble::Closed { workload, connections, window } => {
            let load = load(workload, connections, Pace::Window(window));
            loaded(launch.kind, &addresses, &load, spans, || ensemble.sum(Subject::cpu))
        }
        OfEnsemble::Outage(outage) => {
            let sets = load(Workload::Set, CONNECTIONS, Pace::Window(WINDOW));
            spans.steady.reach_under(launch.kind, &addresses, &sets)?;
            ensemble.settle()?;
            outage::figures(&mut ensemble, outage, spans.outages)
        }
        OfEnsemble::Memory => {
            let rss = ensemble.sum(Subject::rss)?;
            Ok(BTreeMap::from([("RSS MB, all three", rss as f64 / 1e6)]))
        }
        OfEnsemble::EmptiedFollower => emptied_follower(&mut ensemble, keys),
    }
}

/// From the start of a follower with nothing but its id to its first reply, of the last key that
/// was made.
fn emptied_follower(ensemble: &mut Ensemble<'_>, keys: u32) -> io::Result<Figures> {
    let follower = (ensemble.leader()? + 1) % SERVERS;
    ensemble.end(follower, Signal::KILL)?;
    ensemble.empty(follower)?;
    let began = Instant::now();
    ensemble.start(follower)?;
    let subject = ensemble.members[follower].subject_mut()?;
    subject.wait_until_serving()?;
    let mut connection = Connection::open(subject.address(), 0)?;
    let head = connection.call(&request::get(&key_path(keys - 1), false))?;
    let took = began.elapsed();
    if head.error != 0 {
        return Err(io::Error::other(format!("a key is answered {}", head.error)));
    }
    Ok(Figures::from([("s to the first reply", took.as_secs_f64())]))
}
