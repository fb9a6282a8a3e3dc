//! The first name of a path, by which ZooKeeper counts what is read and written (`PathUtils`).

use std::sync::Arc;

use jute::txn::Txn;

use super::series::{KeyPlace, KeyedMeasure, Series};
use crate::planted;

/// What ZooKeeper counts a znode's Stat as.
const STAT_LEN: usize = 68;

/// Bytes of a name: each line of the figures has it. Of a longer one its beginning counts, so
/// nothing goes uncounted.
const NAME_MAX: usize = 256;

/// The namespace of a path; the root has none.
pub(in crate::server) fn of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix('/')?;
    // What is longer is not looked through for its end.
    let rest = rest.get(..rest.floor_char_boundary(NAME_MAX))?;
    let name = rest.split('/').next()?;
    (!name.is_empty()).then_some(name)
}

/// Counts what a transaction writes: each znode that it creates, changes or deletes.
pub(in crate::server) fn count_written(series: &Series, txn: &Txn<'_>) {
    let written = |path: &str, bytes: usize| {
        if let Some(name) = of(path) {
            let value = (path.len() + bytes) as u64;
            series.record_of_key(KeyedMeasure::NamespaceWritten, name, value);
        }
    };
    let len =
        |data: &Option<_>| data.as_ref().map_or(0, |data: &std::borrow::Cow<'_, [u8]>| data.len());
    match txn {
        Txn::Create(body) | Txn::Create2(body) => written(&body.path, len(&body.data)),
        Txn::CreateContainer(body) => written(&body.path, len(&body.data)),
        Txn::CreateTtl(body) => written(&body.path, len(&body.data)),
        Txn::SetData(body) | Txn::Reconfig(body) => written(&body.path, len(&body.data)),
        Txn::Delete(body) | Txn::DeleteContainer(body) => written(&body.path, 0),
        Txn::CloseSession(body) => body.paths_to_delete.iter().for_each(|path| written(path, 0)),
        Txn::Multi(parts) => parts.iter().for_each(|part| count_written(series, part)),
        Txn::CreateSession(_) | Txn::SetAcl(_) | Txn::Check(_) | Txn::Error(_) => {}
    }
}

/// Counts the reads of a connection. Those of one kind after one another are counted at once:
/// clients repeat themselves.
#[derive(Default)]
pub(in crate::server) struct Reads {
    /// A path that is the last one's namespace and nothing more; empty before the first one.
    last: String,
    /// What that namespace is counted with.
    its: Option<Arc<KeyPlace>>,
    /// The first bytes of paths below a short one, and which of them count: one look for most
    /// reads. None count where there is no such path.
    start: u64,
    mask: u64,
    value: u64,
    times: u64,
}

impl Reads {
    /// A znode was read, with so many bytes beside its Stat.
    pub(in crate::server) fn count(&mut self, series: &Series, path: &str, bytes: usize) {
        if planted::is("reads-not-by-namespace") {
            return;
        }
        let value = (path.len() + bytes + STAT_LEN) as u64;
        let start = path.as_bytes().first_chunk().map_or(0, |start| u64::from_le_bytes(*start));
        if start & self.mask == self.start && value == self.value && self.mask != 0 {
            self.times += 1;
        } else {
            self.count_other(series, path, value);
        }
    }

    #[inline(never)]
    fn count_other(&mut self, series: &Series, path: &str, value: u64) {
        let is_last = self.is_last(path.as_bytes());
        if is_last && value == self.value {
            self.times += 1;
            return;
        }
        if !is_last {
            let Some(name) = of(path) else { return };
            self.flush();
            self.its = series.of_key(KeyedMeasure::NamespaceRead, name);
            if self.its.is_none() {
                // It may get a place with its next read.
                self.forget();
                return;
            }
            self.last.clear();
            self.last.extend(["/", name]);
            (self.start, self.mask) = start_of(name);
        } else {
            self.flush();
        }
        (self.value, self.times) = (value, 1);
    }

    /// Whether a path is of the last one's namespace.
    fn is_last(&self, path: &[u8]) -> bool {
        let last = self.last.as_bytes();
        let Some((start, rest)) = path.split_at_checked(last.len()) else { return false };
        !last.is_empty() && matches!(rest.first(), None | Some(b'/')) && start == last
    }

    /// Has everything counted that came so far.
    pub(in crate::server) fn flush(&mut self) {
        if self.times > 0
            && let Some(its) = &self.its
        {
            its.record(self.value, self.times);
            if its.is_given_up() {
                // Another namespace has its place: the next read seeks a new one.
                self.forget();
            }
        }
        self.times = 0;
    }

    /// The next read is of none that is known.
    fn forget(&mut self) {
        self.last.clear();
        self.mask = 0;
    }
}

/// The bytes that paths below a namespace begin with, and the mask over them, where they are few.
fn start_of(name: &str) -> (u64, u64) {
    let mut start = [0; size_of::<u64>()];
    let path = format!("/{name}/");
    let Some(place) = start.get_mut(..path.len()) else { return (0, 0) };
    place.copy_from_slice(path.as_bytes());
    let mask = u64::MAX >> (u64::BITS as usize - 8 * path.len());
    (u64::from_le_bytes(start), mask)
}

impl Drop for Reads {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use jute::txn::DeleteTxn;

    use super::*;
    use crate::server::figures::stats::Summary;

    #[test]
    fn a_namespace_is_the_first_name() {
        for (path, name) in [("/a", Some("a")), ("/a/b/c", Some("a")), ("/", None), ("", None)] {
            assert_eq!(of(path), name, "{path}");
        }
    }

    #[test]
    fn a_long_name_counts_by_its_beginning() {
        let series = Series::default();
        let mut reads = Reads::default();
        let start = "\u{e4}".repeat(NAME_MAX / 2 - 1);
        for end in ["a\u{e4}", "a\u{e4}b", "a\u{20ac}/c"] {
            let path = format!("/{start}{end}{}", "x".repeat(1 << 20));
            assert_eq!(of(&path), Some(format!("{start}a").as_str()));
            let delete = DeleteTxn { path: path.as_str().into() };
            count_written(&series, &Txn::Delete(delete));
            (0..2).for_each(|_| reads.count(&series, &path, 0));
        }
        let whole = "b".repeat(NAME_MAX);
        for path in [format!("/{whole}"), format!("/{whole}/c"), format!("/{whole}c")] {
            assert_eq!(of(&path), Some(whole.as_str()));
            (0..2).for_each(|_| reads.count(&series, &path, 0));
        }
        reads.flush();
        let counts = |measure| -> Vec<(usize, u64)> {
            let keys = series.keys(measure).into_iter();
            keys.map(|(key, its)| (key.len(), its.counted().count)).collect()
        };
        assert_eq!(counts(KeyedMeasure::NamespaceWritten), [(NAME_MAX - 1, 3)]);
        assert_eq!(counts(KeyedMeasure::NamespaceRead), [(NAME_MAX, 6), (NAME_MAX - 1, 6)]);
    }

    #[test]
    fn a_namespace_that_lost_its_place_is_counted_again() {
        let series = Series::default();
        let mut reads = Reads::default();
        for _ in 0..3 {
            reads.count(&series, "/a/b", 1);
            reads.flush();
            series.of_key(KeyedMeasure::NamespaceRead, "a").expect("a place").give_up();
            series.forget_keys();
        }
        reads.count(&series, "/a/b", 1);
        reads.flush();
        reads.count(&series, "/a/b", 1);
        reads.flush();
        let counts = series.keys(KeyedMeasure::NamespaceRead);
        assert_eq!(counts.iter().map(|(_, its)| its.counted().count).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn reads_are_counted_by_namespace_however_they_come() {
        let series = Series::default();
        let mut reads = Reads::default();
        for (path, bytes) in [
            ("/", 9),
            ("/a", 0),
            ("/a", 0),
            ("/a", 5),
            ("/b/c", 7),
            ("/bc", 1),
            ("/short/name", 3),
            ("/short/name", 3),
            ("/shorter/nam", 2),
            ("/a/longer/name", 1),
            ("/long-name/b", 0),
            ("/long-name/c", 0),
            ("/", 9),
            ("/a", 0),
        ] {
            reads.count(&series, path, bytes);
        }
        drop(reads);
        let found: Vec<(String, Summary)> = series
            .keys(KeyedMeasure::NamespaceRead)
            .into_iter()
            .map(|(key, its)| (key, its.since_reset().0))
            .collect();
        let a = Summary { min: 70, max: 83, sum: 3 * 70 + 75 + 83, count: 5 };
        let twice = |value| Summary { min: value, max: value, sum: 2 * value, count: 2 };
        let one = Summary::of;
        let expected = [
            ("a", a),
            ("b", one(79)),
            ("bc", one(72)),
            ("long-name", twice(80)),
            ("short", twice(82)),
            ("shorter", one(82)),
        ];
        assert_eq!(found, expected.map(|(key, its)| (key.to_owned(), its)));
    }
}
