//! What operators are told about what [`super`] decides: for whom a server waits, why, and what
//! ends that.
//!
//! Who is told to give up data is told so only beside a majority that has what was acknowledged.
//! Elsewhere that data may count: then the line names who has the newest.

mod answers;
mod asked;
mod refused;
mod returning;
mod sentences;

pub use refused::{Refuses, refused};
pub use returning::without_any_base;

use self::answers::Answers;
use self::sentences::{
    LOADS, NEITHER_IS_KNOWN, answer_empty, ends_without_base, ends_without_others, holds_up,
    in_words, majority_wins, silent, started, unmounted, without_vote,
};
use super::heard::{Majority, blank};
use super::{Base, Begins, Holding, OfLine, Round, Servers, Standing};
use crate::storage::MOVE_ASIDE;

impl Round<'_> {
    /// For an operator: why it is not a member yet, and what ends that. `data_dir` is the directory
    /// of this server.
    #[must_use]
    pub fn waits_for(&self, is_late: bool, data_dir: &str) -> String {
        let marked = format!("`touch {data_dir}/initialize`");
        let begin_anew = format!(
            "run {marked} on a majority of the servers, each with its own dataDir: THIS LOSES ALL \
             EARLIER DATA"
        );
        let give_a_vote = |server| {
            format!(
                "To begin on the data of server {server}, which does not vote, give it a vote in \
                 the lists"
            )
        };
        let (silent, are) = self.silent();
        let unmounted = self.unmounted();
        // Before the marker is spoken of: what it gives up may lie on a disk that is not mounted.
        let mounted = |whose: &str| match unmounted.as_str() {
            "" => format!(". Check that the disks of {whose} are mounted"),
            _ => unmounted.clone(),
        };
        if let Some((server, ensemble, of)) = self.asker() {
            return self.is_asked(server, (ensemble, of), (is_late, &marked));
        }
        if let Some(text) = self.is_of_two() {
            return text;
        }
        let present = || self.members().filter(|(_, _, of)| self.may_go_on(of));
        if let Some((server, ensemble, of)) = present().next() {
            let lacking = || present().find_map(|its| Some((its.0, self.without_base(its.1)?)));
            let held = self.members().any(|its| its.2.held);
            let has_data = self.data().next().is_some();
            // Of one that has not begun, who is silent may have it.
            if (self.has_begun() || !(held || has_data) || self.is_complete())
                && let Some((server, members)) = lacking()
            {
                return self.holds_up().unwrap_or_else(|| {
                    let empty = (self.empty(), has_data);
                    let end = ends_without_base(&members, &silent, &unmounted, held, &empty);
                    format!("server {server} belongs to an ensemble, and {end}")
                });
            }
            if !self.has_begun()
                && let Some(text) = self.is_not_listed()
            {
                return text;
            }
            if self.may_go_aside() {
                return self.lacks_seat(server, (ensemble, of));
            }
            if self.is_waiting_for_others() {
                let end = self.ends_without_others((ensemble, of));
                let majority = majority_wins(&silent);
                return self.holds_up().unwrap_or_else(|| {
                    format!(
                        "ZooKeeper has gone on with the data of this server, but server {server} \
                         still belongs to the earlier ensemble and shows no sign of that. \
                         {majority}{unmounted}{end}"
                    )
                });
            }
            return match self.holds_up() {
                Some(text) => text,
                None if !self.has_begun() => self.lacks_beginning(server),
                None if !self.is_complete() => format!(
                    "server {server} belongs to an ensemble that another server may have founded: \
                     {}. Start the silent servers{unmounted}",
                    self.missing()
                ),
                None => self.lacks_seat(server, (ensemble, of)),
            };
        }
        if let Some(text) = self.holds_up() {
            return text;
        }
        if let Some(text) = self.is_of_other_lines() {
            return text;
        }
        if let Some(text) = self.is_less_than_others() {
            return text;
        }
        if let Some(text) = self.is_older_than_left() {
            return text;
        }
        if let Some(server) = self.is_left_by_few() {
            let start = match silent.is_empty() {
                true => format!("the others are empty{unmounted}"),
                false => format!(
                    "{silent} {are} not answer: start the silent servers, with the data that they \
                     have{unmounted}"
                ),
            };
            return format!(
                "ZooKeeper has gone on with the data of server {server}, and no majority of the \
                 servers has such data: {start}. If the data of the others is lost, and that of \
                 server {server} is to be used, stop server {server}, run `ferrokeeper data leave` \
                 on its dataDir, and start it again"
            );
        }
        let with_data = self.heard().any(|its| its.0);
        match (silent.is_empty(), self.named().filter(|_| with_data)) {
            (true, named)
                if !self.may_begin(is_late)
                    && self.removed().len()
                        >= named.map_or(1, |_| self.voters.len().div_ceil(2)) =>
            {
                let anew = match self.data().next() {
                    None => format!("; to begin with an empty tree, {begin_anew}"),
                    Some(_) => String::new(),
                };
                format!(
                    "{}, and no member of that ensemble answers: start the servers that belong to \
                     it, and check that the lists name them{}. If they are lost for good: to \
                     continue with what the removed server still has, stop that server, run \
                     `ferrokeeper data leave` on its dataDir, and start it again{anew}",
                    self.taken_out(),
                    mounted("all servers")
                )
            }
            (false, None) if let Some(text) = self.is_of_other_lists((&silent, are)) => text,
            (false, None) => {
                let end = match self.data().next() {
                    None => format!(
                        "Only if what {silent} had is not needed, begin with an empty tree: \
                         {begin_anew}"
                    ),
                    // Where that is silent for a moment, a majority with the marker would begin
                    // without it.
                    Some((server, _)) => give_a_vote(server),
                };
                format!(
                    "{silent} {are} not answer and may have data{}{}. {end}",
                    mounted("the servers that answer"),
                    started(&silent)
                )
            }
            (false, Some(_)) if self.may_begin(is_late) => {
                format!(
                    "{silent} {are} not answer; the servers with data are enough, but {}",
                    self.founder()
                )
            }
            (false, Some(_)) if self.may_begin(true) => format!(
                "{silent} {are} not answer and may have newer data; the servers with data wait for \
                 initLimit at most, and then begin without it"
            ),
            (false, Some(server)) => format!(
                "{silent} {are} not answer and may have newer data than server \
                 {server}{unmounted}{}",
                started(&silent)
            ),
            (true, Some(_)) if !self.may_begin(is_late) && self.may_begin(true) => {
                format!(
                    "the servers with data wait for initLimit at most, and then begin without \
                     what an empty server may have on a disk that is not mounted{unmounted}"
                )
            }
            (true, Some(server)) if !self.may_begin(is_late) => format!(
                "there may be newer data than that of server {server}{unmounted}{}",
                self.ends_with_all()
            ),
            (true, None) if !self.may_begin(is_late) => format!(
                "all voters are empty, and db.autocreate=false: check that their disks are \
                 mounted. {}",
                match self.data().next() {
                    None => format!("If there is to be no data, {begin_anew}"),
                    Some((server, _)) => give_a_vote(server),
                }
            ),
            (true, _) => format!("all voters have answered, but {}", self.founder()),
        }
    }

    /// For an operator, if servers that do not vote have more than all that do.
    fn is_less_than_others(&self) -> Option<String> {
        let base = |server: u8| match self.others.get(&server) {
            Some(Standing::Before(its)) => its.base,
            _ => Base::default(),
        };
        let more = self.have_more().map(|its| (base(its.0), its.0));
        let (Base { epoch, zxid, .. }, server) = more.max()?;
        let has = match self.heard().any(|its| its.0) {
            true => "newer data than all voters that answer",
            false => "data",
        };
        let its = format!(
            "server {server}, which does not vote, has {has}, up to zxid {zxid:#x} of epoch \
             {epoch}. No ensemble begins without it"
        );
        let unmounted = self.unmounted();
        let (silent, are) = self.silent();
        // Who is silent may have it as well: the lists stay as they are until all have said so.
        if !silent.is_empty() {
            let start = started(&silent);
            return Some(format!(
                "{its}; {silent} {are} not answer and may have it{unmounted}{start}. Move no data \
                 away"
            ));
        }
        Some(format!(
            "{its}{unmounted}. If all voters have the data that they should have, make server \
             {server} a voter in the lists of all servers, and restart them. Move no data away: a \
             server that does not vote has only what was acknowledged, and no majority has that"
        ))
    }

    /// For an operator, if voters are busy, or observers that are waited for as well.
    fn holds_up(&self) -> Option<String> {
        let is_none_there = self.members().next().is_none();
        let observers = self.have_more().filter(|_| is_none_there);
        let observers = observers.filter_map(|(server, busy)| Some((server, busy?)));
        holds_up(self.busy().chain(observers), self.silent())
    }

    /// For an operator, if not all that were left are of one line.
    pub(super) fn is_of_other_lines(&self) -> Option<String> {
        let of = |(server, its): (u8, Holding)| its.left.map(|left| (server, left.of.line));
        let mut all = self.data().filter_map(of);
        let (one, first) = all.next()?;
        let (other, second) = all.find(|(_, line)| *line != first)?;
        Some(format!(
            "servers {one} and {other} were members of two ensembles, {first:016x} and \
             {second:016x}, before ZooKeeper went on with their data: check that their lists name \
             the right servers and that the disks are the right ones"
        ))
    }

    /// For an operator, if a record of an ensemble that was left is of a later epoch than all that
    /// ZooKeeper wrote.
    pub(super) fn is_older_than_left(&self) -> Option<String> {
        self.next_generation()?;
        let newest = self.data().map(|its| its.1.base.epoch).max().unwrap_or(0);
        let left = self.data().filter_map(|(server, its)| its.left.map(|left| (server, left.of)));
        let members = self.members().map(|(server, _, of)| (server, of));
        let later = left.chain(members).filter(|(_, of)| of.last >> 32 > newest);
        let (server, of) = later.max_by_key(|(_, of)| of.last)?;
        Some(format!(
            "server {server} has a transaction of epoch {} from the ensemble that was left, but \
             what ZooKeeper continued ends in epoch {newest}: what it continued with is older than \
             that transaction. As far as servers have said, the newest data is that of server \
             {server}{}. Move no data away: if directories were restored from a backup, find out \
             first which data is right",
            of.last >> 32,
            started(&self.silent().0)
        ))
    }

    /// For an operator, if members of two ensembles were heard. Only who belongs to one that has
    /// not begun, beside a majority of one that has, can be told to give up what it has: without
    /// that majority, it may be all that is left of what was acknowledged before.
    fn is_of_two(&self) -> Option<String> {
        let (one, first) = self.present().next()?;
        let (other, second) = self.present().find(|(_, ensemble)| *ensemble != first)?;
        let has_begun = |of: u64| self.begun().any(|(ensemble, _)| ensemble == of);
        let two = format!(
            "servers {one} and {other} belong to two ensembles, {first:016x} and {second:016x}"
        );
        let (of_none, begun) = match (has_begun(first), has_begun(second)) {
            (true, false) => (other, first),
            (false, true) => (one, second),
            _ => return Some(format!("{two}{NEITHER_IS_KNOWN}")),
        };
        let has_nothing = self.without_base(begun).is_some();
        match self.majority(begun) {
            Majority::WithData => {
                return Some(format!(
                    "{two}, and that of server {of_none} has not begun: start all other servers. \
                     If this persists, stop server {of_none}, {MOVE_ASIDE}, and start the server \
                     again"
                ));
            }
            Majority::WithoutData if !has_nothing => {
                return Some(format!(
                    "{two}, and that of server {of_none} has not begun. Of the other one, {LOADS}"
                ));
            }
            Majority::WithoutData | Majority::No => {}
        }
        if self.begun().any(|(ensemble, _)| ensemble != begun) {
            return Some(format!("{two}{NEITHER_IS_KNOWN}"));
        }
        if let Some(text) = self.holds_up() {
            return Some(text);
        }
        let (silent, are) = self.silent();
        let lacks = match has_nothing {
            true => "no server that answers has any data of the other one",
            false => "no majority of the other one answers",
        };
        let two = format!("{two}; that of server {of_none} has not begun, and {lacks}");
        if !silent.is_empty() {
            return Some(format!(
                "{two}: {silent} {are} not answer{}. Move no other data away",
                started(&silent)
            ));
        }
        let all: Vec<u8> = self.present().map(|its| its.0).collect();
        let each = if let [_, _] = all.as_slice() { "both" } else { "each" };
        let unmounted = self.unmounted();
        let all = in_words(&all);
        Some(format!(
            "{two}: start the servers of that other ensemble with the data that they \
             had{unmounted}. If that data is lost for good, stop {all}, run `ferrokeeper data \
             leave` on the dataDir of {each}, and only then start them again: the newest data is \
             then used"
        ))
    }

    /// Who of the voters has not answered, in words, with their verb.
    fn silent(&self) -> (String, &'static str) {
        silent(self.own, self.voters, self.others)
    }

    /// The same, in words.
    fn taken_out(&self) -> String {
        let removed = self.removed();
        let were = if let [_] = removed.as_slice() { "was" } else { "were" };
        format!("{} {were} removed from an ensemble", in_words(&removed))
    }

    /// A sentence to end with about those that are blank.
    fn unmounted(&self) -> String {
        unmounted(&self.blank())
    }

    /// What has the other voters that are blank say that they hold nothing, where somebody has
    /// data: no marker, for when that server is silent for a moment, a majority with the marker
    /// begins without it.
    fn ends_with_all(&self) -> String {
        let blank = self.blank();
        let (each, them) = match blank.as_slice() {
            [] => return String::new(),
            [_] => ("its configuration", "it"),
            _ => ("the configuration of each", "them"),
        };
        format!(
            ". If nothing was ever there, set db.autocreate=true in {each} ({}), and start {them} \
             again: all voters are waited for then",
            in_words(&blank)
        )
    }

    /// Which voters have not said what they hold, and why.
    fn missing(&self) -> String {
        let blank = blank(self.voters, self.others);
        let blank = (!blank.is_empty())
            .then(|| format!("{} may have a disk that is not mounted", in_words(&blank)));
        let (silent, are) = self.silent();
        let silent = (!silent.is_empty()).then(|| format!("{silent} {are} not answer"));
        [silent, blank].into_iter().flatten().collect::<Vec<_>>().join(", and ")
    }

    /// For an operator, if members were founded with a list on which this server does not vote.
    fn is_not_listed(&self) -> Option<String> {
        let lacks_own = |(_, _, of): &(u8, u64, OfLine)| {
            !of.voters.has(self.own) && of.voters != Servers::default()
        };
        let lacking = || self.members().filter(lacks_own);
        let asks = |server: u8| match self.others.get(&server) {
            Some(Standing::Member { asks, .. }) => !asks.is_empty(),
            _ => false,
        };
        // As a rule its founder still asks somebody.
        let founder = lacking().find(|its| asks(its.0)).or_else(|| lacking().next());
        let (server, ..) = founder.filter(|_| self.voters.contains(&self.own))?;
        Some(format!(
            "server {server} belongs to an ensemble that has not begun, and that was founded with \
             a list in which this server is not a voter: correct the list that is wrong, and start \
             all other servers. If that list was the wrong one, stop server {server}, run \
             `ferrokeeper data leave` on its dataDir, and start it again: no data is lost"
        ))
    }

    /// Beside one that belongs to an ensemble that has not begun.
    fn lacks_beginning(&self, server: u8) -> String {
        let is_founder =
            |its: &Standing| matches!(its, Standing::Member { asks, .. } if !asks.is_empty());
        // What it holds may be all that is left of what was acknowledged before.
        let leave = |server: u8| {
            let then = match self.members().any(|its| its.0 == server && its.2.held) {
                true => "what it held before is then used again",
                false => "it held nothing before",
            };
            format!(
                "stop server {server}, run `ferrokeeper data leave` on its dataDir, and start it \
                 again: {then}"
            )
        };
        let have_held = self.members().any(|its| its.2.held);
        let empty = if have_held { String::new() } else { answer_empty(&self.empty()) };
        // Who asks nobody may be one that has accepted, or a founder whom all have answered.
        match self.others.iter().find(|(_, its)| is_founder(its)) {
            Some((founder, _)) => format!(
                "server {founder} has founded an ensemble that has not begun, and does not ask \
                 this server: either it does not list this server, or this server has refused to \
                 join, as FK0446 in the log of this server says. First, start all other \
                 servers{empty}. If this persists, {}",
                leave(*founder)
            ),
            // What there is to lose or to have is somebody else's.
            None if !have_held => format!(
                "server {server} belongs to an ensemble that has not begun, and held nothing \
                 before: start all other servers{empty}. The log of server {server} says which \
                 servers it waits for, and what ends the wait"
            ),
            None => format!(
                "server {server} belongs to an ensemble that has not begun: start all other \
                 servers. If this persists, and its log does not say what it waits for and what \
                 ends the wait, {}",
                leave(server)
            ),
        }
    }

    /// Beside one that belongs to an ensemble of which this server gets no seat, or wants none.
    fn lacks_seat(&self, server: u8, of: (u64, OfLine)) -> String {
        // Who says later what it has may be one of them.
        if let Some(text) = self.holds_up() {
            return text;
        }
        let has = match self.may_go_aside() {
            true => "no leader of that ensemble admits this server",
            false => "this server holds data that does not belong to that ensemble",
        };
        // It serves clients, or is about to: none of its servers is to leave it.
        let end = match (self.majority(of.0), self.may_go_aside()) {
            (Majority::WithData | Majority::WithoutData, true) => {
                ". A majority of that ensemble answers: if this persists, check that \
                its servers can reach each other, and that no other process runs with the `myid` \
                of this server"
                    .to_owned()
            }
            (Majority::WithData, false) => ". A majority of that ensemble answers, and continues \
                without that data: this server ends after initLimit, and its log then says what to \
                do"
            .to_owned(),
            (Majority::WithoutData, false) => format!(". Of that ensemble, {LOADS}"),
            (Majority::No, _) => format!(
                ": start the other servers of that ensemble{}{}",
                self.without_vote(of.0),
                self.ends_without_others(of)
            ),
        };
        format!("server {server} belongs to an ensemble, and {has}{end}")
    }

    /// Beside a majority of the ensemble that it left, which is not known to have all that it
    /// holds.
    #[must_use]
    pub fn has_more(&self) -> String {
        let zxid = self.holding.base.zxid;
        let end = match self.is_complete() {
            true => "this server ends after initLimit, and its log then says what to do".to_owned(),
            false => format!("{} and may have it: start the silent servers", self.missing()),
        };
        format!(
            "a majority continues the ensemble that this server left, and is not known to have \
             everything that ZooKeeper wrote on top of this server's data, up to zxid {zxid:#x}: \
             {end}"
        )
    }

    /// A sentence to end with about the members of an ensemble that do not vote.
    fn without_vote(&self, of: u64) -> String {
        let lacking = self.members().filter(|its| its.1 == of && its.2.lacks_vote);
        without_vote(lacking.map(|its| its.0).filter(|it| self.voters.contains(it)))
    }

    /// What ends a wait beside members of an ensemble of which no majority answers.
    fn ends_without_others(&self, of: (u64, OfLine)) -> String {
        ends_without_others(&self.answers(of, Majority::No))
    }

    /// What was said of an ensemble, by this server, too.
    fn answers(&self, of: (u64, OfLine), majority: Majority) -> Answers {
        let own = (self.own, Standing::Before(self.holding));
        Answers::of(of, majority, self.others.iter().chain([(&own.0, &own.1)]))
    }

    fn founder(&self) -> String {
        if let Some(text) = self.is_of_other_list() {
            return text;
        }
        match self.named() {
            Some(server) if server != self.own => {
                format!(
                    "server {server}, which will found the ensemble, has not done so yet: see its \
                     log"
                )
            }
            _ => {
                "no majority of the servers names this server as the founder: check that they all \
                can reach each other"
                    .to_owned()
            }
        }
    }

    /// For an operator, if another server has another list, or hears who is silent here: nothing is
    /// given up for those then.
    fn is_of_other_lists(&self, (silent, are): (&str, &str)) -> Option<String> {
        self.is_of_other_list().or_else(|| {
            let (_, server, _) = self.heard().find(|its| self.has_heard_all(its))?;
            Some(format!(
                "{silent} {are} not answer this server, but server {server} has heard from every \
                 voter in its own list: check that the two lists are the same, and that this \
                 server can reach {silent}"
            ))
        })
    }

    /// Whether another empty server names a founder without the marker, which it does where all of
    /// its list have answered.
    fn has_heard_all(&self, (_, server, holding): &(bool, u8, Holding)) -> bool {
        let is_named = |its: &(bool, u8, Holding)| Some(its.1) == holding.names;
        let named = self.heard().find(is_named);
        *server != self.own && named.is_some_and(|its| !its.0 && its.2.begins == Begins::WithAll)
    }

    /// For an operator, if another server is to be the founder that this one's list does not have.
    fn is_of_other_list(&self) -> Option<String> {
        let mut heard = self.heard().filter(|its| its.1 != self.own);
        let is_listed = |server: &u8| self.voters.contains(server);
        heard.find_map(|(_, server, holding)| {
            let named = holding.names.filter(|named| !is_listed(named))?;
            Some(format!(
                "server {server} names server {named} as the founder, which is not a voter in the \
                 list of this server: correct the list that is wrong"
            ))
        })
    }
}
