//! Questions and answers, and what follows from them: what the server's own shell does around the
//! decisions, with a clock and ways of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::post::encode;
use super::server::{For, Questions, Reply, Work, ensemble};
use super::world::{Checked, Event, Kind, Letter, World};
use super::*;
use crate::engine::time::Monotonic;
use crate::ensemble::founding::{Applicant, Question};
use crate::ensemble::{FRAME_HEAD_LEN, Said, founder_knows, parse_head, parse_said};
use crate::storage::sim::Fault;

/// A question and its answer take no longer than this.
const ANSWER_MAX: u64 = 700;

/// What bytes say.
pub(super) fn decode(bytes: &[u8], now: u64) -> Result<Said, String> {
    let (head, content) = bytes.split_first_chunk::<FRAME_HEAD_LEN>().ok_or("no head")?;
    let (len, checksum) = parse_head(*head).map_err(|error| error.to_string())?;
    if len != content.len() {
        return Err(format!("{len} bytes are {}", content.len()));
    }
    parse_said(content, checksum, Monotonic(now)).map_err(|error| error.to_string())
}

impl World {
    /// A round of questions begins.
    pub(super) fn round(&mut self, at: usize) -> Checked {
        let begins = self.servers[at].begins();
        let begins = match (self.flaw, begins) {
            (Flaw::BlankCountsAsEmpty, Begins::Never) => Begins::WithAll,
            _ => begins,
        };
        let process = self.servers[at].process.as_mut().expect("it runs");
        let Some(coming) = &process.coming else { return Ok(()) };
        let next = match coming.next(&mut process.introduction, begins) {
            Ok(next) => next,
            Err(error) => return self.failed(at, error),
        };
        if let Next::TakesPart = next {
            process.coming = None;
            let number = process.number;
            self.servers[at].line.clear();
            self.servers[at].no_seat.clear();
            self.after(1, Event::Join(at, number));
            return Ok(());
        }
        let asks = !matches!(next, Next::Waits);
        let others: Vec<u8> =
            (1..=self.servers.len() as u8).filter(|server| *server != at as u8 + 1).collect();
        let process = self.servers[at].process.as_mut().expect("it runs");
        process.round = Some(Questions {
            next,
            unanswered: if asks { others.iter().copied().collect() } else { BTreeSet::new() },
            heard: Heard::default(),
        });
        if !asks {
            return self.end_round(at);
        }
        for server in others {
            self.ask(at, server, Question::Standing, For::Round(server));
        }
        Ok(())
    }

    fn ask(&mut self, at: usize, server: u8, question: Question, what_for: For) {
        let number = self.number();
        let to = usize::from(server) - 1;
        let process = self.servers[at].process.as_mut().expect("it runs");
        process.asked.insert(number, what_for);
        let (own, ensemble) = (process.number, process.ensemble);
        let bytes = encode(&Said::Question(question));
        let kind = Kind::Question(number);
        let called = self.servers[to].process.as_ref().map_or(0, |process| process.number);
        let letter = Letter { from: at, process: own, ensemble, to, called, kind, bytes };
        // Who does not run has its machine say so.
        let is_refused = called == 0 && self.passes(at, to) && self.passes(to, at);
        self.after(if is_refused { 5 } else { ANSWER_MAX }, Event::Late(at, own, number));
        self.send(letter);
    }

    fn send(&mut self, letter: Letter) {
        let wait = 1 + self.dice.below(if self.dice.0.is_multiple_of(8) { 200 } else { 20 });
        self.after(wait, Event::Arrive(letter));
    }

    pub(super) fn arrive(&mut self, letter: Letter) -> Checked {
        let Letter { from, process: sender, ensemble, to, kind, .. } = letter;
        if !self.passes(from, to) {
            return Ok(());
        }
        // A connection ends with the process that it was made to.
        let process = self.servers[to].process.as_ref();
        let Some(process) = process.filter(|its| its.number == letter.called) else {
            return Ok(());
        };
        if process.frozen_until > self.now {
            let thaws = process.frozen_until;
            self.at(thaws, Event::Arrive(letter));
            return Ok(());
        }
        match kind {
            Kind::Words(way, from_id, to_id) => {
                self.words((from, from_id), (to, to_id), way, &letter)
            }
            Kind::Answer(question) => self.answered(to, question, Some(&letter)),
            Kind::Question(question) => {
                // As a hello has it.
                let own = process.ensemble;
                if ensemble != 0 && own != 0 && ensemble != own {
                    return Ok(());
                }
                let reply = Reply { to: from, process: sender, question };
                let Said::Question(what) = decode(&letter.bytes, self.now)? else {
                    return Err("this is not a question".to_owned());
                };
                self.question(to, reply, what)
            }
        }
    }

