//! An ensemble without chance: whoever writes a test says what goes wrong.

use jute::protocol::{CreateRequest, Request, SetDataRequest};
use jute::{Acl, CreateMode, perms};

use super::storm::Mend;
use super::timeline::MS;
use super::world::{Checked, Event, World};
use super::*;

impl World {
    /// An ensemble of three with a leader, and a client of each member with a session. Nothing goes
    /// wrong by itself.
    pub(super) fn settled(flaw: Flaw) -> Self {
        Self::settled_with(flaw, 3)
    }

    /// The same, of so many.
    pub(super) fn settled_with(flaw: Flaw, members: usize) -> Self {
        Self::settled_by(7, flaw, members)
    }

    /// The same with another chance of what comes first.
    pub(super) fn settled_by(seed: u64, flaw: Flaw, members: usize) -> Self {
        let mut world = Self::begin(seed, flaw, members as u64);
        world.calm = true;
        world.lists.by_hand = true;
        for at in 0..members {
            world.start(at).expect("starts");
        }
        world.pass(2000);
        world.clients.resize_with(members, clients::Client::new);
        (0..members).for_each(|at| world.connect(at, at));
        world.pass(500);
        assert!(world.clients.iter().all(|client| client.session.is_some()));
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

    /// So much time; meanwhile the clients are heard of.
    pub(super) fn pass(&mut self, ms: u64) {
        self.try_pass(ms).expect("holds");
    }

    pub(super) fn try_pass(&mut self, ms: u64) -> Checked {
        let end = self.timeline.now() + ms * MS;
        while self.timeline.now() < end {
            let next = end.min(self.timeline.now() + 200 * MS);
            while self.timeline.is_due(next) {
                self.step()?;
            }
            self.timeline.pass_to(next);
            for server in &self.servers {
                let now = server.clock.read(next).monotonic;
                for connection in server.connections.values() {
                    connection.attached.iter().for_each(|attached| attached.heard.touch(now));
                }
            }
        }
        Ok(())
    }

    pub(super) fn ask_for(&mut self, at: usize, request: Request<'static>) {
        let (_, id) = self.clients[at].connection.expect("a connection");
        self.ask(at, at, id, vec![request]);
    }

    pub(super) fn set_data(&mut self, at: usize, len: usize) {
        let data = Some(vec![1; len].into());
        self.ask_for(at, Request::SetData(SetDataRequest { path: "/x".into(), data, version: -1 }));
    }

    /// Requests of a member's clients that are not answered.
    pub(super) fn waiting(&self, at: usize) -> usize {
        let connections = self.servers[at].connections.values();
        connections.map(|connection| connection.unanswered.len()).sum()
    }

    pub(super) fn member(&self, at: usize) -> &Member<post::Post> {
        self.servers[at].member.as_ref().expect("is up")
    }

    pub(super) fn leader(&self) -> usize {
        let leads = |at: &usize| {
            self.servers[*at].member.as_ref().is_some_and(|its| its.requests().is_leading())
        };
        let leaders: Vec<usize> = (0..self.servers.len()).filter(leads).collect();
        assert_eq!(leaders.len(), 1, "{leaders:?}");
        leaders[0]
    }

    pub(super) fn stall(&mut self, at: usize, ms: u64) {
        self.servers[at].stalled_until = self.timeline.now() + ms * MS;
    }

    /// It is not started again.
    pub(super) fn stay_down(&mut self, at: usize) {
        self.timeline.forget(|event| matches!(event, Event::Mend(Mend::Start(its)) if *its == at));
    }

    /// The disk goes on.
    pub(super) fn go_on(&mut self, at: usize) {
        self.servers[at].stalled_until = 0;
        self.servers[at].is_writing = false;
        self.write_later(at);
    }
}
