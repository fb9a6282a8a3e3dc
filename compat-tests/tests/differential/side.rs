//! One server and the clients that a script has there.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BufMut;
use compat_tests::{ConnectRequest, Kind, RawClient, Reply, Server, Session, request};

use crate::answer::{Answer, Line, Names};
use crate::script::{AclEntry, Action, Attempt, Op, Run, Since, Step, op};

const SESSION_MS: i32 = 40_000;
/// The administrator's: it waits for the other server, whose machine may be busy.
const ADMIN_SESSION_MS: i32 = 600_000;
const DYING_SESSION_MS: i32 = 800;
const PATIENCE: Duration = Duration::from_secs(10);

/// Proves to all that a dying session is gone.
const MARK: &str = "/dying";

const SUPER: (&str, &str) = ("super:secret", "super:lK75jTNcA+U9vtVEw5vB51mj/w4=");

pub(crate) const SUPER_TOKEN: &str = SUPER.0;

/// The open ACL.
pub(crate) fn open_acl() -> Vec<AclEntry> {
    vec![AclEntry { perms: 31, scheme: Some("world".into()), id: Some("anyone".into()) }]
}

fn create(path: &str, flags: i32) -> Op {
    let acl = Some(open_acl());
    Op::Create { code: op::CREATE, path: Some(path.into()), data: None, acl, flags, ttl: -1 }
}

fn at(code: i32, path: &str) -> Op {
    match code {
        op::GET_ACL => Op::At { code, path: Some(path.into()) },
        op::DELETE => Op::Versioned { code, path: Some(path.into()), version: -1 },
        _ => Op::Read { code, path: Some(path.into()), watch: false },
    }
}

/// What a pair of servers is configured for, beyond what all are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Znodes may have a TTL, the ensemble may not be changed.
    Ttl,
    /// The other way round.
    Reconfig,
}

/// An event as the generator and the report want it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) client: usize,
    pub(crate) kind: i32,
    pub(crate) path: String,
}

/// All that a step brought.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) lines: Vec<Line>,
    /// To the requests, in order; fewer when the connection ended.
    pub(crate) answers: Vec<Answer>,
    pub(crate) events: Vec<Told>,
    /// Whether a new connection had to be made first.
    pub(crate) reconnected: bool,
}

/// A connection, or what is left of one.
#[derive(Debug, Default)]
struct Client {
    socket: Option<RawClient>,
    /// None when it was never opened or was closed.
    session: Option<Session>,
    last_xid: i32,
    last_zxid: i64,
    /// (xid, request) sent and not yet answered.
    in_flight: Vec<(i32, Op)>,
}

/// A server with the clients of a script.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) kind: Kind,
    server: Server,
    admin: Client,
    clients: Vec<Client>,
    /// The session that dies in this step.
    dying: Client,
    names: Names,
    /// Step to the highest zxid of a reply so far.
    seen: BTreeMap<usize, i64>,
}

impl Side {
    pub(crate) fn start(kind: Kind, setup: Setup) -> Self {
        let super_digest = format!("DigestAuthenticationProvider.superDigest={}", SUPER.1);
        let server = Server::start(
            kind,
            &[
                "tickTime=200",
                "minSessionTimeout=400",
                &format!("maxSessionTimeout={ADMIN_SESSION_MS}"),
                &format!("extendedTypesEnabled={}", setup == Setup::Ttl),
                &format!("reconfigEnabled={}", setup == Setup::Reconfig),
                "enforceQuota=true",
                "forceSync=no",
                // No container and no TTL ends by chance in the middle of a script.
                "znode.container.checkIntervalMs=100000000",
                &super_digest,
            ],
        );
        let mut side = Self {
            kind,
            server,
            admin: Client::default(),
            clients: Vec::new(),
            dying: Client::default(),
            names: Names::default(),
            seen: BTreeMap::new(),
        };
        let address = side.server.address();
        side.admin.open(address, ADMIN_SESSION_MS).expect("a session for the administrator");
        let token = Some(SUPER.0.as_bytes().to_vec());
        let answers = side.ask(&[Op::Auth { scheme: "digest".into(), token }]);
        assert_eq!(answers.expect("an answer")[0].0.err, 0, "the administrator is super");
        side.settle();
        side
    }

    /// Gets ready for a script.
    pub(crate) fn begin(&mut self, top: &str, clients: usize, sort_acls: bool) -> io::Result<()> {
        self.names = Names::new(top, sort_acls);
        self.seen.clear();
        self.clients = (0..clients).map(|_| Client::default()).collect();
        if top == LARGE {
            return Ok(());
        }
        let answers = self.ask(&[create("$", 0)])?;
        assert_eq!(answers[0].0.err, 0, "{:?}: {top} is new", self.kind);
        Ok(())
    }

