//! Sentences, and parts of them, that several of what operators are told have in common.

use std::collections::BTreeMap;

use crate::ensemble::standing::{Base, Busy, Holding, Left, OfLine, Standing};
use crate::storage::MOVE_ASIDE;

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

/// For an operator, beside members of an ensemble that has no majority: what ends that where all
/// others are lost. `all` are those that answer, and this server. Emptied is only who is silent or
/// has nothing that counts.
pub(super) fn ends_without_others<'a>(
    (ensemble, of): (u64, OfLine),
    all: impl Iterator<Item = (&'a u8, &'a Standing)>,
) -> String {
    let has_left = |left: &Left| {
        left.of.line == of.line && !of.is_later_than(&left.of) || left.ensemble == ensemble
    };
    // A majority founded without it.
    let is_of_before = |left: &Left| of.is_later_than(&left.of);
    let (mut belonged, mut newest, mut kept) = (Vec::new(), (0, 0, 0), Vec::new());
    let (mut begun, mut counted, mut foreign, mut another) = (false, 0, Vec::new(), None);
    for (server, its) in all {
        match its {
            Standing::Member { ensemble: its, has_begun, of, .. } if *its == ensemble => {
                begun |= has_begun;
                belonged.push(*server);
                newest = newest.max((of.last >> 32, of.last, *server));
            }
            Standing::Before(Holding { left: Some(left), base, .. }) if has_left(left) => {
                belonged.push(*server);
                newest = newest.max((base.epoch, base.zxid, *server));
            }
            Standing::Before(Holding { left: Some(left), .. }) if is_of_before(left) => {}
            Standing::Before(its) if its.base.is_empty() => {}
            Standing::Before(its) if its.left.is_none() && its.detached == Some(ensemble) => {
                counted += 1;
                kept.push(*server);
            }
            Standing::Before(its) => foreign.push((*server, its.base)),
            Standing::Member { ensemble: its, of: other, .. } if !of.is_later_than(other) => {
                another = another.or(Some((*server, *its)));
            }
            Standing::Member { .. } | Standing::Removed { .. } | Standing::Busy(_) => {
                kept.push(*server);
            }
        }
    }
    if let Some((server, another)) = another {
        return format!(
            ". Server {server} belongs to another ensemble, {another:016x}{NEITHER_IS_KNOWN}"
        );
    }
    if begun && let Some((server, Base { epoch, zxid, .. })) = foreign.first() {
        let (epoch_there, zxid_there, member) = newest;
        return format!(
            ". Server {server} holds data up to zxid {zxid:#x} of epoch {epoch} that does not \
             belong to that ensemble, and server {member} holds the ensemble's data up to zxid \
             {zxid_there:#x} of epoch {epoch_there}. If the ensemble has what is needed, stop \
             server {server}, {MOVE_ASIDE}, and start the server again; otherwise find out first \
             which data is right"
        );
    }
    // What was founded on less acknowledged nothing: then all data counts.
    counted += foreign.len();
    kept.extend(foreign.iter().map(|its| its.0));
    belonged.sort_unstable();
    kept.sort_unstable();
    let but = match kept.as_slice() {
        [] => String::new(),
        kept => format!(" but {}", in_words(kept)),
    };
    let has_one = belonged.len() + counted == 1;
    let newest = if has_one { "what it has" } else { "the newest data of these" };
    format!(
        ". If the data of all others is lost for good, {}. Start all others{but} with empty \
         directories, and keep what was in their old ones: {newest} is then used",
        leave_together(&belonged)
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
