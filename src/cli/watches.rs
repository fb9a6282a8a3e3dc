//! What this client watches: which events it wants, and what a server must hear of after a
//! reconnect.

use std::collections::BTreeSet;

use jute::ErrorCode;
use jute::protocol::{SetWatches2Request, WatcherType};

use super::event::EventKind;

/// Which kind of watch a request leaves when it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    /// getData.
    Data,
    /// exists: on the data, or on the znode's coming into being.
    Exists,
    /// getChildren.
    Children,
    Persistent,
    PersistentRecursive,
}

/// Paths by kind of watch, as they are shown. All have one watcher: whoever prints events.
#[derive(Debug, Default)]
pub(super) struct Watches {
    data: BTreeSet<String>,
    exist: BTreeSet<String>,
    children: BTreeSet<String>,
    persistent: BTreeSet<String>,
    recursive: BTreeSet<String>,
}

impl Watches {
    /// A request that leaves a watch was answered with `err`.
    pub(super) fn answered(&mut self, leaves: Leaves, path: &str, err: i32) {
        let set = match leaves {
            Leaves::Exists if err == ErrorCode::NoNode.code() => &mut self.exist,
            _ if err != 0 => return,
            Leaves::Data | Leaves::Exists => &mut self.data,
            Leaves::Children => &mut self.children,
            Leaves::Persistent => &mut self.persistent,
            Leaves::PersistentRecursive => &mut self.recursive,
        };
        set.insert(path.to_owned());
    }

    /// Takes the one-shot watches that an event ends; says whether somebody watched.
    pub(super) fn fire(&mut self, kind: EventKind, path: &str) -> bool {
        let ended = match kind {
            EventKind::NodeDataChanged | EventKind::NodeCreated => {
                self.data.remove(path) | self.exist.remove(path)
            }
            EventKind::NodeChildrenChanged => self.children.remove(path),
            EventKind::NodeDeleted => {
                self.data.remove(path) | self.exist.remove(path) | self.children.remove(path)
            }
            _ => false,
        };
        // A recursive watch promises no events of children: those come for a one-shot watch that is
        // gone.
        let recursive = kind != EventKind::NodeChildrenChanged && self.covers(path);
        ended || self.persistent.contains(path) || recursive
    }

    /// Whether a recursive watch stands on the path or above it.
    fn covers(&self, path: &str) -> bool {
        let mut at = path;
        loop {
            if self.recursive.contains(at) {
                return true;
            }
            at = match at.rsplit_once('/') {
                _ if at == "/" => return false,
                Some(("", _)) => "/",
                Some((parent, _)) => parent,
                None => return false,
            };
        }
    }

    /// A removal was answered with `err`: the events that tell of what is gone, or an error.
    /// `locally` removes whatever the server says.
    pub(super) fn removed(
        &mut self,
        path: &str,
        which: WatcherType,
        locally: bool,
        err: i32,
    ) -> Result<Vec<EventKind>, i32> {
        let any = which == WatcherType::Any;
        let mut asked: [(bool, &mut BTreeSet<String>, EventKind); 5] = [
            (
                any || which == WatcherType::Children,
                &mut self.children,
                EventKind::ChildWatchRemoved,
            ),
            (any || which == WatcherType::Data, &mut self.data, EventKind::DataWatchRemoved),
            (any || which == WatcherType::Data, &mut self.exist, EventKind::DataWatchRemoved),
            (
                any || which == WatcherType::Persistent,
                &mut self.persistent,
                EventKind::PersistentWatchRemoved,
            ),
            (
                any || which == WatcherType::PersistentRecursive,
                &mut self.recursive,
                EventKind::PersistentWatchRemoved,
            ),
        ];
        if !asked.iter().any(|(asked, set, _)| *asked && set.contains(path)) {
            return Err(ErrorCode::NoWatcher.code());
        }
        if err != 0 && !locally {
            return Err(err);
        }
        let mut kinds = Vec::new();
        for (_, set, kind) in asked.iter_mut().filter(|(asked, _, _)| *asked) {
            if set.remove(path) && !kinds.contains(kind) {
                kinds.push(*kind);
            }
        }
        Ok(kinds)
    }

