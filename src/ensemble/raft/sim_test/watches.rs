//! What a connection must hear of: each watch once, by the first change after its setting, or by
//! each change if it stays, and before any answer that shows that change.

use std::collections::{BTreeMap, BTreeSet};

use jute::protocol::{AddWatchMode, EventType, Request, SetWatches2Request, WatcherType};

use super::history::{History, Kind, Reply};
use crate::engine::watch::{ConnectionId, WatchTable};

type Checked = Result<(), String>;

/// The watches of a connection that have not fired, and those that stay.
#[derive(Debug, Default, Clone)]
pub(super) struct Watches {
    /// Each with the zxid of the state that it was left on.
    left: BTreeMap<(Kind, String), i64>,
    /// Those that stay, by path and whether they are recursive, each with the zxid up to which its
    /// events have come.
    stay: BTreeMap<(String, bool), i64>,
    /// Events that those heard of since then, and how often.
    heard: BTreeMap<(i64, i32, String), usize>,
    /// The zxid of the last event.
    last_event: i64,
    /// What setWatches told, until its answer comes.
    caught_up: Vec<(EventType, String)>,
}

impl Watches {
    pub(super) fn count(&self) -> usize {
        self.left.len() + self.stay.len()
    }

    /// What the server's table has of a connection is what was left there: so many entries, all of
    /// them there.
    pub(super) fn are_in(
        &self,
        table: &WatchTable,
        connection: ConnectionId,
    ) -> Result<usize, String> {
        let left = self.left.keys().map(|(kind, path)| match kind {
            Kind::Data => (path, WatcherType::Data),
            Kind::Children => (path, WatcherType::Children),
        });
        let stay = self.stay.keys().map(|(path, is_recursive)| match is_recursive {
            true => (path, WatcherType::PersistentRecursive),
            false => (path, WatcherType::Persistent),
        });
        let mut entries = BTreeSet::new();
        for (path, kind) in left.chain(stay) {
            if !table.contains(path, connection, kind) {
                return Err(format!("its watch {kind:?} of {path} is gone"));
            }
            if kind != WatcherType::Children {
                entries.insert((Kind::Data, path));
            }
            if matches!(kind, WatcherType::Children | WatcherType::Persistent) {
                entries.insert((Kind::Children, path));
            }
        }
        Ok(entries.len())
    }

