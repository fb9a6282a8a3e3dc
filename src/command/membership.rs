//! A change of the members of an ensemble as names and values, the same for people and for scripts.

use serde_json::{Map, Value, json};

use super::words::Hex;
use crate::ensemble::{MemberChange, server_of};
use crate::storage::{EntryKind, LogRecord};

/// What the log calls it.
pub(super) const NAME: &str = "changeMembers";

/// The change that a record of a member's log is, if it is one.
pub(super) fn change_of(record: &LogRecord<'_>) -> Option<MemberChange> {
    let is_one = record.kind == Some(EntryKind::Membership);
    is_one.then(|| MemberChange::of(record.txn)).flatten()
}

/// What becomes of whom.
fn what(change: MemberChange) -> (&'static str, &'static str, Value) {
    let member = |id: u64| json!(Hex::of_member(id));
    match change {
        MemberChange::Seat(asks) => ("seat", "server", server_of(asks).into()),
        MemberChange::Follow(id) => ("follow", "member", member(id)),
        MemberChange::Vote(id) => ("vote", "member", member(id)),
        MemberChange::Remove(id) => ("remove", "member", member(id)),
        MemberChange::Demote(id) => ("demote", "member", member(id)),
    }
}

/// The member that the directory was which asks for a seat.
fn was(change: MemberChange) -> Option<Hex> {
    match change {
        MemberChange::Seat(asks) if asks > u64::from(u8::MAX) => Some(Hex::of_member(asks)),
        _ => None,
    }
}

/// What the change says, in a few words.
pub(super) fn for_people(change: MemberChange) -> String {
    let (what, whose, of) = what(change);
    let of = of.as_str().map_or_else(|| of.to_string(), str::to_owned);
    let was = was(change).map(|was| format!(" was={was}")).unwrap_or_default();
    format!("{what} {whose}={of}{was}")
}

/// The same as members of an object.
pub(super) fn for_scripts(change: MemberChange) -> Map<String, Value> {
    let (what, whose, of) = what(change);
    let mut map = Map::new();
    map.insert("op".to_owned(), NAME.into());
    map.insert("change".to_owned(), what.into());
    map.insert(whose.to_owned(), of);
    if let Some(was) = was(change) {
        map.insert("was".to_owned(), json!(was));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_says_what_becomes_of_whom() {
        for (change, people, scripts) in [
            (MemberChange::Seat(3), "seat server=3", json!({ "change": "seat", "server": 3 })),
            (
                MemberChange::Seat(0x602),
                "seat server=2 was=0x602",
                json!({ "change": "seat", "server": 2, "was": "0x602" }),
            ),
            (
                MemberChange::Follow(0x201),
                "follow member=0x201",
                json!({ "change": "follow", "member": "0x201" }),
            ),
            (
                MemberChange::Vote(0x602),
                "vote member=0x602",
                json!({ "change": "vote", "member": "0x602" }),
            ),
            (
                MemberChange::Remove(0x101),
                "remove member=0x101",
                json!({ "change": "remove", "member": "0x101" }),
            ),
        ] {
            assert_eq!(for_people(change), people);
            let mut shown = for_scripts(change);
            assert_eq!(shown.remove("op"), Some(NAME.into()));
            assert_eq!(Value::Object(shown), scripts);
        }
    }
}
