//! The first name of a path, by which ZooKeeper counts what is read and written (reference 15.3).

use std::sync::Arc;

use jute::txn::Txn;

use super::distribution::Distribution;
use super::series::{KeyedMeasure, Series};

/// What ZooKeeper counts a znode's Stat as.
const STAT_LEN: usize = 68;

/// The namespace of a path; the root has none.
pub(super) fn of(path: &str) -> Option<&str> {
    let rest = path.strip_prefix('/')?;
    let name = rest.split('/').next()?;
    (!name.is_empty()).then_some(name)
}

/// Counts what a transaction writes: each znode that it creates, changes or deletes.
pub(super) fn count_written(series: &Series, txn: &Txn<'_>) {
    let written = |path: &str, bytes: usize| {
        let its = of(path).and_then(|name| series.of_key(KeyedMeasure::NamespaceWritten, name));
        if let Some(its) = its {
            its.record((path.len() + bytes) as u64, 1);
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

/// Counts reads. Those of one kind behind one another are counted at once: clients repeat themselves.
pub(super) struct Reads<'a> {
    series: &'a Series,
    /// The namespace of the last one, with what it has.
    last: Option<(String, Option<Arc<Distribution>>)>,
    value: u64,
    times: u64,
}

impl<'a> Reads<'a> {
    pub(super) const fn new(series: &'a Series) -> Self {
        Self { series, last: None, value: 0, times: 0 }
    }

    /// A znode was read, with so many bytes beside its Stat.
    pub(super) fn count(&mut self, path: &str, bytes: usize) {
        let Some(name) = of(path) else { return };
        let value = (path.len() + bytes + STAT_LEN) as u64;
        let is_last = self.last.as_ref().is_some_and(|(last, _)| last == name);
        if is_last && value == self.value {
            self.times += 1;
            return;
        }
        self.flush();
        if !is_last {
            let its = self.series.of_key(KeyedMeasure::NamespaceRead, name);
            self.last = Some((name.to_owned(), its));
        }
        (self.value, self.times) = (value, 1);
    }

    fn flush(&mut self) {
        if self.times > 0
            && let Some((_, Some(its))) = &self.last
        {
            its.record(self.value, self.times);
        }
        self.times = 0;
    }
}

impl Drop for Reads<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::stats::Summary;

    #[test]
    fn a_namespace_is_the_first_name() {
        for (path, name) in [("/a", Some("a")), ("/a/b/c", Some("a")), ("/", None), ("", None)] {
            assert_eq!(of(path), name, "{path}");
        }
    }

    #[test]
    fn reads_are_counted_by_namespace_however_they_come() {
        let series = Series::default();
        let mut reads = Reads::new(&series);
        for (path, bytes) in [("/a", 0), ("/a", 0), ("/a", 5), ("/b/c", 7), ("/a", 0), ("/", 9)] {
            reads.count(path, bytes);
        }
        drop(reads);
        let found: Vec<(String, Summary)> = series
            .keys(KeyedMeasure::NamespaceRead)
            .into_iter()
            .map(|(key, its)| (key, its.since_reset().0))
            .collect();
        let a = Summary { min: 70, max: 75, sum: 3 * 70 + 75, count: 4 };
        assert_eq!(found, [("a".to_owned(), a), ("b".to_owned(), Summary::of(79))]);
    }
}
