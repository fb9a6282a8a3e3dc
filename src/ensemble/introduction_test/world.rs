//! Everything under one seed: what happens next, and that it may.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use super::checks::Checks;
use super::history;
use super::server::{Process, Server, Volume, ensemble, open};
use super::*;
use crate::ensemble::{PeerMessage, SnapshotStatus};
use crate::storage::sim::{Dice, Fault};
use crate::storage::{Whose, whose};

/// In milliseconds: how long the faults go on, and for how long an ensemble that can be founded may
/// take to serve.
const FAULTS_MIN: u64 = 3000;
const FAULTS_MORE: u64 = 7000;
pub(super) const SERVES_WITHIN: u64 = 20_000;
/// For how long who is silent is waited for.
pub(super) const INIT_LIMIT: u64 = 1500;
const ACTIONS_MAX: u32 = 6;

pub(super) type Checked = Result<(), String>;

/// Bytes on their way.
#[derive(Debug, Clone)]
pub(super) struct Letter {
    pub(super) from: usize,
    /// The process of the sender, and the ensemble that it takes part in.
    pub(super) process: u64,
    pub(super) ensemble: u64,
    pub(super) to: usize,
    /// The process that it is for.
    pub(super) called: u64,
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
}

/// Between two members.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) number: u64,
    pub(super) ids: [u64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Question(u64),
    Answer(u64),
    /// Of a way, from one member to another one.
    Words(u64, u64, u64),
}

#[derive(Debug)]
pub(super) enum Event {
    Start(usize, u64),
    /// A process has read its directory.
    Read(usize, u64),
    Round(usize, u64),
    /// A question was not answered in time.
    Late(usize, u64, u64),
    Arrive(Letter),
    /// The disk has done a work.
    Work(usize, u64, u64),
    /// It is a member and takes part.
    Join(usize, u64),
    Offer(usize, u64, u8),
    Tick(usize, u64),
    Snapshot((usize, u64), (usize, u64), Box<PeerMessage>, Vec<u8>),
    Sent(usize, u64, u64, SnapshotStatus),
    Dial,
    Fault,
    Mend(usize, usize),
}

impl Event {
    /// The process that does it.
    const fn whose(&self) -> Option<(usize, u64)> {
        match self {
            Self::Read(at, process)
            | Self::Round(at, process)
            | Self::Late(at, process, _)
            | Self::Work(at, process, _)
            | Self::Join(at, process)
            | Self::Offer(at, process, _)
            | Self::Tick(at, process)
            | Self::Sent(at, process, ..) => Some((*at, *process)),
            Self::Start(..)
            | Self::Arrive(_)
            | Self::Snapshot(..)
            | Self::Dial
            | Self::Fault
            | Self::Mend(..) => None,
        }
    }
}

pub(super) struct World {
    pub(super) seed: u64,
    pub(super) flaw: Flaw,
    pub(super) dice: Dice,
    pub(super) now: u64,
    events: BTreeMap<(u64, u64), Event>,
    numbers: u64,
    pub(super) servers: Vec<Server>,
    /// For how many causes nothing passes from one to another.
    pub(super) cuts: Vec<u32>,
    /// When the last words between two arrive.
    pub(super) last: Vec<u64>,
    /// The ways of members, by the lower of the two.
    pub(super) ways: BTreeMap<(usize, usize), Way>,
    pub(super) calm: bool,
    /// A directory was lost, and an ensemble does not do without it yet.
    pub(super) has_lost: bool,
    pub(super) fault_every: u64,
    pub(super) checks: Checks,
    pub(super) outcome: Outcome,
    pub(super) trace: DefaultHasher,
    /// What happened last, for whoever looks for the cause.
    pub(super) tells: bool,
}

impl World {
    pub(super) fn run(seed: u64, flaw: Flaw) -> Result<Outcome, String> {
        let mut world = Self::new(seed, flaw);
        world.play()?;
        world.outcome.trace = world.trace.finish();
        Ok(world.outcome)
    }

    fn new(seed: u64, flaw: Flaw) -> Self {
        let mut dice = Dice(seed);
        let count = if dice.below(4) == 0 { 5 } else { 3 };
        let (left, kept) = history::draw(&mut dice, count);
        let are_strict = dice.below(4) == 0;
        let servers = left.iter().enumerate().map(|(at, left)| {
            let volumes = [1, 2].map(|number| Volume::empty(2 * at as u64 + number));
            history::write(&volumes[0].disk, left, &mut dice);
            // It is not mounted yet.
            let may_begin = !are_strict || dice.coin();
            let mounted = usize::from(!may_begin && dice.below(3) == 0);
            Server {
                volumes,
                mounted,
                may_begin,
                is_marked: false,
                process: None,
                line: String::new(),
                no_seat: String::new(),
                has_ended: false,
                has_kept: kept.iter().all(|zxid| left.zxids.contains(zxid)),
                starts: 0,
            }
        });
        let servers: Vec<Server> = servers.collect();
        let fault_every = [150, 400, 1000][dice.below(3) as usize];
        let unmounted = servers.iter().filter(|server| server.mounted > 0).count() as u64;
        let outcome = Outcome { unmounted, ..Outcome::default() };
        Self {
            seed,
            flaw,
            dice,
            now: 0,
            events: BTreeMap::new(),
            numbers: 100,
            cuts: vec![0; count * count],
            last: vec![0; count * count],
            ways: BTreeMap::new(),
            servers,
            calm: false,
            has_lost: false,
            fault_every,
            checks: Checks::new(kept),
            outcome,
            trace: DefaultHasher::new(),
            tells: number("FERROKEEPER_TELLS", 0) > 0,
        }
    }