    /// Nothing up to `zxid` is left that the connection was to hear of.
    pub(super) fn nothing_is_owed(&self, history: &History, zxid: i64) -> Checked {
        for ((kind, path), since) in &self.left {
            match history.first_change(*kind, path, *since) {
                Some((at, event)) if at <= zxid => {
                    return Err(format!(
                        "{zxid:#x} came before {event:?} of {path} at {at:#x}, watched since \
                         {since:#x}"
                    ));
                }
                _ => {}
            }
        }
        for ((path, is_recursive), since) in &self.stay {
            for (event, count) in history.changes_below(path, *is_recursive, *since, zxid) {
                let heard = self.heard.get(&event).copied().unwrap_or(0);
                if heard < count {
                    return Err(format!(
                        "{zxid:#x} came before {event:x?}, heard of {heard} times instead of \
                         {count}; {path} is watched for good since {since:#x}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A reply came: no change that it can show may be one that the connection was to hear of
    /// first. Then its own watch is left.
    pub(super) fn replied(
        &mut self,
        history: &History,
        request: &Request<'_>,
        reply: &Reply,
        zxid: i64,
    ) -> Checked {
        self.nothing_is_owed(history, zxid).map_err(|owed| format!("a reply of {owed}"))?;
        self.stay.values_mut().for_each(|since| *since = zxid);
        self.heard.retain(|(at, ..), _| *at > zxid);
        let is_refused = matches!(reply, Reply::Refused(_));
        match request {
            Request::Exists(body) if body.watch => self.leave(Kind::Data, &body.path, zxid),
            Request::GetData(body) if body.watch && !is_refused => {
                self.leave(Kind::Data, &body.path, zxid);
            }
            Request::GetChildren2(body) if body.watch && !is_refused => {
                self.leave(Kind::Children, &body.path, zxid);
            }
            Request::AddWatch(body) if !is_refused => {
                let is_recursive = body.mode == AddWatchMode::PersistentRecursive;
                self.stay.insert((body.path.to_string(), is_recursive), zxid);
            }
            Request::SetWatches2(body) => return self.set_again(history, body, zxid),
            _ => {}
        }
        if self.caught_up.is_empty() {
            Ok(())
        } else {
            Err(format!("{:?} came, which nobody asked for", self.caught_up))
        }
    }

    fn leave(&mut self, kind: Kind, path: &str, zxid: i64) {
        // One that is left already hears of the same change.
        self.left.entry((kind, path.to_owned())).or_insert(zxid);
    }

    fn set_again(
        &mut self,
        history: &History,
        body: &SetWatches2Request<'_>,
        zxid: i64,
    ) -> Checked {
        let mut missed = Vec::new();
        for (kind, paths) in
            [(Kind::Data, &body.data_watches), (Kind::Children, &body.child_watches)]
        {
            for path in paths {
                match history.missed(kind, path, body.relative_zxid, zxid) {
                    Some(event) => missed.push((event, path.to_string())),
                    None => self.leave(kind, path, zxid),
                }
            }
        }
        for path in &body.exist_watches {
            if history.exists(path, zxid) {
                missed.push((EventType::NodeCreated, path.to_string()));
            } else {
                self.leave(Kind::Data, path, zxid);
            }
        }
        // What changed meanwhile is not told to those that stay.
        for (paths, is_recursive) in
            [(&body.persistent_watches, false), (&body.persistent_recursive_watches, true)]
        {
            for path in paths {
                self.stay.insert((path.to_string(), is_recursive), zxid);
            }
        }
        let mut told = std::mem::take(&mut self.caught_up);
        let order = |(event, path): &(EventType, String)| (*event as i32, path.clone());
        missed.sort_by_key(order);
        told.sort_by_key(order);
        if told == missed {
            Ok(())
        } else {
            Err(format!("setWatches at {zxid:#x} told {told:?}, and missed were {missed:?}"))
        }
    }

    /// An event came.
    pub(super) fn told(
        &mut self,
        history: &History,
        event: EventType,
        path: &str,
        zxid: i64,
    ) -> Checked {
        if zxid == -1 {
            self.caught_up.push((event, path.to_owned()));
            return Ok(());
        }
        if zxid < self.last_event {
            return Err(format!(
                "{event:?} of {path} at {zxid:#x} after one of {:#x}",
                self.last_event
            ));
        }
        self.last_event = zxid;
        let before = self.left.len();
        for kind in [Kind::Data, Kind::Children] {
            let key = (kind, path.to_owned());
            if let Some(since) = self.left.get(&key)
                && history.first_change(kind, path, *since) == Some((zxid, event))
            {
                self.left.remove(&key);
            }
        }
        let key = (zxid, event as i32, path.to_owned());
        let heard = self.heard.get(&key).copied().unwrap_or(0);
        let stays = self.stay.iter().any(|((of, is_recursive), since)| {
            let changes = history.changes_below(of, *is_recursive, *since, zxid);
            changes.get(&key).is_some_and(|count| heard < *count)
        });
        if stays {
            self.heard.insert(key, heard + 1);
        }
        if stays || self.left.len() < before {
            Ok(())
        } else {
            Err(format!(
                "{event:?} of {path} at {zxid:#x}, watched: {:x?}, for good: {:x?}",
                self.left, self.stay
            ))
        }
    }

    /// The request that leaves the same watches on another connection; `since` is the last zxid
    /// that was seen.
    pub(super) fn to_set_again(&self, history: &History, since: i64) -> Request<'static> {
        let mut body = SetWatches2Request {
            relative_zxid: since,
            data_watches: Vec::new(),
            exist_watches: Vec::new(),
            child_watches: Vec::new(),
            persistent_watches: Vec::new(),
            persistent_recursive_watches: Vec::new(),
        };
        for ((kind, path), left) in &self.left {
            let list = match kind {
                Kind::Children => &mut body.child_watches,
                Kind::Data if history.exists(path, *left) => &mut body.data_watches,
                Kind::Data => &mut body.exist_watches,
            };
            list.push(path.clone().into());
        }
        for (path, is_recursive) in self.stay.keys() {
            let list = match is_recursive {
                true => &mut body.persistent_recursive_watches,
                false => &mut body.persistent_watches,
            };
            list.push(path.clone().into());
        }
        Request::SetWatches2(body)
    }
}