    /// The first half of a step: everything is sent.
    pub(crate) fn send(&mut self, step: &Step) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        let address = self.server.address();
        if let Action::Reattach(attempt) = step.action {
            let client = &mut self.clients[step.client];
            client.socket = None;
            if let (Some(attempt), Some(session)) = (attempt, &client.session) {
                outcome.lines.push(refused(address, session, attempt)?);
            }
        }
        let mut connecting = vec![step.client];
        if matches!(step.action, Action::Die(_)) {
            connecting.clear();
            self.dying = Client::default();
            self.dying.open(address, DYING_SESSION_MS)?;
            let id = self.dying.session.as_ref().map_or(0, |session| session.id);
            self.names.sessions.insert(id, format!("dying {}", step.id));
        }
        for client in connecting {
            if self.clients[client].socket.is_some() {
                continue;
            }
            outcome.reconnected = true;
            let line = self.clients[client].open(address, SESSION_MS)?;
            outcome.lines.push(line);
            if let Some(session) = &self.clients[client].session {
                let name = format!("client {client} from step {}", step.id);
                self.names.sessions.entry(session.id).or_insert(name);
            }
        }
        let mut ops = step.ops().to_vec();
        if matches!(step.action, Action::Die(_)) {
            ops.insert(0, create(MARK, 1));
        }
        let zxid = |since| self.zxid(since);
        let run = Run { top: &self.names.top, zxid: &zxid };
        let bodies: Vec<Vec<u8>> = ops.iter().map(|op| op.body(&run)).collect();
        let actor = match step.action {
            Action::Die(_) => &mut self.dying,
            _ => &mut self.clients[step.client],
        };
        actor.send(ops, &bodies)?;
        Ok(outcome)
    }

    fn zxid(&self, since: Since) -> i64 {
        match since {
            Since::Zero => 0,
            Since::Max => i64::MAX,
            Since::Step(id) => self.seen.range(..=id).next_back().map_or(0, |(_, zxid)| *zxid),
        }
    }

    /// The second half: replies, and the events of all.
    pub(crate) fn receive(&mut self, step: &Step, outcome: &mut Outcome) -> io::Result<()> {
        let dies = matches!(step.action, Action::Die(_));
        let actor = if dies { &mut self.dying } else { &mut self.clients[step.client] };
        let first = outcome.lines.len();
        actor.receive(step.client, &mut self.names, outcome)?;
        if dies && !outcome.answers.is_empty() {
            outcome.answers.remove(0);
        }
        let mut highest = self.seen.last_key_value().map_or(0, |(_, zxid)| *zxid);
        highest = highest.max(actor.last_zxid);
        if dies {
            self.dying.socket = None;
            self.await_death()?;
        }
        order(&mut outcome.lines[first..], step.ends_session());
        if dies || step.ops().iter().any(Op::is_write) {
            self.fence(step, outcome)?;
        }
        self.seen.insert(step.id, highest);
        Ok(())
    }

    /// Who has answered a ping has been told of everything before it.
    fn fence(&mut self, step: &Step, outcome: &mut Outcome) -> io::Result<()> {
        let dies = matches!(step.action, Action::Die(_));
        let ping = Op::Bare { code: op::PING };
        let awaited = |number: usize, client: &Client| {
            client.socket.is_some() && (dies || number != step.client)
        };
        for (number, client) in self.clients.iter_mut().enumerate() {
            if awaited(number, client) {
                client.send(vec![ping.clone()], &[Vec::new()])?;
            }
        }
        for (number, client) in self.clients.iter_mut().enumerate() {
            if client.in_flight.is_empty() {
                continue;
            }
            let mut heard = Outcome::default();
            client.receive(number, &mut self.names, &mut heard)?;
            // The ping's own answer says nothing new.
            if heard.answers.len() == 1 && client.socket.is_some() {
                heard.lines.pop();
            }
            order(&mut heard.lines, step.ends_session());
            outcome.lines.extend(heard.lines.into_iter().map(|mut line| {
                line.text.insert_str(0, &format!("client {number}: "));
                line
            }));
            outcome.events.extend(heard.events);
        }
        Ok(())
    }

    fn await_death(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.ask(&[at(op::EXISTS, MARK)])?[0].0.err == 0 {
            if Instant::now() > deadline {
                return Err(io::Error::other("a session does not expire"));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends the administrator's requests in one segment.
    fn ask(&mut self, ops: &[Op]) -> io::Result<Vec<(Answer, Line, Reply)>> {
        let run = Run { top: &self.names.top, zxid: &|_| 0 };
        let bodies: Vec<Vec<u8>> = ops.iter().map(|op| op.body(&run)).collect();
        self.admin.send(ops.to_vec(), &bodies)?;
        let mut out = Vec::new();
        for (xid, op) in std::mem::take(&mut self.admin.in_flight) {
            let socket = self.admin.socket.as_mut().ok_or(io::ErrorKind::NotConnected)?;
            let reply = socket.read_reply()?.ok_or_else(|| {
                let log = self.server.log();
                let from = log.find("ERROR").unwrap_or(0);
                let log: String = log[from..].chars().take(3_000).collect();
                io::Error::other(format!("the server is gone; its log:\n{log}"))
            })?;
            assert_eq!(reply.xid, xid, "the administrator gets replies in order");
            let (line, answer) = self.names.reply(&op, &reply);
            out.push((answer, line, reply));
        }
        Ok(out)
    }

    /// Ends the script's sessions and shows the whole tree, then empties it.
    pub(crate) fn finish(&mut self) -> io::Result<Vec<Line>> {
        let address = self.server.address();
        let close = Op::Bare { code: op::CLOSE_SESSION };
        for client in &mut self.clients {
            if client.session.is_some() && client.socket.is_none() {
                client.open(address, SESSION_MS)?;
            }
            // One after the other: what they leave after has their order.
            if client.socket.is_some() {
                client.send(vec![close.clone()], &[Vec::new()])?;
                client.receive(0, &mut self.names, &mut Outcome::default())?;
            }
        }
        let (lines, paths) = self.tree()?;
        let kept = ["/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", LARGE];
        let mut again: Vec<Op> = paths
            .iter()
            .rev()
            .filter(|path| !kept.contains(&path.as_str()))
            .map(|path| at(op::DELETE, path))
            .collect();
        if self.names.top == LARGE {
            let (path, acl) = (Some(LARGE.to_string()), Some(open_acl()));
            again.push(Op::SetData { path: path.clone(), data: None, version: -1 });
            again.push(Op::SetAcl { path, acl, version: -1 });
            again.extend((0..TOUCHED).map(|number| create(&resident(LARGE, number), 0)));
        }
        self.names.forget_times();
        for answer in self.ask(&again)? {
            assert_eq!(answer.0.err, 0, "{:?}: {}", self.kind, answer.1.text);
        }
        Ok(lines)
    }

    /// Every znode's data, ACL, children and stat; and their paths, parents first.
    fn tree(&mut self) -> io::Result<(Vec<Line>, Vec<String>)> {
        let (mut lines, mut paths) = (Vec::new(), Vec::new());
        let mut level = vec!["/".to_string()];
        while !level.is_empty() {
            level.sort();
            let codes = [op::GET_DATA, op::GET_ACL, op::GET_CHILDREN2];
            let ops: Vec<Op> = level
                .iter()
                .flat_map(|path| codes.iter().map(move |code| at(*code, path)))
                .collect();
            let answers = self.ask(&ops)?;
            let mut next = Vec::new();
            for (path, answers) in level.iter().zip(answers.chunks(codes.len())) {
                let names = answers[2].2.children();
                let parent = path.trim_end_matches('/');
                let below = names.iter().map(|name| format!("{parent}/{name}"));
                next.extend(below.filter(|path| self.is_shown(path)));
                for (_, line, _) in answers {
                    let mut line = line.clone();
                    // What else the server has done since is no matter.
                    line.text.insert_str(0, &format!("{}: ", path.replace(&self.names.top, "$")));
                    lines.push(line);
                }
            }
            paths.append(&mut level);
            level = next;
        }
        Ok((lines, paths))
    }

    /// Whether a script's tree in the end has this znode.
    fn is_shown(&self, path: &str) -> bool {
        match path.strip_prefix(LARGE) {
            Some(_) if self.names.top != LARGE => false,
            Some(below) => {
                let number = below.strip_prefix(RESIDENT).and_then(|rest| rest.parse().ok());
                number.is_none_or(|number: usize| number < TOUCHED)
            }
            None => true,
        }
    }

    /// Makes the tree large, once.
    fn settle(&mut self) {
        let residents = (0..RESIDENTS).map(|number| create(&resident(LARGE, number), 0));
        let ops: Vec<Op> = [create(LARGE, 0)].into_iter().chain(residents).collect();
        for ops in ops.chunks(500) {
            let answers = self.ask(ops).expect("answers");
            assert!(answers.iter().all(|answer| answer.0.err == 0), "{:?}", self.kind);
        }
    }
}

/// The top node of scripts on a large tree: it has this many children from the start.
pub(crate) const LARGE: &str = "/large";
const RESIDENTS: usize = 10_100;

/// Of these, the ones that a script knows of; they are made anew after it.
pub(crate) const TOUCHED: usize = 20;

const RESIDENT: &str = "/resident-";

/// The path of a child that was there before the script.
pub(crate) fn resident(top: &str, number: usize) -> String {
    format!("{top}{RESIDENT}{number:05}")
}

/// What becomes of an attempt to get at `session`.
fn refused(address: SocketAddr, session: &Session, attempt: Attempt) -> io::Result<Line> {
    let mut connect = ConnectRequest::again(session);
    match attempt {
        Attempt::Password => connect.password = Some(vec![1; session.password.len()]),
        Attempt::Zxid => connect.last_zxid_seen = i64::MAX,
    }
    let mut socket = RawClient::dial(address)?;
    socket.set_deadline(PATIENCE)?;
    socket.send_frame(&connect.bytes())?;
    let mut said = Vec::new();
    while let Some(frame) = socket.read_frame()? {
        said.push(frame);
    }
    Ok(Line::new(format!("attempt: {said:?}, closed")))
}

/// One transaction's events have no order where it deletes several znodes.
fn order(lines: &mut [Line], any: bool) {
    if !any {
        return;
    }
    let is_event = |line: &Line| line.text.starts_with("event");
    for run in lines.chunk_by_mut(|one, next| {
        is_event(one) && is_event(next) && one.first_zxid() == next.first_zxid()
    }) {
        run.sort_by(|one, next| one.text.cmp(&next.text));
    }
}

impl Client {
    fn open(&mut self, address: SocketAddr, timeout: i32) -> io::Result<Line> {
        let mut connect = match &self.session {
            Some(session) => ConnectRequest { timeout, ..ConnectRequest::again(session) },
            None => ConnectRequest::new(timeout),
        };
        connect.last_zxid_seen = self.last_zxid;
        let (mut socket, session) = RawClient::open(address, &connect)?;
        socket.set_deadline(PATIENCE)?;
        let how = match &self.session {
            Some(old) if old.id == session.id => "the same session",
            Some(_) => "another session",
            None => "a new session",
        };
        let line =
            Line::new(format!("{how}, {} ms, read only {:?}", session.timeout, session.read_only));
        (self.socket, self.session, self.last_xid) = (Some(socket), Some(session), 0);
        Ok(line)
    }

    fn send(&mut self, ops: Vec<Op>, bodies: &[Vec<u8>]) -> io::Result<()> {
        let mut segment = Vec::new();
        for (op, body) in ops.into_iter().zip(bodies) {
            self.last_xid += 1;
            let xid = op.xid(self.last_xid);
            let mut payload = Vec::with_capacity(body.len() + 8);
            payload.put_i32(xid);
            payload.put_i32(op.code());
            payload.put_slice(body);
            request::buffer(&mut segment, &payload);
            self.in_flight.push((xid, op));
        }
        match &mut self.socket {
            Some(socket) => socket.send_raw(&segment),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Reads until everything in flight is answered or the connection ends.
    fn receive(&mut self, number: usize, names: &mut Names, out: &mut Outcome) -> io::Result<()> {
        for (xid, op) in std::mem::take(&mut self.in_flight) {
            let Some(reply) = self.reply(number, names, out)? else {
                self.end(&op, out);
                return Ok(());
            };
            let (mut line, answer) = names.reply(&op, &reply);
            if reply.xid != xid {
                line.text.push_str(&format!(" UNDER XID {} INSTEAD OF {xid}", reply.xid));
            }
            if reply.zxid > 0 && reply.zxid < self.last_zxid {
                line.text.push_str(" ZXID FELL");
            }
            self.last_zxid = self.last_zxid.max(reply.zxid);
            let ends = op.is_ender(answer.err);
            line.may_be_lost = ends;
            out.lines.push(line);
            out.answers.push(answer);
            if ends {
                while let Some(reply) = self.reply(number, names, out)? {
                    out.lines.push(Line::new(format!("behind the end {reply:?}")));
                }
                self.end(&op, out);
                return Ok(());
            }
        }
        Ok(())
    }

    fn end(&mut self, op: &Op, out: &mut Outcome) {
        out.lines.push(Line::new("closed"));
        self.socket = None;
        if op.code() == op::CLOSE_SESSION {
            *self = Self::default();
        }
    }

    /// The next frame that is no event.
    fn reply(
        &mut self,
        number: usize,
        names: &Names,
        out: &mut Outcome,
    ) -> io::Result<Option<Reply>> {
        let socket = self.socket.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        while let Some(reply) = socket.read_reply()? {
            if reply.xid != -1 {
                return Ok(Some(reply));
            }
            let (line, kind, path) = names.event(&reply);
            out.lines.push(line);
            out.events.push(Told { client: number, kind, path });
        }
        Ok(None)
    }
}