    fn play(&mut self) -> Checked {
        for at in 0..self.servers.len() {
            let late = if self.dice.below(4) == 0 { 6000 } else { 800 };
            let wait = self.dice.below(late);
            self.start_after(at, wait);
        }
        self.after(100, Event::Dial);
        self.after(100, Event::Fault);
        let end = FAULTS_MIN + self.dice.below(FAULTS_MORE);
        while self.now < end {
            self.step()?;
        }
        self.heal().map_err(|violation| format!("healed: {violation}"))
    }

    /// Nothing fails any more: all serve, if need be with an operator's help.
    fn heal(&mut self) -> Checked {
        self.calm = true;
        self.cuts.fill(0);
        for at in 0..self.servers.len() {
            if let Some(process) = &mut self.servers[at].process {
                process.frozen_until = 0;
            }
            self.servers[at].disk().fail_after(u64::MAX / 2, Fault::PowerLoss);
            if self.servers[at].mounted > 0 {
                self.end(at, false);
                self.mount(at);
            }
            self.start_after(at, 100);
        }
        let mut began = self.now;
        for _ in 0..=ACTIONS_MAX {
            let least = self.now;
            while self.now < began + SERVES_WITHIN {
                self.step()?;
                if self.serves(least) {
                    return Ok(());
                }
            }
            if !self.operate()? {
                break;
            }
            began = self.now;
        }
        let lines: Vec<String> = (0..self.servers.len())
            .map(|at| format!("\n  server {}: {}", at + 1, self.tell(at)))
            .collect();
        Err(format!("the ensemble does not serve{}", lines.concat()))
    }

    pub(super) fn step(&mut self) -> Checked {
        let Some(((now, _), event)) = self.events.pop_first() else {
            return Err("nothing is to happen".to_owned());
        };
        self.now = now;
        self.outcome.steps += 1;
        (now, self.outcome.steps).hash(&mut self.trace);
        if let Some((at, number)) = event.whose() {
            let Some(process) = &self.servers[at].process else { return Ok(()) };
            if process.number != number {
                return Ok(());
            }
            let thaws = process.frozen_until;
            if thaws > now {
                self.at(thaws, event);
                return Ok(());
            }
        }
        self.happen(event).map_err(|violation| format!("at {now} ms: {violation}"))
    }

    fn happen(&mut self, event: Event) -> Checked {
        match event {
            Event::Start(at, when) => {
                if self.servers[at].starts == when && self.servers[at].process.is_none() {
                    self.start(at);
                }
                Ok(())
            }
            Event::Read(at, _) => self.read(at),
            Event::Round(at, _) => self.round(at),
            Event::Late(at, _, question) => self.answered(at, question, None),
            Event::Arrive(letter) => self.arrive(letter),
            Event::Work(at, _, work) => self.work(at, work),
            Event::Join(at, _) => self.join(at),
            Event::Offer(at, _, server) => self.offer(at, server),
            Event::Tick(at, _) => self.tick(at),
            Event::Snapshot(from, to, message, bytes) => self.snapshot(from, to, *message, &bytes),
            Event::Sent(at, _, to, status) => self.sent(at, to, status),
            Event::Dial => {
                self.after(100, Event::Dial);
                self.dial()
            }
            Event::Fault => self.fault(),
            Event::Mend(from, to) => {
                let count = self.servers.len();
                let cuts = &mut self.cuts[from * count + to];
                *cuts = cuts.saturating_sub(1);
                Ok(())
            }
        }
    }

    pub(super) fn at(&mut self, when: u64, event: Event) {
        let number = self.number();
        self.events.insert((when, number), event);
    }

