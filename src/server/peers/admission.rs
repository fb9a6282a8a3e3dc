//! Lets a process speak as a server, or refuses it: the one that speaks already is asked whether it
//! lives.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Common;
use super::refusal::{Refusal, RefusalKind};
use crate::ensemble::callers::{Callers, Claim, ProcessId, Ruling};
use crate::ensemble::{FromPeer, KnownMembers, Promised, server_of};

/// How long the process that speaks has to show that it lives: no leader is missed later. Another
/// one waits for no longer.
const PROBE_MAX: Duration = Duration::from_secs(1);

/// Asks the process at the other end of a connection whether it lives, and says who wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probe {
    /// To be answered with it; from 1 on.
    pub(super) number: u64,
    /// Where another process is that says it is the same server.
    pub(super) other: SocketAddr,
}

impl Probe {
    pub(super) const LEN: usize = 8 + 16 + 2;

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(Self::LEN);
        let ip = match self.other.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        out.put_u64(self.number);
        out.put_slice(&ip.octets());
        out.put_u16(self.other.port());
        out
    }

    pub(super) fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let mut bytes = bytes.as_slice();
        let number = bytes.get_u64();
        let ip = Ipv6Addr::from(bytes.get_u128()).to_canonical();
        Self { number, other: (ip, bytes.get_u16()).into() }
    }
}

/// A connection in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) address: SocketAddr,
    /// What is spoken over it.
    pub(super) version: u32,
}

/// The connection that a server is heard on.
#[derive(Debug)]
struct Connection {
    number: u64,
    version: u32,
    id: u64,
    process: ProcessId,
    address: SocketAddr,
    /// Ends it.
    replaced: CancellationToken,
    probes: watch::Sender<Option<Probe>>,
    /// The number of the newest probe that was answered.
    answered: watch::Receiver<u64>,
    /// What comes over it waits for this server itself.
    is_full: Arc<AtomicBool>,
}

/// A server, as it is heard here.
#[derive(Debug, Default)]
pub(super) struct Heard {
    callers: Callers,
    connection: Option<Connection>,
    probes: u64,
}

impl Heard {
    /// Where the process is that is heard.
    pub(super) fn address(&self) -> Option<IpAddr> {
        Some(self.connection.as_ref()?.address.ip())
    }

    /// What is spoken by the process that is heard.
    pub(super) fn version(&self) -> Option<u32> {
        Some(self.connection.as_ref()?.version)
    }

    pub(super) const fn is_silent(&self) -> bool {
        self.connection.is_none()
    }

    /// Where the process is that is heard, if it is another one than this.
    pub(super) fn another(&self, than: ProcessId) -> Option<IpAddr> {
        let connection = self.connection.as_ref()?;
        (connection.process != than).then(|| connection.address.ip())
    }
}

/// The end of a connection on which a server is heard, for whoever reads it. Dropped, it is heard
/// no more.
#[derive(Debug)]
pub(super) struct Line {
    common: Arc<Common>,
    number: u64,
    pub(super) id: u64,
    process: ProcessId,
    claimed: Promised,
    /// There is another one.
    pub(super) replaced: CancellationToken,
    pub(super) probes: watch::Receiver<Option<Probe>>,
    pub(super) answers: watch::Sender<u64>,
    pub(super) is_full: Arc<AtomicBool>,
}

impl Line {
    /// Hands something on, if its connection is still the one that is heard. `promised` is what it
    /// shows of the sender's disk.
    pub(super) fn deliver(
        &self,
        what: Option<FromPeer>,
        promised: Option<Promised>,
        room: Option<OwnedSemaphorePermit>,
    ) -> bool {
        let mut heard = self.common.heard.lock();
        let Some(its) = heard.get_mut(&server_of(self.id)) else { return false };
        if its.connection.as_ref().is_none_or(|newest| newest.number != self.number) {
            return false;
        }
        // That its log was as long is no promise: a leader may have cut it since.
        let claimed = Promised { last: 0, ..self.claimed };
        let promised = promised.map_or(claimed, |promised| promised.max(claimed));
        its.callers.spoke(self.process, self.id, promised);
        if let Some(what) = what {
            self.common.queue.put_from_peer(what, room);
        }
        true
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut heard = self.common.heard.lock();
        let its = heard.get_mut(&server_of(self.id));
        let newest = its.map(|its| &mut its.connection);
        if newest.is_some_and(|newest| newest.take_if(|its| its.number == self.number).is_some()) {
            self.common.queue.put_from_peer(FromPeer::Hears(self.id, false), None);
        }
    }
}

impl Common {
    /// Has a process that called heard from here on, in the place of its earlier connection or of a
    /// process that is gone.
    pub(super) async fn accept_caller(
        self: &Arc<Self>,
        claim: Claim,
        call: Call,
    ) -> Result<Line, Refusal> {
        self.accept(claim, call.address, |its| self.hear_from(its, claim, call)).await
    }

    /// The same of a process that was called, or came for something else than to speak: no other
    /// one is heard beside it.
    pub(super) async fn accept_called(
        &self,
        claim: Claim,
        address: SocketAddr,
    ) -> Result<(), Refusal> {
        let end_others = |its: &mut Heard| {
            if its.connection.as_ref().is_some_and(|its| its.process != claim.process) {
                self.hear_no_more(its);
            }
        };
        self.accept(claim, address, end_others).await
    }