    /// What a server is told after a reconnect, in requests of a bearable size; none where nothing
    /// is watched.
    pub(super) fn again(
        &self,
        last_zxid: i64,
        on_server: impl Fn(&str) -> String,
    ) -> Vec<SetWatches2Request<'static>> {
        /// As ZooKeeper's client has it; the last path may go beyond.
        const BYTES_MAX: usize = 128 << 10;
        let empty = || SetWatches2Request {
            relative_zxid: last_zxid,
            data_watches: Vec::new(),
            exist_watches: Vec::new(),
            child_watches: Vec::new(),
            persistent_watches: Vec::new(),
            persistent_recursive_watches: Vec::new(),
        };
        let sets = [&self.data, &self.exist, &self.children, &self.persistent, &self.recursive];
        let mut requests: Vec<SetWatches2Request<'static>> = Vec::new();
        let mut bytes = BYTES_MAX;
        for (index, set) in sets.into_iter().enumerate() {
            for path in set {
                if bytes >= BYTES_MAX {
                    requests.push(empty());
                    bytes = 0;
                }
                bytes += path.len();
                let Some(request) = requests.last_mut() else { continue };
                let list = match index {
                    0 => &mut request.data_watches,
                    1 => &mut request.exist_watches,
                    2 => &mut request.child_watches,
                    3 => &mut request.persistent_watches,
                    _ => &mut request.persistent_recursive_watches,
                };
                list.push(on_server(path).into());
            }
        }
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_NODE: i32 = -101;
    const NO_WATCHER: i32 = -121;

    #[test]
    fn a_one_shot_watch_ends_with_its_event() {
        let mut watches = Watches::default();
        watches.answered(Leaves::Data, "/a", 0);
        watches.answered(Leaves::Children, "/a", 0);
        watches.answered(Leaves::Exists, "/b", NO_NODE);
        watches.answered(Leaves::Data, "/missing", NO_NODE);
        assert!(watches.fire(EventKind::NodeDataChanged, "/a"));
        assert!(!watches.fire(EventKind::NodeDataChanged, "/a"));
        assert!(watches.fire(EventKind::NodeChildrenChanged, "/a"));
        assert!(watches.fire(EventKind::NodeCreated, "/b"));
        assert!(!watches.fire(EventKind::NodeDeleted, "/b"));
        assert!(!watches.fire(EventKind::NodeCreated, "/missing"));
        assert_eq!(watches.again(1, str::to_owned), []);
    }

    #[test]
    fn a_recursive_watch_covers_what_is_below_but_no_events_of_children() {
        let mut watches = Watches::default();
        watches.answered(Leaves::PersistentRecursive, "/a", 0);
        assert!(watches.fire(EventKind::NodeCreated, "/a/b/c"));
        assert!(watches.fire(EventKind::NodeDeleted, "/a"));
        assert!(!watches.fire(EventKind::NodeCreated, "/ab"));
        assert!(!watches.fire(EventKind::NodeChildrenChanged, "/a"));
        watches.answered(Leaves::PersistentRecursive, "/", 0);
        assert!(watches.fire(EventKind::NodeCreated, "/ab"));
        assert!(watches.fire(EventKind::NodeCreated, "/"));
    }

    #[test]
    fn a_removal_tells_what_is_gone() {
        let mut watches = Watches::default();
        watches.answered(Leaves::Data, "/a", 0);
        watches.answered(Leaves::Children, "/a", 0);
        watches.answered(Leaves::Persistent, "/a", 0);
        let mut remove = |which, locally, err| watches.removed("/a", which, locally, err);
        assert_eq!(remove(WatcherType::PersistentRecursive, false, 0), Err(NO_WATCHER));
        assert_eq!(remove(WatcherType::Data, false, -4), Err(-4));
        assert_eq!(remove(WatcherType::Data, true, -4), Ok(vec![EventKind::DataWatchRemoved]));
        assert_eq!(
            remove(WatcherType::Any, false, 0),
            Ok(vec![EventKind::ChildWatchRemoved, EventKind::PersistentWatchRemoved])
        );
        assert_eq!(remove(WatcherType::Any, true, 0), Err(NO_WATCHER));
    }

    #[test]
    fn watches_are_set_again_in_parts() {
        let mut watches = Watches::default();
        let long = |n: usize| format!("/{}{n:03}", "x".repeat(1000));
        for n in 0..200 {
            watches.answered(Leaves::Children, &long(n), 0);
        }
        watches.answered(Leaves::Persistent, "/p", 0);
        let requests = watches.again(7, |path| format!("/root{path}"));
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(|request| request.relative_zxid == 7));
        let children = requests.iter().map(|request| request.child_watches.len());
        assert_eq!(children.sum::<usize>(), 200);
        assert_eq!(requests.last().expect("two").persistent_watches, ["/root/p"]);
    }
}
