//! Sentences, and parts of them, that several of what operators are told have in common.

use std::collections::BTreeMap;

use super::answers::{Advice, Answers, Extent};
use crate::ensemble::standing::{Busy, Standing};

/// For an operator, after that servers belong to two ensembles.
pub(super) const NEITHER_IS_KNOWN: &str = ": start all other servers, and check that their \
    lists name the right ones. Move no data away before it is known which ensemble served clients";

/// For an operator, if voters are busy. After them, who does not answer.
pub(super) fn holds_up(
    busy: impl Iterator<Item = (u8, Busy)>,
    (silent, are): (String, &str),
) -> Option<String> {
    let busy = busy.map(|(server, busy)| match busy {
        Busy::Reads => format!("server {server} still reads its data directory"),
        Busy::Joins => format!("server {server} is joining or founding an ensemble"),
    });
    let busy: Vec<String> = busy.collect();
    let silent = match silent.as_str() {
        "" => String::new(),
        _ => format!(". In addition, {silent} {are} not answer: start the silent servers"),
    };
    (!busy.is_empty()).then(|| {
        let logs = match busy.as_slice() {
            [_] => "The log of that server shows",
            _ => "The logs of these servers show",
        };
        format!(
            "{}; this server waits as long as that takes. {logs} the progress. If a server hangs, \
             stop it{silent}",
            busy.join(", ")
        )
    })
}

/// For an operator, a sentence after who is silent; nothing if nobody is.
pub(super) fn started(silent: &str) -> String {
    let whose = match silent {
        "" => return String::new(),
        one if one.starts_with("server ") => "its data directory",
        _ => "the data directory of one",
    };
    format!(
        ". Start {silent}. If {whose} is lost, start that server with an empty directory, unless \
         its own log says otherwise"
    )
}

/// For an operator, where a minority went on as members and another one with ZooKeeper: what to do
/// first.
pub(super) fn majority_wins(silent: &str) -> String {
    match silent {
        "" => "The data held by a majority wins, and neither version has a majority".to_owned(),
        _ => format!("The data held by a majority wins{}", started(silent)),
    }
}

/// For an operator, after what answers: members that do not vote.
pub(super) fn without_vote(servers: impl Iterator<Item = u8>) -> String {
    let servers: Vec<u8> = servers.collect();
    match servers.as_slice() {
        [] => String::new(),
        [_] => format!(
            ". {} does not vote: its directory was emptied, or it has just joined",
            capital(&servers)
        ),
        _ => format!(
            ". {} do not vote: their directories were emptied, or they have just joined",
            capital(&servers)
        ),
    }
}

/// The same at the beginning of a sentence.
pub(super) fn capital(servers: &[u8]) -> String {
    in_words(servers).replacen('s', "S", 1)
}

/// The term of a record.
pub(super) fn term_of(zxid: i64) -> u64 {
    u64::try_from(zxid >> 32).unwrap_or(0)
}

/// For an operator, after that a majority of an ensemble answers, or of the other one.
pub(super) const LOADS: &str = "a majority answers, but too few of its servers have its data yet: \
     wait until they have, and move no data away";

/// For an operator, beside members of an ensemble of which no majority answers: what ends that
/// where all others are lost. Emptied is only who is silent or has nothing that counts.
pub(super) fn ends_without_others(said: &Answers) -> String {
    let beside = match said.advice() {
        Advice::GiveUp | Advice::Wait => return String::new(),
        Advice::FindOut(server, another) => {
            return format!(
                ". Server {server} belongs to another ensemble, {another:016x}{NEITHER_IS_KNOWN}"
            );
        }
        Advice::Decide(its, other) => {
            return format!(
                "{}. If the data of all others is lost for good, find out first which data is \
                 right: the greater epoch does not decide it",
                beside_other_data(its, other, other.server)
            );
        }
        Advice::LeaveBeside(its, other) => beside_other_data(its, other, its.server),
        Advice::Leave => String::new(),
    };
    let mut kept = said.kept.clone();
    kept.extend(said.other.iter().map(|its| its.server));
    kept.sort_unstable();
    let but = match kept.as_slice() {
        [] => String::new(),
        kept => format!(" but {}", in_words(kept)),
    };
    let has_one = said.its.len() + said.other.len() == 1;
    let newest = if has_one { "what it has" } else { "the newest data of these" };
    format!(
        "{beside}. If the data of all others is lost for good, {}. Start all others{but} with \
         empty directories, and keep what was in their old ones: {newest} is then used",
        leave_together(&said.belong)
    )
}