    pub(super) fn after(&mut self, wait: u64, event: Event) {
        self.at(self.now + wait, event);
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn passes(&self, from: usize, to: usize) -> bool {
        self.cuts[from * self.servers.len() + to] == 0
    }

    pub(super) fn tell_of(&self, at: usize, what: impl FnOnce() -> String) {
        if self.tells {
            println!("{:6} {}: {}", self.now, at + 1, what());
        }
    }

    /// For whoever looks for the cause.
    fn tell(&self, at: usize) -> String {
        let server = &self.servers[at];
        let Some(process) = &server.process else { return "does not run".to_owned() };
        match &process.running {
            Some(running) => {
                let zxid = running.member.replica().shared().last_zxid();
                let (member, peers) = (&running.member, running.member.consensus().peers());
                format!("{:x} {member:?} at {zxid}: {peers:?}", process.ensemble)
            }
            None => {
                let standing = process.introduction.standing();
                format!("{standing:?}: {} {}", server.line, server.no_seat)
            }
        }
    }

    pub(super) fn start_after(&mut self, at: usize, wait: u64) {
        let when = self.now + wait;
        if self.servers[at].process.is_none() {
            self.servers[at].starts = when;
            self.at(when, Event::Start(at, when));
        }
    }

    /// A process begins: it says that it reads its directory.
    fn start(&mut self, at: usize) {
        if self.servers[at].mounted > 0 && self.dice.coin() {
            self.mount(at);
        }
        let Ok(directory) = open(self.servers[at].disk()) else {
            self.lose_power(at);
            return;
        };
        let number = self.number();
        self.tell_of(at, || format!("process {number} starts"));
        self.servers[at].process = Some(Process::new(number, self.now, Arc::new(directory)));
        let long = if self.dice.below(8) == 0 { 3000 } else { 100 };
        let wait = 5 + self.dice.below(if self.calm { 100 } else { long });
        self.after(wait, Event::Read(at, number));
    }

    /// It has read it.
    fn read(&mut self, at: usize) -> Checked {
        let (how, count) = (ensemble(self.seed, at), self.servers.len());
        let process = self.servers[at].process.as_mut().expect("it runs");
        let directory = Arc::clone(&process.directory);
        let read = || -> Result<Introduction, EnsembleError> {
            let Some(state) = RaftStateFile::look(&directory)? else {
                let before = Before::read(Arc::clone(&directory), &how)?;
                return Ok(Introduction::of_none(before));
            };
            match whose(&directory, &state)? {
                Whose { last, went_on: None } => {
                    Ok(Introduction::of_member(how.promises(&directory)?.get(), last))
                }
                Whose { last, went_on: Some(_) } => {
                    let left = of_line(&state, last);
                    let before = Before::of_member(Arc::clone(&directory), &how, left)?;
                    Ok(Introduction::of_none(before))
                }
            }
        };
        let introduction = match read() {
            Ok(introduction) => introduction,
            Err(error) => return self.failed(at, error),
        };
        let number = process.number;
        process.introduction = introduction;
        let voters = (1..=count as u8).collect();
        let words = ("/data".to_owned(), "ferrokeeper data leave".to_owned());
        let limit = Duration::from_millis(INIT_LIMIT);
        process.coming = Some(Coming::new(at as u8 + 1, voters, limit, words));
        process.began = self.now;
        self.tell_of(at, || format!("has read {}", self.tell(at)));
        self.after(1, Event::Round(at, number));
        self.look(at)
    }

    /// A disk refuses: for want of power, or by what it holds.
    pub(super) fn failed(&mut self, at: usize, error: EnsembleError) -> Checked {
        if self.servers[at].disk().is_powerless() {
            self.outcome.powerless += 1;
            self.lose_power(at);
            return Ok(());
        }
        match error {
            EnsembleError::Replaced { .. } => {
                self.end(at, false);
                self.start_after(at, 300);
                Ok(())
            }
            error => Err(format!("server {}: {error}: {error:?}", at + 1)),
        }
    }

    pub(super) fn lose_power(&mut self, at: usize) {
        self.end(at, true);
        let long = if self.dice.below(3) == 0 { 4000 } else { 500 };
        let wait = if self.calm { 200 } else { 20 + self.dice.below(long) };
        self.start_after(at, wait);
    }

    /// A process ends, alone or with its machine.
    pub(super) fn end(&mut self, at: usize, power: bool) {
        self.ways.retain(|(one, other), _| *one != at && *other != at);
        let server = &mut self.servers[at];
        let disk = server.disk().clone();
        // Nothing is tidied up.
        disk.fail_after(0, Fault::PowerLoss);
        server.process = None;
        if power {
            disk.crash(&mut Dice(self.dice.next()));
        } else {
            disk.kill();
        }
        self.tell_of(at, || format!("ends, power {power}"));
        if self.flaw == Flaw::AsksForgotten {
            self.forget_asks(at);
        }
    }

    /// What the founder knew in memory only is gone.
    fn forget_asks(&mut self, at: usize) {
        let disk = self.servers[at].disk().clone();
        let directory = open(&disk).expect("opens");
        if let Ok(Some(mut file)) = RaftStateFile::open(&directory) {
            let state = RaftState { asks: Vec::new(), ..file.get().clone() };
            if state != *file.get() {
                file.save(state).expect("saves");
            }
        }
        drop(directory);
        disk.kill();
    }
}