    fn question(&mut self, at: usize, reply: Reply, question: Question) -> Checked {
        let process = self.servers[at].process.as_mut().expect("it runs");
        match question {
            Question::Standing => {
                if let Some(running) = &process.running {
                    process.introduction.knows(&running.member.consensus().known());
                }
                let standing = process.introduction.standing();
                self.answer(
                    at,
                    reply,
                    standing.map_or(FoundingAnswer::Elsewhere, FoundingAnswer::Standing),
                );
            }
            Question::Founded(founding, _) => {
                let from = reply.to as u8 + 1;
                let own = at as u8 + 1;
                let caller = (from, ProcessId(reply.process));
                match process.introduction.asked_to_belong(own, caller, &founding) {
                    Asked::Answers(answer) => self.answer(at, reply, answer),
                    Asked::Declines(declined, answer) => {
                        self.outcome.refused += u64::from(process.declined != Some(declined));
                        process.declined = Some(declined);
                        self.answer(at, reply, answer);
                    }
                    Asked::Belongs(before, term) => {
                        let founding = Founding { term, ..founding };
                        let is_early = self.flaw == Flaw::AcceptanceNotWritten;
                        if is_early {
                            self.answer(at, reply, FoundingAnswer::Founded);
                        }
                        self.begin(at, Work::Belong(before, founding, from, reply));
                    }
                }
            }
            Question::Seat(applicant) => {
                if !process.introduction.is_member() || process.ensemble == 0 {
                    self.answer(at, reply, FoundingAnswer::Elsewhere);
                    return Ok(());
                }
                return self.seat(at, reply, applicant);
            }
        }
        Ok(())
    }

    pub(super) fn answer(&mut self, at: usize, reply: Reply, answer: FoundingAnswer) {
        let Some(process) = &self.servers[at].process else { return };
        let kind = Kind::Answer(reply.question);
        let (number, ensemble) = (process.number, process.ensemble);
        let bytes = encode(&Said::Answer(answer));
        let (to, called) = (reply.to, reply.process);
        self.send(Letter { from: at, process: number, ensemble, to, called, kind, bytes });
    }

    /// A question was answered, or is answered no more.
    pub(super) fn answered(
        &mut self,
        at: usize,
        question: u64,
        letter: Option<&Letter>,
    ) -> Checked {
        let process = self.servers[at].process.as_mut().expect("it runs");
        let Some(what_for) = process.asked.remove(&question) else { return Ok(()) };
        let answer = match letter {
            None => None,
            Some(letter) => match decode(&letter.bytes, self.now)? {
                Said::Answer(answer) => Some((answer, ProcessId(letter.process))),
                said => return Err(format!("this is not an answer: {said:?}")),
            },
        };
        match what_for {
            For::Round(server) => {
                let Some(round) = &mut process.round else { return Ok(()) };
                round.unanswered.remove(&server);
                if let Some((FoundingAnswer::Standing(standing), number)) = answer {
                    round.heard.standings.insert(server, standing);
                    round.heard.processes.insert(server, number);
                }
                let since = Duration::from_millis(self.now - process.began);
                let coming = process.coming.as_ref();
                let is_enough = |its: &Coming| its.is_enough(&round.next, &round.heard, since);
                let is_over = round.unanswered.is_empty() || coming.is_some_and(is_enough);
                if is_over { self.end_round(at) } else { Ok(()) }
            }
            For::Offer(server) => {
                let number = process.number;
                match answer {
                    Some((FoundingAnswer::Founded, _)) => self.has_answered(at, server, true),
                    Some((FoundingAnswer::Refused(_), _)) => self.has_answered(at, server, false),
                    _ => {
                        let wait = 100 + self.dice.below(200);
                        self.after(wait, Event::Offer(at, number, server));
                        Ok(())
                    }
                }
            }
            For::Seat(of) => {
                if let Some((FoundingAnswer::Seat(seat, _), _)) = &answer
                    && seat.ensemble == of
                {
                    process.seats.clear();
                    match process.introduction.take_applying(seat.ensemble) {
                        Some(applying) => self.begin(at, Work::Take(applying, seat.clone())),
                        None => self.round_later(at),
                    }
                    return Ok(());
                }
                match answer {
                    Some((FoundingAnswer::Refused(reason), _)) => self.servers[at].no_seat = reason,
                    Some((FoundingAnswer::Lacking, _)) => {
                        process.introduction.is_lacked();
                        process.seats.clear();
                    }
                    _ => {}
                }
                self.ask_for_seat(at);
                Ok(())
            }
        }
    }

