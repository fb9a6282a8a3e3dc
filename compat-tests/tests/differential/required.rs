//! Which answers and events the scripts must have brought about: all that a server of its own, no
//! part of an ensemble, gives to a client.

use crate::coverage::{EVENTS, KINDS};

/// Operation and errors, 0 among them; `multi/create` is a create in a multi.
const ANSWERS: [(&str, &[i32]); 42] = [
    ("create", &[0, -5, -8, -101, -102, -108, -110, -114, -125]),
    ("create2", &[0, -5, -8, -101, -102, -108, -110, -114, -125]),
    ("createContainer", &[0, -5, -8, -101, -102, -108, -110, -114, -125]),
    ("createTTL", &[0, -5, -6, -8, -101, -102, -108, -110, -114, -125]),
    ("delete", &[0, -5, -8, -101, -102, -103, -111]),
    ("exists", &[0, -5, -8, -101, -102]),
    ("getData", &[0, -5, -101, -102]),
    ("setData", &[0, -5, -8, -101, -102, -103, -125]),
    ("getACL", &[0, -5, -101, -102]),
    ("setACL", &[0, -5, -8, -101, -102, -103, -114]),
    ("getChildren", &[0, -5, -101, -102]),
    ("getChildren2", &[0, -5, -101, -102]),
    ("getAllChildrenNumber", &[0, -5, -101, -102]),
    ("getEphemerals", &[0, -5]),
    ("sync", &[0, -5]),
    ("ping", &[0]),
    ("whoAmI", &[0]),
    ("check", &[-6]),
    ("multi", &[0, -5, -6, -8, -101, -102, -103, -108, -110, -111, -114, -125]),
    ("multi/create", &[0, -2, -8, -101, -102, -108, -110, -114, -125]),
    ("multi/create2", &[0, -2, -8, -101, -102, -108, -110, -114, -125]),
    ("multi/createContainer", &[0, -2, -8, -101, -102, -108, -110, -114, -125]),
    ("multi/createTTL", &[0, -2, -6, -8, -101, -102, -108, -110, -114, -125]),
    ("multi/delete", &[0, -2, -8, -101, -102, -103, -111]),
    ("multi/setData", &[0, -2, -8, -101, -102, -103, -125]),
    ("multi/check", &[0, -2, -8, -101, -102, -103]),
    ("multiRead", &[0, -5]),
    ("multiRead/getData", &[0, -101, -102]),
    ("multiRead/getChildren", &[0, -101, -102]),
    ("reconfig", &[-5, -6, -123]),
    ("addWatch", &[0, -5]),
    ("checkWatches", &[0, -5, -121]),
    ("removeWatches", &[0, -5, -121]),
    ("setWatches", &[0, -5]),
    ("setWatches2", &[0, -5]),
    ("addauth", &[0, -115]),
    ("sasl", &[0]),
    ("closeSession", &[0]),
    // Codes that nobody knows.
    ("op -1", &[-6]),
    ("op 0", &[-6]),
    ("op 10", &[-6]),
    ("op 99", &[-6]),
];

/// Kind of watch and types of its events, as the coverage names them.
const WATCHES: [(&str, &[&str]); 6] = [
    ("child", &["deleted", "children changed"]),
    ("data", &["deleted", "data changed"]),
    ("exist", &["created"]),
    ("persistent", &["created", "deleted", "data changed", "children changed"]),
    ("recursive", &["created", "deleted", "data changed"]),
    ("caught up", &["created", "deleted", "data changed", "children changed"]),
];

/// What no script brings about, and why.
pub(crate) const NEVER: [(&str, &str); 16] = [
    ("-1 and -100", "name ranges of codes"),
    ("-2 outside of a multi", "says only that another part has failed"),
    ("-3", "is never sent"),
    ("-4, -7, -113, -116, -117, -122", "are made by clients"),
    ("-12 and -112", "depend on whether a request overtakes the end of its own session"),
    ("-13, -14; -8 and -103 of reconfig", "come from an ensemble"),
    ("-118", "comes from an ensemble, as the end of the connection"),
    ("-119", "comes from a read-only server, which is one of an ensemble"),
    ("-120", "comes with local sessions: an ensemble's"),
    ("-124", "needs a setting under which nothing else succeeds: settings.rs"),
    ("-127", "depends on how long a request has waited"),
    ("-125 of several writes at a time", "depends on how many of them have been applied"),
    ("-5 of addauth", "has no reply: handshake, an auth packet that ends too early"),
    ("-5 of ping, whoAmI and closeSession", "they have no body"),
    ("deleteContainer and createSession", "are refused on purpose: meant.rs, handshake"),
    ("data watch created, exist watch deleted or data changed", "the first event ends the watch"),
];

/// In a million operations of the fixed seed each of them occurs this often.
const LEAST: usize = 100;
const OPERATIONS: usize = 1_000_000;

/// How often each has to occur in `operations`. Fewer of them may have fewer of the rare ones: a
/// tenth of their share is enough, and what is too short for that proves nothing of the kind. Fresh
/// seeds need not reach anything: what they miss would be missed by chance.
pub(crate) fn least(operations: usize) -> usize {
    if operations >= OPERATIONS { LEAST } else { operations * LEAST / OPERATIONS / 10 }
}

/// Operation and error.
pub(crate) fn answers() -> impl Iterator<Item = (&'static str, i32)> {
    ANSWERS.iter().flat_map(|(operation, errs)| errs.iter().map(move |err| (*operation, *err)))
}

/// Indices of kind of watch and type of event.
pub(crate) fn events() -> impl Iterator<Item = (usize, usize)> {
    let index = |names: &[&str], name: &str| {
        names.iter().position(|known| *known == name).expect("one of the coverage's names")
    };
    WATCHES.iter().flat_map(move |(kind, events)| {
        let kind = index(&KINDS, kind);
        events.iter().map(move |event| (kind, index(&EVENTS, event)))
    })
}