    /// Refuses a process, or does with it what a welcome one is to have.
    async fn accept<T>(
        &self,
        claim: Claim,
        address: SocketAddr,
        welcome: impl Fn(&mut Heard) -> T,
    ) -> Result<T, Refusal> {
        let server = server_of(claim.id);
        let deadline = Instant::now() + PROBE_MAX;
        let mut asked = None;
        loop {
            let (probed, first, mut answered, probe, is_full) = {
                let mut heard = self.heard.lock();
                let its = heard.entry(server).or_default();
                let process = its.connection.as_ref().map(|connection| connection.process);
                match its.callers.judge(claim, process) {
                    Ruling::Welcome => return Ok(welcome(its)),
                    Ruling::Older(shown) => return Err(older(claim, shown)),
                    Ruling::Replaced => return Err(replaced(server, its.connection.as_ref())),
                    Ruling::Occupied => {}
                }
                let Some(connection) = &its.connection else { return Ok(welcome(its)) };
                let first = connection.address;
                // It has connected again meanwhile.
                if asked.is_some_and(|asked| asked != connection.number) {
                    return Err(in_use(server, first));
                }
                its.probes += 1;
                let probe = Probe { number: its.probes, other: address };
                connection.probes.send_replace(Some(probe));
                let is_full = Arc::clone(&connection.is_full);
                (connection.number, first, connection.answered.clone(), probe.number, is_full)
            };
            asked = Some(probed);
            let answer = answered.wait_for(|answered| *answered >= probe);
            match tokio::time::timeout_at(deadline, answer).await {
                Ok(Ok(_)) => return Err(in_use(server, first)),
                // Its connection has ended.
                Ok(Err(_)) => {}
                // Its answer may be here, after what waits for this server.
                Err(_) if is_full.load(Ordering::Relaxed) => return Err(in_use(server, first)),
                Err(_) => {
                    let mut heard = self.heard.lock();
                    let its = heard.entry(server).or_default();
                    if its.connection.as_ref().is_some_and(|its| its.number == probed) {
                        tracing::info!(
                            peer = server,
                            address = %first,
                            "the process that ran as server {server} does not answer; another \
                             process takes its place"
                        );
                        self.hear_no_more(its);
                    }
                }
            }
        }
    }

    /// From here on a connection is the one that is heard.
    fn hear_from(self: &Arc<Self>, its: &mut Heard, claim: Claim, call: Call) -> Line {
        self.hear_no_more(its);
        let Claim { process, id, promised } = claim;
        let Call { number, address, version } = call;
        // Both ways are with the same process.
        if let Some(peer) = self.others.get(server_of(id)) {
            peer.hears_from(process);
        }
        let replaced = CancellationToken::new();
        let (probes, to_send) = watch::channel(None);
        let (answers, answered) = watch::channel(0);
        let is_full = Arc::new(AtomicBool::new(false));
        its.connection = Some(Connection {
            number,
            version,
            id,
            process,
            address,
            replaced: replaced.clone(),
            probes,
            answered,
            is_full: Arc::clone(&is_full),
        });
        self.queue.put_from_peer(FromPeer::Hears(id, true), None);
        Line {
            common: Arc::clone(self),
            number,
            id,
            process,
            claimed: promised,
            replaced,
            probes: to_send,
            answers,
            is_full,
        }
    }

    /// Ends the connections of members that were taken out after they had called, maybe before this
    /// one had applied that: each is told when it calls again.
    pub(super) fn hear_removed_no_more(&self, known: &KnownMembers) {
        let is_removed = |connection: &Connection| known.has_removed(connection.id);
        for its in self.heard.lock().values_mut() {
            if its.connection.as_ref().is_some_and(is_removed) {
                self.hear_no_more(its);
            }
        }
    }

    /// Ends the connections of servers that are no peers any more.
    pub(super) fn hear_gone_no_more(&self, servers: &[u8]) {
        let mut heard = self.heard.lock();
        for server in servers {
            if let Some(its) = heard.get_mut(server) {
                self.hear_no_more(its);
            }
        }
    }

    fn hear_no_more(&self, its: &mut Heard) {
        if let Some(older) = its.connection.take() {
            older.replaced.cancel();
            self.queue.put_from_peer(FromPeer::Hears(older.id, false), None);
        }
    }
}

fn older(claim: Claim, shown: Promised) -> Refusal {
    let Claim { id, promised, .. } = claim;
    Refusal::new(
        RefusalKind::Older,
        format!(
            "server {} has an older copy of the data directory of member {id:#x}: it ends at term \
             {} and entry {}, and another server has heard that member acknowledge term {} and \
             entry {}",
            server_of(id),
            promised.term,
            promised.last,
            shown.term,
            shown.last
        ),
    )
}

fn in_use(server: u8, first: SocketAddr) -> Refusal {
    Refusal::new(
        RefusalKind::InUse,
        format!("myid {server} is in use: another process runs as server {server} from {first}"),
    )
}

fn replaced(server: u8, by: Option<&Connection>) -> Refusal {
    let from = by.map_or_else(String::new, |by| format!(", from {}", by.address));
    Refusal::new(
        RefusalKind::Replaced,
        format!("another process has taken the place of this one as server {server}{from}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_read_as_it_was_sent() {
        for other in ["10.0.0.7:40112", "[2001:db8::7]:2888", "127.0.0.1:0"] {
            let probe = Probe { number: 5, other: other.parse().expect("an address") };
            let bytes = probe.encode();
            assert_eq!(Probe::parse(bytes.first_chunk().expect("a probe")), probe);
            assert_eq!(bytes.len(), Probe::LEN);
        }
    }
}