    fn ask_for_seat(&mut self, at: usize) {
        let process = self.servers[at].process.as_mut().expect("it runs");
        let server = process.seats.pop_front();
        match (server, process.applicant) {
            (Some((server, of)), Some(applicant)) => {
                self.ask(at, server, Question::Seat(applicant), For::Seat(of));
            }
            _ => self.round_later(at),
        }
    }

    fn round_later(&mut self, at: usize) {
        let number = self.servers[at].process.as_ref().expect("it runs").number;
        let wait = 100 + self.dice.below(50);
        self.after(wait, Event::Round(at, number));
    }

    /// All have answered, or do not.
    fn end_round(&mut self, at: usize) -> Checked {
        let own = at as u8 + 1;
        let (now, flaw, count) = (self.now, self.flaw, self.servers.len());
        let server = &mut self.servers[at];
        let process = server.process.as_mut().expect("it runs");
        let Some(mut round) = process.round.take() else { return Ok(()) };
        let Some(coming) = &mut process.coming else { return Ok(()) };
        let awaits = match &process.introduction {
            Introduction::Member(its) => its.awaits,
            _ => 0,
        };
        break_round(flaw, (own, count), coming, (&mut round, awaits));
        let Questions { next, heard, .. } = round;
        let since = Duration::from_millis(now - process.began);
        let (deed, line) =
            coming.heard(&mut process.introduction, process.declined, next, &heard, since);
        if let Some(line) = line {
            server.line = line;
        }
        match deed {
            Deed::Waits => self.round_later(at),
            Deed::GoesOn => {
                let number = process.number;
                self.after(1, Event::Round(at, number));
            }
            Deed::Leaves(left) => {
                let directory = Arc::clone(&process.directory);
                process.introduction.leaves();
                let how = ensemble(self.seed, at);
                process.introduction.left(Before::of_member(directory, &how, left));
                server.volume().belongs = None;
                self.round_later(at);
            }
            Deed::TakesPart => self.begin(at, Work::TakePart),
            Deed::Founds(founds) => {
                let number = self.numbers_of(at);
                let voters =
                    (1..=count as u8).map(|server| member_id(server, FIRST_LIFE)).collect();
                let members = Members { voters, ..Members::default() };
                let process = self.servers[at].process.as_mut().expect("it runs");
                match process.introduction.found(number, members, founds) {
                    Some((before, founding)) => {
                        self.begin(at, Work::Found(Box::new(before), founding));
                    }
                    None => self.round_later(at),
                }
            }
            Deed::AsksForSeat { members, was, ends_with } => {
                process.seats = members.into();
                process.applicant = Some(Applicant { server: own, was, ends_with });
                self.ask_for_seat(at);
            }
            Deed::Ends { zxid, .. } => {
                self.outcome.ended += 1;
                self.tell_of(at, || {
                    format!("ends: data up to {zxid:x}, and an ensemble has begun")
                });
                self.end(at, false);
                self.servers[at].has_ended = true;
                self.start_after(at, 400);
            }
        }
        Ok(())
    }

    fn numbers_of(&mut self, at: usize) -> u64 {
        (self.number() << 8) | (at as u64 + 1)
    }

    /// The disk gets something to do, which takes its time.
    fn begin(&mut self, at: usize, work: Work) {
        let number = self.number();
        self.tell_of(at, || match &work {
            Work::Found(_, founding) => format!("founds {founding:?}"),
            Work::Belong(_, founding, from, _) => {
                format!("accepts {:x} of {from}", founding.ensemble)
            }
            Work::TakePart => "is known to its founder".to_owned(),
            Work::Take(_, seat) => format!("takes a seat: {seat:?}"),
        });
        let long = if self.dice.below(6) == 0 { 2500 } else { 100 };
        let wait = 1 + self.dice.below(if self.calm { 50 } else { long });
        let server = &mut self.servers[at];
        let process = server.process.as_mut().expect("it runs");
        let own = process.number;
        process.works.insert(number, work);
        if !self.calm && self.dice.below(6) == 0 {
            self.servers[at].disk().fail_after(self.dice.below(30), Fault::PowerLoss);
        }
        self.after(wait, Event::Work(at, own, number));
    }

