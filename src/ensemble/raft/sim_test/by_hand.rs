//! An ensemble without chance: whoever writes a test says what happens.

use jute::protocol::{CreateRequest, SetDataRequest};
use jute::{Acl, CreateMode, perms};

use super::*;
use crate::engine::request::Work;

const TICK_MS: u64 = 50;

impl World {
    /// An ensemble with a leader, and a client of each member with a session.
    pub(super) fn settled(flaw: Flaw) -> Self {
        let mut world = Self::new(7, flaw).expect("starts");
        world.pass(2000);
        for at in 0..MEMBERS as usize {
            (0..2).for_each(|_| world.request(at).expect("holds"));
        }
        world.pass(500);
        let has_session = |client: &Client| client.session.is_some();
        assert!(world.servers.iter().all(|server| server.clients.iter().all(has_session)));
        let create = CreateRequest {
            path: "/x".into(),
            data: None,
            acl: Some(vec![Acl::anyone(perms::ALL)]),
            flags: CreateMode::Persistent.flags(),
        };
        world.ask_for(0, Request::Create(create));
        world.pass(200);
        assert_eq!(world.waiting(0), 0);
        world
    }

    /// So much time: everything that is sent arrives unless the two are parted, every disk that is not stalled does what it has to.
    pub(super) fn try_pass(&mut self, ms: u64) -> Checked {
        self.try_pass_without(None, ms)
    }

    /// The same, but the clock of one member stands.
    pub(super) fn try_pass_without(&mut self, frozen: Option<usize>, ms: u64) -> Checked {
        for _ in 0..ms / TICK_MS {
            self.now.monotonic = self.now.monotonic.plus(TICK_MS);
            for at in (0..MEMBERS as usize).filter(|at| Some(*at) != frozen) {
                self.with(at, |member, _| member.tick())?;
            }
            for _ in 0..200 {
                for at in 0..MEMBERS as usize {
                    self.write_disk(at, usize::MAX)?;
                }
                for parcel in std::mem::take(&mut self.parcels) {
                    if self.parted[parcel.from as usize - 1][parcel.to as usize - 1] {
                        self.parcels.push(parcel);
                        self.lose(self.parcels.len() - 1);
                    } else {
                        self.hand(parcel)?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn pass(&mut self, ms: u64) {
        self.try_pass(ms).expect("holds");
    }

    pub(super) fn ask_for(&mut self, at: usize, request: Request<'static>) {
        self.try_ask_for(at, request).expect("holds");
    }

    pub(super) fn try_ask_for(&mut self, at: usize, request: Request<'static>) -> Checked {
        let Client { connection, session, .. } = self.servers[at].clients[0];
        let session = session.expect("a session");
        self.submit(at, connection, session, vec![Work::Request(request)])
    }

    pub(super) fn set(&mut self, at: usize, len: usize) {
        let data = Some(vec![1; len].into());
        self.ask_for(at, Request::SetData(SetDataRequest { path: "/x".into(), data, version: -1 }));
    }

    /// Requests of a member's clients that are not answered.
    pub(super) fn waiting(&self, at: usize) -> usize {
        self.servers[at].clients.iter().map(|client| client.asked.len()).sum()
    }

    pub(super) fn member(&self, at: usize) -> &Member<Post> {
        self.servers[at].member.as_ref().expect("is up")
    }

    pub(super) fn leader(&self) -> usize {
        let leads = |at: &usize| {
            self.servers[*at].member.as_ref().is_some_and(|member| member.is_leading())
        };
        let leaders: Vec<usize> = (0..MEMBERS as usize).filter(leads).collect();
        assert_eq!(leaders.len(), 1, "{leaders:?}");
        leaders[0]
    }

    pub(super) fn stall(&mut self, at: usize, ms: u64) {
        self.servers[at].stalled = self.now.monotonic.plus(ms);
    }
}
