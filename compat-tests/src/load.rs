//! Writers that pipeline requests and remember what was acknowledged.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::request::{self, mode, op};
use crate::{ConnectRequest, RawClient, Reply};

/// Requests of one writer in flight.
const BATCH: usize = 32;

/// What the writers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Every writer sets its own node.
    Sets,
    /// They also create nodes of their own and sequential ones below a common parent.
    SetsAndCreates,
}

/// What the server has confirmed to one or several writers.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    /// Created path to its data; nothing sets or deletes these.
    pub created: BTreeMap<String, Vec<u8>>,
    /// Sequential paths, in the order of their replies.
    pub sequential: Vec<String>,
    /// Set path to its last confirmed version. The data of version n is always n as text.
    pub versions: BTreeMap<String, i32>,
    /// The least and the greatest zxid of a reply.
    pub zxids: Option<(i64, i64)>,
}

impl Acknowledged {
    /// Adds what another writer, or a later run, got confirmed.
    pub fn merge(&mut self, other: Self) {
        self.created.extend(other.created);
        self.sequential.extend(other.sequential);
        self.versions.extend(other.versions);
        if let Some((least, greatest)) = other.zxids {
            self.saw(least);
            self.saw(greatest);
        }
    }

    fn saw(&mut self, zxid: i64) {
        let (least, greatest) = self.zxids.unwrap_or((zxid, zxid));
        self.zxids = Some((least.min(zxid), greatest.max(zxid)));
    }

    /// Panics unless the server has all of it.
    pub fn check(&self, client: &mut RawClient) {
        let created: Vec<&String> = self.created.keys().collect();
        let mut replies = Vec::with_capacity(created.len());
        for paths in created.chunks(200) {
            replies.extend(get(client, paths));
        }
        for ((path, data), reply) in self.created.iter().zip(replies) {
            assert_eq!(
                (reply.data().as_ref(), reply.stat().version),
                (data.as_slice(), 0),
                "{path}"
            );
        }
        let set: Vec<&String> = self.versions.keys().collect();
        for ((path, version), reply) in self.versions.iter().zip(get(client, &set)) {
            let now = reply.stat().version;
            // A set that was in flight may have been done, too.
            assert!(now >= *version, "{path}: version {version} was acknowledged, it has {now}");
            assert_eq!(reply.data().as_ref(), data_of(now), "{path} in version {now}");
        }
    }
}

/// The data and stats of paths that were acknowledged.
fn get(client: &mut RawClient, paths: &[&String]) -> Vec<Reply> {
    let requests: Vec<(i32, Vec<u8>)> =
        paths.iter().map(|path| (op::GET_DATA, request::path_watch(path, false))).collect();
    let replies = client.call_all(&requests).expect("replies");
    for (path, reply) in paths.iter().zip(&replies) {
        assert_eq!(reply.err, 0, "{path} was acknowledged and is lost");
    }
    replies
}

/// Writers at work.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    writers: Vec<JoinHandle<Acknowledged>>,
}

impl Load {
    /// Starts `writers` connections below /load, which it makes. `run` names nodes that no
    /// earlier load has made.
    pub fn start(address: SocketAddr, writers: usize, run: usize, writes: Writes) -> Self {
        let (mut client, _) =
            RawClient::open(address, &ConnectRequest::new(20_000)).expect("a session");
        for path in ["/load", "/load/seq", &format!("/load/{run}")] {
            create(&mut client, path);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let writers = (0..writers)
            .map(|writer| {
                let stop = Arc::clone(&stop);
                let path = format!("/load/{run}/{writer}");
                create(&mut client, &path);
                thread::spawn(move || {
                    let mut acknowledged = Acknowledged::default();
                    let end = write(address, &path, writes, &stop, &mut acknowledged);
                    let stopped = stop.load(Ordering::Relaxed);
                    assert!(stopped, "a writer ended before anyone stopped it: {end:?}");
                    acknowledged
                })
            })
            .collect();
        client.close().expect("the session closes");
        Self { stop, writers }
    }

    /// From now on a writer may lose its server.
    pub fn expect_end(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Stops the writers; all that was confirmed to them.
    pub fn stop(self) -> Acknowledged {
        self.expect_end();
        let mut all = Acknowledged::default();
        for writer in self.writers {
            all.merge(writer.join().expect("a writer runs through"));
        }
        all
    }
}

fn create(client: &mut RawClient, path: &str) {
    let body = request::create(path, Some(&data_of(0)), mode::PERSISTENT);
    let err = client.call(op::CREATE, &body).expect("a reply").err;
    assert!(err == 0 || err == -110, "create {path}: {err}");
}

fn data_of(version: i32) -> Vec<u8> {
    version.to_string().into_bytes()
}

/// What a reply in flight will confirm.
#[derive(Debug)]
enum Write {
    Create(String),
    Sequential,
    Set,
}

/// Writes until stopped or cut off. Nodes that are created hold `path`.
fn write(
    address: SocketAddr,
    path: &str,
    writes: Writes,
    stop: &AtomicBool,
    acknowledged: &mut Acknowledged,
) -> io::Result<()> {
    let (mut client, _) = RawClient::open(address, &ConnectRequest::new(20_000))?;
    let data = path.as_bytes();
    let (mut version, mut number) = (0, 0);
    loop {
        let mut bytes = Vec::new();
        let mut in_flight = Vec::new();
        for _ in 0..BATCH {
            number += 1;
            let write = match (writes, number % 3) {
                (Writes::SetsAndCreates, 0) => Write::Create(format!("{path}/{number}")),
                (Writes::SetsAndCreates, 1) => Write::Sequential,
                _ => Write::Set,
            };
            let (op, body) = match &write {
                Write::Create(path) => {
                    (op::CREATE, request::create(path, Some(data), mode::PERSISTENT))
                }
                Write::Sequential => {
                    (op::CREATE, request::create("/load/seq/n-", Some(data), mode::SEQUENTIAL))
                }
                Write::Set => {
                    version += 1;
                    (op::SET_DATA, request::set_data(path, &data_of(version), version - 1))
                }
            };
            let (xid, frame) = client.next_request(op, &body);
            bytes.extend(frame);
            in_flight.push((xid, write));
        }
        client.send_raw(&bytes)?;
        for (xid, write) in in_flight {
            let reply = client.read_reply()?.ok_or(io::ErrorKind::UnexpectedEof)?;
            assert_eq!((reply.xid, reply.err), (xid, 0), "{write:?} below {path}");
            let before = acknowledged.zxids.map_or(0, |(_, greatest)| greatest);
            assert!(reply.zxid > before, "{:#x} behind {before:#x}: {write:?}", reply.zxid);
            acknowledged.saw(reply.zxid);
            match write {
                Write::Create(asked) => {
                    assert_eq!(reply.path(), asked);
                    acknowledged.created.insert(asked, data.to_vec());
                }
                Write::Sequential => {
                    acknowledged.created.insert(reply.path(), data.to_vec());
                    acknowledged.sequential.push(reply.path());
                }
                Write::Set => {
                    acknowledged.versions.insert(path.to_string(), reply.stat().version);
                }
            }
        }
        if stop.load(Ordering::Relaxed) {
            return client.close();
        }
    }
}