    /// The disk does it.
    pub(super) fn work(&mut self, at: usize, number: u64) -> Checked {
        let own = at as u8 + 1;
        let process = self.servers[at].process.as_mut().expect("it runs");
        let Some(work) = process.works.remove(&number) else { return Ok(()) };
        let directory = Arc::clone(&process.directory);
        let id = member_id(own, FIRST_LIFE);
        self.servers[at].volume().founds |= matches!(work, Work::Found(..));
        let mut reply = None;
        let count: fn(&mut Outcome) = match &work {
            Work::Found(..) => |outcome| outcome.founded += 1,
            Work::Belong(..) => |outcome| outcome.accepted += 1,
            Work::TakePart => |outcome| outcome.confirmed += 1,
            Work::Take(Applying::Instead, _) => |outcome| outcome.taken_instead += 1,
            Work::Take(..) => |outcome| outcome.seated += 1,
        };
        let done = match work {
            Work::Found(before, founding) => before.found(id, &founding, None),
            Work::Belong(before, founding, from, to) => {
                reply = Some(to);
                before.belong(id, member_id(from, FIRST_LIFE), &founding, None)
            }
            Work::TakePart => founder_knows(&directory).map_err(EnsembleError::from),
            Work::Take(applying, seat) => applying.take(&directory, seat, None),
        };
        if done.is_ok() {
            count(&mut self.outcome);
        }
        let state = done.and_then(|()| Ok(RaftStateFile::look(&directory)?));
        let is_powerless = self.servers[at].disk().is_powerless();
        let process = self.servers[at].process.as_mut().expect("it runs");
        process.introduction.changed(state);
        let is_member = process.introduction.is_member();
        if is_powerless {
            self.outcome.powerless += 1;
            self.lose_power(at);
            return Ok(());
        }
        self.look(at)?;
        match reply {
            None => self.round_later(at),
            Some(_) if self.flaw == Flaw::AcceptanceNotWritten => {}
            Some(reply) => {
                let answer =
                    if is_member { FoundingAnswer::Founded } else { FoundingAnswer::Elsewhere };
                self.answer(at, reply, answer);
            }
        }
        Ok(())
    }

    /// As its founder, asks a server to belong to the ensemble.
    pub(super) fn offer(&mut self, at: usize, server: u8) -> Checked {
        let process = self.servers[at].process.as_ref().expect("it runs");
        let Some(running) = &process.running else { return Ok(()) };
        let founding = running.founding.clone();
        match process.introduction.offers_to(server, &founding.members) {
            true => {
                self.ask(at, server, Question::Founded(founding, None), For::Offer(server));
                Ok(())
            }
            false => self.has_answered(at, server, false),
        }
    }
}

/// What is heard, where it is not what was said.
fn break_round(
    flaw: Flaw,
    (own, count): (u8, usize),
    coming: &mut Coming,
    (round, awaits): (&mut Questions, u64),
) {
    match flaw {
        Flaw::MinorityFounds => {
            coming.voters = round.heard.standings.keys().copied().chain([own]).collect();
            coming.voters.sort_unstable();
        }
        Flaw::SilentCountsAsEmpty => {
            let is_empty = matches!(round.next, Next::Comes(its) if its.base.is_empty());
            let greatest = round.heard.standings.keys().copied().chain([own]).max();
            for server in (1..=count as u8).filter(|server| is_empty && *server != own) {
                let holding =
                    Holding { begins: Begins::WithAll, names: greatest, ..Holding::default() };
                round.heard.standings.entry(server).or_insert(Standing::Before(holding));
            }
        }
        Flaw::AnybodyConfirms => {
            let Next::Awaits(_, of, _) = round.next else { return };
            for its in round.heard.standings.values_mut() {
                if let Standing::Member { id, ensemble, asks, .. } = its
                    && *ensemble == of.ensemble
                {
                    *id = awaits;
                    asks.clear();
                }
            }
        }
        Flaw::BlankCountsAsEmpty => {
            for its in round.heard.standings.values_mut() {
                if let Standing::Before(holding) = its
                    && holding.begins == Begins::Never
                {
                    holding.begins = Begins::WithAll;
                }
            }
        }
        Flaw::None | Flaw::AsksForgotten | Flaw::AcceptanceNotWritten => {}
    }
}
