//! Servers that are not in the list and call all the same: they are spoken to where they say that
//! they are reached, so that they can become members.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::Common;
use super::address::Address;
use super::admission::Heard;
use super::refusal::{Refusal, RefusalKind};
use crate::ensemble::callers::{Claim, ProcessId};
use crate::ensemble::server_of;
use crate::server::descriptors::UNLISTED_MAX;

impl Common {
    /// A caller is welcome, and is reached there. One that is not `judged` does not move a server
    /// that another process speaks as.
    pub(super) fn meet(
        self: &Arc<Self>,
        Claim { id, process, .. }: Claim,
        address: Option<Address>,
        judged: bool,
    ) -> Result<(), Refusal> {
        let server = server_of(id);
        if !self.meets_unlisted || self.others.is_listed(server) {
            return Ok(());
        }
        let address = address.filter(|_| judged || !self.knows_another(server, process));
        let heard: HashSet<u8> = {
            let heard = self.heard.lock();
            heard.iter().filter(|(_, its)| !its.is_silent()).map(|(server, _)| *server).collect()
        };
        let is_heard = |server| heard.contains(&server);
        let Some(changed) = self.others.meet(server, address, is_heard, Instant::now()) else {
            let own = self.server;
            let reason = format!(
                "server {server} is not in the list of server {own}, which is connected to \
                 {UNLISTED_MAX} such servers already"
            );
            return Err(Refusal::new(RefusalKind::Reason, reason));
        };
        self.follow(changed);
        Ok(())
    }

    /// Whether another process than this one speaks or hears as a server.
    fn knows_another(&self, server: u8, process: ProcessId) -> bool {
        let spoken_to = self.others.get(server).and_then(|peer| *peer.process.lock());
        spoken_to.is_some_and(|its| its != process)
            || self.heard.lock().get(&server).is_some_and(|its| its.another(process).is_some())
    }

    /// A server was not reached: it goes if it does not speak either, and has only called.
    pub(super) fn forget_unlisted(self: &Arc<Self>, server: u8) {
        if self.heard.lock().get(&server).is_none_or(Heard::is_silent) {
            self.follow(self.others.forget_unlisted(server, Instant::now()));
        }
    }
}
