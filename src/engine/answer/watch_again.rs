//! setWatches: what a client watched on its last connection, some paths at a time.
//!
//! Each path is looked at and watched, or told of, under one hold. So nothing is missed between two
//! holds: a later change fires the watches of the paths that were taken, and is seen at those that
//! are still to come. A client that has many watches sends several such requests anyway.

use std::borrow::Cow;

use jute::protocol::{AddWatchMode, EventType, Request};

use crate::engine::database::Database;
use crate::engine::path::cost;
use crate::engine::watch::{CATCH_UP, ConnectionId, Event, NoRoom};
use crate::engine::zxid::Zxid;
use crate::planted;

/// What a list of paths is about.
#[derive(Debug, Clone, Copy)]
enum PathsOf {
    Data,
    Exist,
    Child,
    Added(AddWatchMode),
}

/// The paths of a setWatches or setWatches2 that are still to be watched.
#[derive(Debug)]
pub struct WatchAgain<'r> {
    since: Zxid,
    lists: [(PathsOf, &'r [Cow<'r, str>]); 5],
}

impl<'r> WatchAgain<'r> {
    /// All that a request names; `None` for one of another kind.
    #[must_use]
    pub fn of(request: &'r Request<'_>) -> Option<Self> {
        let (since, [data, exist, child, persistent, recursive]) = match request {
            Request::SetWatches(body) => {
                let of_two: &[Cow<'_, str>] = &[];
                let lists = [&body.data_watches, &body.exist_watches, &body.child_watches];
                let [data, exist, child] = lists.map(Vec::as_slice);
                (body.relative_zxid, [data, exist, child, of_two, of_two])
            }
            Request::SetWatches2(body) if !planted::is("setwatches2-arms-none") => {
                let lists = [
                    &body.data_watches,
                    &body.exist_watches,
                    &body.child_watches,
                    &body.persistent_watches,
                    &body.persistent_recursive_watches,
                ];
                (body.relative_zxid, lists.map(Vec::as_slice))
            }
            _ => return None,
        };
        let lists = [
            (PathsOf::Data, data),
            (PathsOf::Exist, exist),
            (PathsOf::Child, child),
            (PathsOf::Added(AddWatchMode::Persistent), persistent),
            (PathsOf::Added(AddWatchMode::PersistentRecursive), recursive),
        ];
        Some(Self { since: Zxid(since), lists })
    }

    /// Whether more is to be done than for so many short paths.
    #[must_use]
    pub fn is_more_than(&self, most: usize) -> bool {
        let mut left = most;
        let mut paths = self.lists.iter().flat_map(|(_, paths)| *paths);
        !paths.all(|path| {
            let is_enough = left >= cost(path);
            left = left.saturating_sub(cost(path));
            is_enough
        })
    }

    /// Takes further paths, which cost as much as `most` short ones or little more. What changed
    /// while the client was away is told, everything else is watched again (`DataTree.setWatches`).
    /// Whether these were all.
    ///
    /// # Errors
    /// There is no room for a watch. Its client looks at no error of a setWatches and would believe
    /// that it has them all: its connection is to end.
    pub fn advance(
        &mut self,
        database: &Database,
        connection: ConnectionId,
        most: usize,
        events: &mut Vec<Event>,
    ) -> Result<bool, NoRoom> {
        let tree = &database.tree;
        let mut watches = database.watches.lock();
        let mut left = most;
        for (kind, paths) in &mut self.lists {
            while let Some((path, rest)) = paths.split_first() {
                if left == 0 {
                    return Ok(false);
                }
                left = left.saturating_sub(cost(path));
                *paths = rest;
                let stat = || tree.find(path).map(|node| tree.stat(node));
                let told = match *kind {
                    PathsOf::Data => match stat() {
                        None => Some(EventType::NodeDeleted),
                        Some(_) if planted::is("missed-data-untold") => None,
                        Some(stat) if Zxid(stat.mzxid) > self.since => {
                            Some(EventType::NodeDataChanged)
                        }
                        Some(_) => None,
                    },
                    PathsOf::Exist => tree.find(path).map(|_| EventType::NodeCreated),
                    PathsOf::Child => match stat() {
                        None => Some(EventType::NodeDeleted),
                        Some(stat) if Zxid(stat.pzxid) > self.since => {
                            Some(EventType::NodeChildrenChanged)
                        }
                        Some(_) => None,
                    },
                    PathsOf::Added(_) => None,
                };
                match (told, *kind) {
                    (Some(event_type), _) => events.push(Event {
                        receivers: vec![connection],
                        event_type,
                        path: (&**path).into(),
                        zxid: CATCH_UP,
                        readers: None,
                    }),
                    (None, PathsOf::Data | PathsOf::Exist) => {
                        watches.watch_data(path, connection)?
                    }
                    (None, PathsOf::Child) => watches.watch_children(path, connection)?,
                    (None, PathsOf::Added(mode)) => watches.add(path, connection, mode)?,
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
#[path = "watch_again_test.rs"]
mod watch_again_test;