/// For an operator, beside an ensemble of which no majority answers: who has data that does not
/// belong to it, and who the newest of all.
fn beside_other_data(its: Extent, other: Extent, newest: u8) -> String {
    let how_far = match its.zxid {
        0 => ", which has not said how far that goes".to_owned(),
        zxid => format!(" up to zxid {zxid:#x} of epoch {}", its.epoch),
    };
    format!(
        ". Server {} holds data up to zxid {:#x} of epoch {} that does not belong to that \
         ensemble, and server {} holds the ensemble's data{how_far}: as far as servers have said, \
         the newest data is that of server {newest}. Move no data away as long as no majority of \
         that ensemble answers",
        other.server, other.zxid, other.epoch, its.server
    )
}

/// For an operator: what these servers are to do.
pub(super) fn leave_together(servers: &[u8]) -> String {
    let (place, them) = match servers.len() {
        1 => ("its dataDir", "it"),
        2 => ("the dataDir of both", "them"),
        _ => ("the dataDir of each", "them"),
    };
    let words = in_words(servers);
    format!("stop {words}, run `ferrokeeper data leave` on {place}, and start {them} again")
}

/// The same for an operator, after to what they belong: what they held before, if they `held`
/// anything, lies in their directories. If not, `empty` are those who answer that they are empty,
/// of which one may have a disk that is not mounted, and somebody may have data that belongs to
/// none.
pub(super) fn ends_without_base(
    members: &[u8],
    silent: &str,
    unmounted: &str,
    held: bool,
    (empty, has_data): &(Vec<u8>, bool),
) -> String {
    let (it, holds, has) = match members {
        [_] => ("it", "holds", "what it"),
        _ => ("them", "hold", "what they"),
    };
    if !held {
        let start = match silent {
            "" => String::new(),
            _ => format!(". Start {silent} with the data that was there"),
        };
        let (words, leave) = (in_words(members), leave_together(members));
        let end = match has_data {
            true => format!("{leave}: the newest data of the others is then used"),
            false => format!("to begin with an empty tree, {leave}"),
        };
        return format!(
            "{words} never received the data that the ensemble was founded on, and {holds} no \
             other data{start}{}{unmounted}. Only if the directories of all other members are lost \
             for good, and no folder before-... next to theirs holds what is needed, {end}",
            answer_empty(empty)
        );
    }
    format!(
        "{} never received the data that the ensemble was founded on, and no server that could \
         give it to {it} answers{}{unmounted}. If the directories of all other members are lost \
         for good, {}: {has} held before joining that ensemble is then used again",
        in_words(members),
        started(silent),
        leave_together(members)
    )
}

/// Who of the voters has not answered, in words, with their verb.
pub(super) fn silent(
    own: u8,
    voters: &[u8],
    others: &BTreeMap<u8, Standing>,
) -> (String, &'static str) {
    let is_silent = |server: &u8| *server != own && !others.contains_key(server);
    let silent: Vec<u8> = voters.iter().copied().filter(is_silent).collect();
    (in_words(&silent), if let [_] = silent.as_slice() { "does" } else { "do" })
}

/// A sentence to end with about servers that are empty, where one should have data.
pub(super) fn answer_empty(empty: &[u8]) -> String {
    let words = in_words(empty);
    match empty.len() {
        0 => String::new(),
        1 => {
            format!(". But {words} answers with an empty directory: check that its disk is mounted")
        }
        _ => format!(
            ". But {words} answer with empty directories: check that their disks are mounted"
        ),
    }
}

/// A sentence to end with about servers that are blank.
pub(super) fn unmounted(blank: &[u8]) -> String {
    let words = in_words(blank);
    match blank.len() {
        0 => String::new(),
        1 => format!(
            ". The directory of {words} is empty, with db.autocreate=false: check that its disk is \
             mounted"
        ),
        _ => format!(
            ". The directories of {words} are empty, with db.autocreate=false: check that their \
             disks are mounted"
        ),
    }
}

/// Servers as an operator calls them; nothing for none.
pub(super) fn in_words(servers: &[u8]) -> String {
    let servers: Vec<String> = servers.iter().map(u8::to_string).collect();
    match servers.as_slice() {
        [] => String::new(),
        [one] => format!("server {one}"),
        [first @ .., last] => format!("servers {} and {last}", first.join(", ")),
    }
}
