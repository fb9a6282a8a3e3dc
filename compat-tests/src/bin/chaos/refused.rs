//! What clients were refused: that there is no such znode, or that it has another version.

use std::collections::{BTreeMap, HashMap};

use crate::checker::{Last, is_register};
use crate::history::{Entry, Nanos};

/// Kazoo's name of an error, or Curator's.
fn says(entry: &Entry, error: &str) -> bool {
    entry.end.trim_end_matches("Error").eq_ignore_ascii_case(error)
}

/// Registers are made before the clients begin, and nobody deletes one. A server may not know of
/// one for so long (`age`, where it has a bound) as a read may be old; a session that has seen it
/// and a sync that was asked after that know of it at once.
pub(crate) fn nobody_misses_a_register(
    entries: &[Entry],
    age: Option<Nanos>,
    found: &mut Vec<String>,
) {
    let registers = || entries.iter().filter(|entry| is_register(&entry.path));
    let mut there: HashMap<&str, Nanos> = HashMap::new();
    let mut seen: HashMap<(&str, &str), Nanos> = HashMap::new();
    for entry in registers().filter(|entry| entry.is_ok()) {
        let first = there.entry(&entry.path).or_insert(entry.to);
        *first = entry.to.min(*first);
        if let Some(session) = &entry.session {
            let first = seen.entry((session, &entry.path)).or_insert(entry.to);
            *first = entry.to.min(*first);
        }
    }
    for entry in registers().filter(|entry| says(entry, "NoNode")) {
        let Some(there) = there.get(entry.path.as_str()) else { continue };
        let has_seen = entry.session.as_ref().and_then(|its| seen.get(&(its, &entry.path)));
        let is_old = age.is_some_and(|age| entry.from > there.saturating_add(age));
        let has_synced = entry.synced.is_some_and(|asked| asked > *there);
        // A write is decided by whoever leads.
        let is_write = entry.op == "set" && entry.from > *there;
        if is_old || has_synced || is_write || has_seen.is_some_and(|seen| entry.from > *seen) {
            found.push(format!("a znode that is there was missed: {entry:?}"));
        }
    }
}

/// A set of a version makes the next one, and is refused only where somebody else has made it.
pub(crate) fn versions_are_compared(entries: &[Entry], last: &Last, found: &mut Vec<String>) {
    let sets = || entries.iter().filter(|entry| entry.op == "set" && is_register(&entry.path));
    let mut made: BTreeMap<(&str, i32), &Entry> = BTreeMap::new();
    for entry in sets().filter(|entry| entry.is_ok()) {
        if let Some(version) = entry.version {
            made.insert((&entry.path, version), entry);
        }
    }
    for entry in sets() {
        let Some(want) = entry.want.filter(|want| *want >= 0) else { continue };
        let next = want.saturating_add(1);
        if entry.is_ok() && entry.version.is_some_and(|version| version != next) {
            found.push(format!("a set of version {want} made another one: {entry:?}"));
        }
        if says(entry, "BadVersion") {
            let end = last.registers.get(&entry.path).map(|(_, version)| *version);
            let maker = made.get(&(entry.path.as_str(), next));
            let too_late = maker.is_some_and(|maker| maker.from > entry.to);
            if end.is_some_and(|end| end < next) || too_late {
                found.push(format!("version {want} was refused and was the last: {entry:?}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(lines: &[&str]) -> Vec<Entry> {
        let whole = |line: &&str| {
            let line = line.replace('\'', "\"");
            let line = format!("{{\"c\":\"a\",\"path\":\"/chaos/r/1\",{line}}}");
            Entry::parse(&line, 8).expect("an entry")
        };
        lines.iter().map(whole).collect()
    }

    fn missed(line: &str) -> usize {
        let there = "'s':'0x1','op':'get','t0':10,'t1':20,'end':'ok','version':1";
        let mut found = Vec::new();
        nobody_misses_a_register(&entries(&[there, line]), Some(100), &mut found);
        found.len()
    }

    #[test]
    fn a_register_that_is_there_is_missed_by_nobody() {
        for end in ["NoNodeError", "NONODE"] {
            let get =
                |more: &str| missed(&format!("'op':'get','t1':200,'end':'{end}','s':'0x2',{more}"));
            assert_eq!(get("'t0':15"), 0);
            assert_eq!(get("'t0':120"), 0, "it may be as old as that");
            assert_eq!(get("'t0':121"), 1);
            assert_eq!(get("'t0':40,'synced':21"), 1);
            assert_eq!(get("'t0':40,'synced':19"), 0);
        }
        assert_eq!(missed("'op':'get','t0':30,'t1':40,'end':'NONODE','s':'0x1'"), 1);
        assert_eq!(missed("'op':'set','t0':30,'t1':40,'end':'NoNodeError','s':'0x2'"), 1);
        assert_eq!(missed("'op':'get','t0':500,'t1':510,'end':'unknown','s':'0x2'"), 0);
    }

    fn compared(line: &str, end: i32) -> usize {
        let other = "'op':'set','t0':100,'t1':110,'end':'ok','version':3,'want':2";
        let registers = BTreeMap::from([("/chaos/r/1".to_owned(), (String::new(), end))]);
        let last = Last { registers, ..Last::default() };
        let mut found = Vec::new();
        versions_are_compared(&entries(&[other, line]), &last, &mut found);
        found.len()
    }

    #[test]
    fn a_server_that_compares_no_versions_is_found() {
        assert_eq!(compared("'op':'set','t0':1,'t1':2,'end':'ok','version':2,'want':1", 3), 0);
        assert_eq!(compared("'op':'set','t0':1,'t1':2,'end':'ok','version':2,'want':-1", 3), 0);
        assert_eq!(compared("'op':'set','t0':1,'t1':2,'end':'ok','version':2,'want':0", 3), 1);
    }

    #[test]
    fn a_server_that_refuses_the_right_version_is_found() {
        for end in ["BadVersionError", "BADVERSION"] {
            let set = |want: i32, to: u64| {
                format!("'op':'set','t0':90,'t1':{to},'end':'{end}','want':{want}")
            };
            assert_eq!(compared(&set(2, 105), 3), 0);
            assert_eq!(compared(&set(2, 99), 3), 1, "it was made later");
            assert_eq!(compared(&set(3, 120), 3), 1, "nobody made another one");
            assert_eq!(compared(&set(1, 120), 3), 0, "whoever made it does not know");
        }
    }
}
