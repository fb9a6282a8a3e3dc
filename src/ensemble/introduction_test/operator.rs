//! An operator who does what the log of a server asks for, once all servers run and nothing comes
//! of it.

use std::collections::BTreeSet;

use super::server::{Process, Server, open};
use super::world::{Checked, World};
use super::*;
use crate::storage::{MOVE_ASIDE, StorageError};

/// What somebody is told to do.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    /// Move the data directory of this server away.
    Empty(usize),
    /// Have these leave ensembles that are lost, all before any of them starts again.
    Leave(Vec<usize>),
    /// Give these the marker.
    Mark(Vec<usize>),
    /// Let these begin with an empty directory.
    MayBegin(Vec<usize>),
}

/// What stands before the number of a founder whose ensemble has not begun, and is not joined.
const FOUNDER: [&str; 2] = ["is to count, stop server ", "does not happen, stop server "];
/// The same where an ensemble is lost, of one server or of several.
const LOST: [&str; 1] = ["is lost for good, stop server"];
/// The same where nothing of it has come to any of them.
const OF_NOBODY: [&str; 2] =
    ["are lost for good, stop server", "theirs holds what is needed, stop server"];
const LEAVES_ITSELF: &str = "stop this server, run `ferrokeeper data leave`";
const MAY_BEGIN: &str = "set db.autocreate=true";
/// No words of a line here: the connections that say FK0447 are not simulated.
const NONE_SERVES: &str = "FK0447";
const MARKER: &str = "initialize`";

/// All words that ask for something: if no server ever says them, a server says it in others, which
/// nobody heeds. [`MOVE_ASIDE`] is none of them: it is said only beside a majority that has what
/// was acknowledged, and whoever has other data than such an ensemble is refused here and ends.
pub(super) fn all_words() -> BTreeSet<&'static str> {
    let several = LOST.into_iter().chain(OF_NOBODY);
    let one = [LEAVES_ITSELF, MAY_BEGIN, MARKER];
    FOUNDER.into_iter().chain(several).chain(one).collect()
}

/// The servers after a word, up to the command for them.
fn numbers_behind(line: &str, words: &str) -> Option<Vec<usize>> {
    let (list, _) = line[line.find(words)? + words.len()..].split_once(", run")?;
    let numbers = list.split(|its: char| !its.is_ascii_digit()).filter(|its| !its.is_empty());
    numbers.map(|its| its.parse::<usize>().ok()?.checked_sub(1)).collect()
}

/// The number after a word.
fn number_behind(line: &str, words: &str) -> Option<usize> {
    let rest = &line[line.find(words)? + words.len()..];
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<usize>().ok()?.checked_sub(1)
}

impl World {
    /// Does one thing, if somebody asks for one.
    pub(super) fn operate(&mut self) -> Result<bool, String> {
        let all = 0..self.servers.len();
        let ended = all.clone().find(|at| self.servers[*at].has_ended);
        let ended = ended.map(|at| ("", Action::Empty(at)));
        let asked = ended.or_else(|| all.into_iter().find_map(|at| self.asked(at)));
        let asked = asked.or_else(|| self.of_none_that_serves());
        let Some((words, action)) = asked else { return Ok(false) };
        self.outcome.operated += 1;
        self.outcome.heeded.insert(words);
        match action {
            Action::Empty(at) => {
                self.empty(at);
                self.start_after(at, 200);
            }
            Action::Leave(servers) => {
                for at in &servers {
                    self.tell_of(*at, || format!("leaves, as asked: {words}"));
                    self.leave(*at)?;
                }
                for at in servers {
                    self.start_after(at, 200);
                }
            }
            Action::Mark(servers) => {
                for at in servers {
                    self.tell_of(at, || "is marked".to_owned());
                    self.servers[at].is_marked = true;
                }
            }
            Action::MayBegin(servers) => {
                for at in servers {
                    self.tell_of(at, || "may begin".to_owned());
                    self.servers[at].may_begin = true;
                }
            }
        }
        Ok(true)
    }

