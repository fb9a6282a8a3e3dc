//! What a connection must hear of: each watch once, by the first change behind its setting, and before any answer that
//! shows that change.

use std::collections::BTreeMap;

use jute::protocol::{EventType, Request, SetWatches2Request};

use super::history::{History, Kind, Reply};

type Checked = Result<(), String>;

/// The watches of a connection that have not fired.
#[derive(Debug, Default, Clone)]
pub(super) struct Watches {
    /// Each with the zxid of the state that it was left on.
    left: BTreeMap<(Kind, String), i64>,
    /// What setWatches told, until its answer comes.
    caught_up: Vec<(EventType, String)>,
}

impl Watches {
    pub(super) fn count(&self) -> usize {
        self.left.len()
    }

    /// A reply came: no change that it can show may be one that the connection was to hear of first. Then its own watch
    /// is left.
    pub(super) fn replied(
        &mut self,
        history: &History,
        request: &Request<'_>,
        reply: &Reply,
        zxid: i64,
    ) -> Checked {
        for ((kind, path), since) in &self.left {
            match history.first_change(*kind, path, *since) {
                Some((at, event)) if at <= zxid => {
                    return Err(format!(
                        "a reply of {zxid:#x} came before {event:?} of {path} at {at:#x}, watched since {since:#x}"
                    ));
                }
                _ => {}
            }
        }
        let is_refused = matches!(reply, Reply::Refused(_));
        match request {
            Request::Exists(body) if body.watch => self.leave(Kind::Data, &body.path, zxid),
            Request::GetData(body) if body.watch && !is_refused => {
                self.leave(Kind::Data, &body.path, zxid);
            }
            Request::GetChildren2(body) if body.watch && !is_refused => {
                self.leave(Kind::Children, &body.path, zxid);
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
        let before = self.left.len();
        for kind in [Kind::Data, Kind::Children] {
            let key = (kind, path.to_owned());
            if let Some(since) = self.left.get(&key)
                && history.first_change(kind, path, *since) == Some((zxid, event))
            {
                self.left.remove(&key);
            }
        }
        if self.left.len() < before {
            Ok(())
        } else {
            Err(format!("{event:?} of {path} at {zxid:#x}, watched: {:x?}", self.left))
        }
    }

    /// The request that leaves the same watches on another connection; `since` is the last zxid that was seen.
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
        Request::SetWatches2(body)
    }
}