    /// What the log of a server asks for. All servers run, so that nothing else is to be done
    /// first.
    fn asked(&self, at: usize) -> Option<(&'static str, Action)> {
        let server = &self.servers[at];
        let process = server.process.as_ref()?;
        if process.running.is_some() {
            // As FK0447 says: a server in the list belongs to a different ensemble, which
            // serves clients.
            let serves = self.checks.ensemble.filter(|of| *of != process.ensemble)?;
            let is_there =
                |its: &Server| its.process.as_ref().is_some_and(|its| its.ensemble == serves);
            return self.servers.iter().any(is_there).then_some(("", Action::Empty(at)));
        }
        // There is no other directory of this server: all servers are back at their own.
        if server.no_seat.starts_with("this server may already be member") {
            return Some(("", Action::Empty(at)));
        }
        let line = server.line.as_str();
        for words in LOST {
            if let Some(members) = numbers_behind(line, words) {
                let are_lost = members.iter().all(|member| self.has_lost_majority(*member));
                return are_lost.then_some((words, Action::Leave(members)));
            }
        }
        for words in OF_NOBODY {
            if let Some(members) = numbers_behind(line, words) {
                let leave = (words, Action::Leave(members.clone()));
                return self.are_all_of_theirs(&members).then_some(leave);
            }
        }
        for words in FOUNDER {
            if let Some(founder) = number_behind(line, words) {
                return Some((words, Action::Leave(vec![founder])));
            }
        }
        if let Introduction::Member(its) = &process.introduction {
            if its.awaits == 0 {
                return None;
            }
            // Only where the directory of its founder is lost.
            let founder = usize::from(server_of(its.awaits)) - 1;
            let volumes = &self.servers[founder];
            let is_there = volumes.volumes[volumes.mounted].belongs == Some(its.ensemble);
            let is_asked = line.contains(LEAVES_ITSELF) && !is_there && !its.has_begun;
            return is_asked.then_some((LEAVES_ITSELF, Action::Leave(vec![at])));
        }
        if line.contains(MOVE_ASIDE) {
            let server = number_behind(line, "stop server ");
            return server.map(|server| (MOVE_ASIDE, Action::Empty(server)));
        }
        let blank = |at: &usize| {
            let server = &self.servers[*at];
            let introduction = server.process.as_ref().map(|process| &process.introduction);
            matches!(introduction, Some(Introduction::Before(_, holding, _)) if holding.is_blank())
        };
        let blank: Vec<usize> = (0..self.servers.len()).filter(blank).collect();
        if blank.is_empty() {
            return None;
        }
        if line.contains(MAY_BEGIN) {
            return Some((MAY_BEGIN, Action::MayBegin(blank)));
        }
        line.contains(MARKER).then_some((MARKER, Action::Mark(blank)))
    }

    /// As FK0447 says where no ensemble serves and no server waits: one whose ensemble has not
    /// begun leaves it.
    fn of_none_that_serves(&self) -> Option<(&'static str, Action)> {
        let mut members = Vec::new();
        for server in &self.servers {
            let process = server.process.as_ref()?;
            process.running.as_ref()?;
            members.push(process);
        }
        let several = members.iter().any(|its| its.ensemble != members[0].ensemble);
        let has_not_begun = |process: &&Process| match &process.introduction {
            Introduction::Member(its) => !its.has_begun,
            _ => false,
        };
        let at = members.iter().position(has_not_begun).filter(|_| several)?;
        Some((NONE_SERVES, Action::Leave(vec![at])))
    }

    /// Whether so many directories of an ensemble are lost that it never has a leader again.
    /// Without one, a server that has come back with an empty directory does not vote, nor does one
    /// that awaits the word of a founder whose directory is lost.
    fn has_lost_majority(&self, member: usize) -> bool {
        let of = |server: &Server| server.volumes[server.mounted].belongs;
        let ensemble = of(&self.servers[member]);
        let never_votes = |server: &Server| {
            let introduction = server.process.as_ref().map(|process| &process.introduction);
            match introduction {
                Some(Introduction::Member(its)) if its.awaits != 0 => {
                    of(&self.servers[usize::from(server_of(its.awaits)) - 1]) != ensemble
                }
                Some(Introduction::Member(its)) => its.left.of.lacks_vote,
                _ => false,
            }
        };
        let belong = self.servers.iter().filter(|server| of(server) == ensemble);
        let left = belong.filter(|server| !never_votes(server)).count();
        ensemble.is_some() && left <= self.servers.len() / 2
    }

    /// Whether the directories of all other members of an ensemble are lost.
    fn are_all_of_theirs(&self, members: &[usize]) -> bool {
        let of = |at: usize| self.servers[at].volumes[self.servers[at].mounted].belongs;
        let ensemble = members.first().and_then(|member| of(*member));
        let belong = (0..self.servers.len()).filter(|at| of(*at) == ensemble);
        ensemble.is_some() && belong.eq(members.iter().copied())
    }

    /// `data leave`. From then on another ensemble may acknowledge, which has what this one did.
    fn leave(&mut self, at: usize) -> Checked {
        let is_lost = self.has_lost_majority(at);
        let left = self.servers[at].volume().belongs;
        self.checks.ensemble = self.checks.ensemble.filter(|its| !(is_lost && left == Some(*its)));
        self.end(at, false);
        let disk = self.servers[at].disk().clone();
        let left = open(&disk).and_then(|directory| RaftStateFile::leave(&directory));
        left.map_err(|error: StorageError| error.to_string())?;
        disk.kill();
        self.servers[at].volume().belongs = None;
        Ok(())
    }
}
