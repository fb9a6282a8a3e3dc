//! The audit log: who changed what, a line each, as ZooKeeper writes it.
//!
//! A request is noted when it goes to the orderer and told when its answer comes, which leaves once
//! the line is written ([`log`]). One that loses its connection before that is told as `invoked`:
//! it may be done or not. Owns the facts, and the lines that they make; those are made by the log's
//! own thread.

mod form;
mod log;
mod noted;
mod room;
mod sink;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use jute::protocol::{MultiOp, MultiResult, Request, Response};
use jute::{Acl, CreateMode, perms};

pub(in crate::server) use self::log::{Audit, watch};
pub(in crate::server) use self::noted::Noted;
pub(in crate::server) use self::room::Held;
use super::connection::java_address;
use crate::engine::access::acl::{Identities, Identity};
use crate::engine::session::SessionId;
use crate::ensemble::Answer;

/// What a fact takes in memory beside its texts, or a little more.
const FACT_OVERHEAD: usize = 256;
/// The same of an operation.
const OPERATION_OVERHEAD: usize = 96;
/// What a line has beside its texts, about.
const LINE_OVERHEAD: usize = 160;
/// Bytes of a name in a line: X.520 gives nobody's a length of more than 64.
const NAME_MAX: usize = 64;
/// Bytes of the first names of a line, and of the last.
const NAMES_AN_END: usize = 512;
/// Bytes of whole names in a line of their own, unless a single one is longer.
const NAMES_A_LINE: usize = 1 << 10;
/// Stands where something is left out.
const CUT: &str = "…";

/// How an operation came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Success,
    Failure,
    /// Asked for, and nothing is known of its end.
    Invoked,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Invoked => "invoked",
        }
    }
}

/// A change that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Operation {
    name: &'static str,
    znode: Option<String>,
    znode_type: Option<&'static str>,
    acl: Option<String>,
}

impl Operation {
    fn of(name: &'static str, znode: &str) -> Self {
        Self { name, znode: Some(znode.to_owned()), znode_type: None, acl: None }
    }

    fn create(znode: &str, flags: i32) -> Self {
        let znode_type = CreateMode::from_flags(flags).map(mode_name);
        Self { znode_type, ..Self::of("create", znode) }
    }

    const fn without_znode(name: &'static str) -> Self {
        Self { name, znode: None, znode_type: None, acl: None }
    }

    /// `None` for a part of a multi that changes nothing.
    fn of_part(part: &MultiOp<'_>) -> Option<Self> {
        Some(match part {
            MultiOp::Create(its) | MultiOp::Create2(its) | MultiOp::CreateContainer(its) => {
                Self::create(&its.path, its.flags)
            }
            MultiOp::CreateTtl(its) => Self::create(&its.path, its.flags),
            MultiOp::Delete(its) => Self::of("delete", &its.path),
            MultiOp::SetData(its) => Self::of("setData", &its.path),
            MultiOp::Check(_) => return None,
        })
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    One(Operation),
    /// A part of a multi each, `None` where it changes nothing.
    Multi(Vec<Option<Operation>>),
}

/// A request that changes something.
#[derive(Clone, Debug)]
struct AskedChange {
    session: SessionId,
    /// One text for all facts of the same identities.
    users: Arc<str>,
    address: IpAddr,
    what: What,
    /// Whole names that no line has told yet, where lines do not show all of them: a line each.
    names: Vec<String>,
    size: Size,
}

/// What a request costs the log, added up when it is noted: later others wait.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    /// What it takes in memory, or a little more.
    memory: usize,
    /// Bytes of its lines where it is done, about.
    lines: usize,
    /// How many these are.
    line_count: usize,
}

impl AskedChange {
    /// `None` where it changes nothing.
    fn of(
        request: &Request<'_>,
        session: SessionId,
        users: Arc<str>,
        address: IpAddr,
    ) -> Option<Self> {
        let what = match request {
            Request::Create(its) | Request::Create2(its) | Request::CreateContainer(its) => {
                What::One(Operation::create(&its.path, its.flags))
            }
            Request::CreateTtl(its) => What::One(Operation::create(&its.path, its.flags)),
            Request::Delete(its) => What::One(Operation::of("delete", &its.path)),
            Request::SetData(its) => What::One(Operation::of("setData", &its.path)),
            Request::SetAcl(its) => {
                let acl = its.acl.as_deref().map(acl_text);
                What::One(Operation { acl, ..Operation::of("setAcl", &its.path) })
            }
            Request::Reconfig(_) => What::One(Operation::without_znode("reconfig")),
            Request::Multi(parts) => What::Multi(parts.iter().map(Operation::of_part).collect()),
            _ => return None,
        };
        let size = Size::of(&what, &users);
        Some(Self { session, users, address, what, names: Vec::new(), size })
    }

    /// Tells whole names first.
    fn with_names(mut self, of: &[Identity]) -> Self {
        for name in of.iter().filter_map(user) {
            match self.names.last_mut() {
                Some(line) if line.len() + name.len() < NAMES_A_LINE => {
                    line.push(',');
                    line.push_str(name);
                }
                _ => self.names.push(name.to_owned()),
            }
        }
        let bytes = self.names.iter().map(|names| names.len() + LINE_OVERHEAD).sum::<usize>();
        self.size.memory += bytes;
        self.size.lines += bytes;
        self
    }

    fn who(&self, users: &str) -> String {
        let mut who = String::new();
        put_field(&mut who, "session", &format!("0x{:x}", self.session.0));
        put_field(&mut who, "user", users);
        put_field(&mut who, "ip", &java_address(self.address));
        who
    }

    /// What came of it, a line each.
    fn lines(&self, came: &Came, field_max: usize, mut put: impl FnMut(Outcome, &str)) {
        for names in &self.names {
            let shown = Operation::without_znode("auth");
            let line = line(&self.who(&cut(names, field_max)), &shown, None, Outcome::Success, 0);
            put(Outcome::Success, &line);
        }
        let who = self.who(&self.users);
        let line = |operation: &Operation, znode: Option<&str>, outcome| {
            line(&who, operation, znode, outcome, field_max)
        };
        let whole = Operation::without_znode("multiOperation");
        let outcome = came.outcome();
        match (&self.what, came) {
            (What::Multi(parts), Came::Done(created)) => {
                for (number, part) in parts.iter().enumerate() {
                    let znode = created.get(number).and_then(Option::as_deref);
                    if let Some(part) = part {
                        put(outcome, &line(part, znode, outcome));
                    }
                }
            }
            (What::Multi(_), _) => put(outcome, &line(&whole, None, outcome)),
            (What::One(operation), Came::Done(created)) => {
                let znode = created.first().and_then(Option::as_deref);
                put(outcome, &line(operation, znode, outcome));
            }
            (What::One(operation), _) => put(outcome, &line(operation, None, outcome)),
        }
    }

    /// What it counts for where it is done: what it takes in memory or the bytes of its lines,
    /// whichever is more.
    fn weight_if_done(&self) -> usize {
        self.size.memory.max(self.size.lines)
    }
}

impl Size {
    fn of(what: &What, users: &str) -> Self {
        let (one, parts) = match what {
            What::One(operation) => (Some(operation), &[][..]),
            What::Multi(parts) => (None, &parts[..]),
        };
        let places = one.iter().len() + parts.len();
        let (mut texts, mut line_count) = (0, 0);
        for Operation { znode, acl, .. } in one.into_iter().chain(parts.iter().flatten()) {
            texts += [znode, acl].into_iter().flatten().map(String::len).sum::<usize>();
            line_count += 1;
        }
        Self {
            memory: FACT_OVERHEAD + users.len() + places * OPERATION_OVERHEAD + texts,
            lines: line_count * (LINE_OVERHEAD + users.len()) + texts,
            line_count,
        }
    }
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::server) enum Came {
    /// Its parts are done: of each, up to the last create, the path where that is another than was
    /// asked for.
    Done(Vec<Option<String>>),
    Refused,
    /// Nothing is known of it.
    Invoked,
}

impl Came {
    pub(in crate::server) fn of(answer: &Answer<'_>) -> Self {
        let path = |path: &Cow<'_, str>| Some(path.clone().into_owned());
        match answer {
            Err(_) => Self::Refused,
            Ok(Response::Multi(results)) if !all_done(results) => Self::Refused,
            Ok(Response::Multi(results)) => {
                let created = |result: &'_ MultiResult<'_>| match result {
                    MultiResult::Create(its) | MultiResult::Create2(its, _) => path(its),
                    _ => None,
                };
                let has_path = |result: &MultiResult<'_>| {
                    matches!(result, MultiResult::Create(_) | MultiResult::Create2(..))
                };
                let count = results.iter().rposition(has_path).map_or(0, |last| last + 1);
                Self::Done(results.iter().take(count).map(created).collect())
            }
            Ok(Response::Create(its)) => Self::Done(vec![path(&its.path)]),
            Ok(Response::Create2(its)) => Self::Done(vec![path(&its.path)]),
            Ok(_) => Self::Done(Vec::new()),
        }
    }

    const fn outcome(&self) -> Outcome {
        match self {
            Self::Done(_) => Outcome::Success,
            Self::Refused => Outcome::Failure,
            Self::Invoked => Outcome::Invoked,
        }
    }
}

/// What there is to tell.
#[derive(Debug)]
enum Fact {
    Request(AskedChange, Came),
    EphemeralsGone(SessionId, Vec<String>),
    Server(&'static str, Outcome),
}

impl Fact {
    /// What it takes in memory or the bytes of its lines, whichever is more.
    fn weight(&self) -> usize {
        match self {
            Self::Request(asked, Came::Done(created)) => {
                let texts = created.iter().flatten().map(String::len).sum::<usize>();
                let memory = asked.size.memory + created.len() * size_of::<Option<String>>();
                memory.max(asked.size.lines) + texts
            }
            Self::Request(asked, _) => asked.size.memory,
            Self::EphemeralsGone(_, znodes) => {
                let texts = znodes.iter().map(String::len).sum::<usize>();
                FACT_OVERHEAD + znodes.len() * LINE_OVERHEAD + texts
            }
            Self::Server(..) => FACT_OVERHEAD,
        }
    }

    /// How many lines it makes.
    fn line_count(&self) -> u64 {
        let lines = match self {
            Self::Request(asked, Came::Done(_)) => asked.names.len() + asked.size.line_count,
            Self::Request(asked, _) => asked.names.len() + 1,
            Self::EphemeralsGone(_, znodes) => znodes.len(),
            Self::Server(..) => 1,
        };
        lines as u64
    }

    /// Gives its lines; `own_user` is whose process this is, and beyond `field_max` bytes a field
    /// is cut.
    fn lines(&self, own_user: &str, field_max: usize, mut put: impl FnMut(Outcome, &str)) {
        let mut who = String::new();
        match self {
            Self::Request(asked, came) => asked.lines(came, field_max, put),
            Self::EphemeralsGone(session, znodes) => {
                put_field(&mut who, "session", &format!("0x{:x}", session.0));
                put_field(&mut who, "user", own_user);
                for znode in znodes {
                    let name = "ephemeralZNodeDeletionOnSessionCloseOrExpire";
                    let operation = Operation::of(name, znode);
                    let line = line(&who, &operation, None, Outcome::Success, field_max);
                    put(Outcome::Success, &line);
                }
            }
            Self::Server(operation, outcome) => {
                put_field(&mut who, "user", own_user);
                let operation = Operation::without_znode(operation);
                put(*outcome, &line(&who, &operation, None, *outcome, field_max));
            }
        }
    }
}

fn all_done(results: &[MultiResult<'_>]) -> bool {
    !results.iter().any(|result| matches!(result, MultiResult::Error(_)))
}

fn mode_name(mode: CreateMode) -> &'static str {
    match mode {
        CreateMode::Persistent => "persistent",
        CreateMode::Ephemeral => "ephemeral",
        CreateMode::PersistentSequential => "persistent_sequential",
        CreateMode::EphemeralSequential => "ephemeral_sequential",
        CreateMode::Container => "container",
        CreateMode::PersistentWithTtl => "persistent_with_ttl",
        CreateMode::PersistentSequentialWithTtl => "persistent_sequential_with_ttl",
    }
}

/// The name that an identity has for people: never what proves it.
fn user(identity: &Identity) -> Option<&str> {
    match identity.scheme.as_str() {
        "super" => None,
        "digest" => identity.id.split(':').next(),
        _ => Some(&identity.id),
    }
}

/// The names of a client's identities, as each of its lines has them.
#[derive(Debug)]
struct Users {
    text: Arc<str>,
    /// They are not whole, or not all.
    is_cut: bool,
}

impl Users {
    /// A client may show very many, and each line would have them again: of a long one it has the
    /// beginning, of many the first, one of which is the address, and the last.
    fn of(identities: &Identities) -> Self {
        let whole = identities.all().iter().filter_map(user);
        let names: Vec<Cow<'_, str>> = whole.map(|name| cut(name, NAME_MAX)).collect();
        let (first, others) = names.split_at(fitting(names.iter()));
        let (others, last) = others.split_at(others.len() - fitting(others.iter().rev()));
        let left_out = (!others.is_empty()).then(|| format!("{CUT}{} more{CUT}", others.len()));
        let shown = first.iter().map(|name| &**name).chain(left_out.as_deref());
        let shown: Vec<&str> = shown.chain(last.iter().map(|name| &**name)).collect();
        let is_cut = left_out.is_some() || names.iter().any(|name| matches!(name, Cow::Owned(_)));
        Self { text: shown.join(",").into(), is_cut }
    }
}

/// How many names one end of a line has room for.
fn fitting<'a>(names: impl Iterator<Item = &'a Cow<'a, str>>) -> usize {
    let mut bytes = 0;
    let fits = |name: &&Cow<'_, str>| {
        bytes += name.len() + 1;
        bytes <= NAMES_AN_END
    };
    names.take_while(fits).count()
}

/// The beginning of a text, marked where that is not all.
fn cut(text: &str, max: usize) -> Cow<'_, str> {
    match text.get(..text.floor_char_boundary(max)) {
        Some(begin) if begin.len() < text.len() => Cow::Owned(format!("{begin}{CUT}")),
        _ => Cow::Borrowed(text),
    }
}

/// As `ZKUtil.aclToString` has it.
fn acl_text(acl: &[Acl<'_>]) -> String {
    let mut text = String::new();
    for entry in acl {
        let part = |part: &Option<Cow<'_, str>>| part.as_deref().unwrap_or_default().to_owned();
        text.push_str(&format!("{}:{}:", part(&entry.scheme), part(&entry.id)));
        for (permission, letter) in [
            (perms::CREATE, 'c'),
            (perms::DELETE, 'd'),
            (perms::READ, 'r'),
            (perms::WRITE, 'w'),
            (perms::ADMIN, 'a'),
        ] {
            if entry.perms & permission != 0 {
                text.push(letter);
            }
        }
    }
    text
}

fn put_field(line: &mut String, key: &str, value: &str) {
    if !line.is_empty() {
        line.push('\t');
    }
    line.push_str(key);
    line.push('=');
    // A path must not begin a field or a line of its own.
    line.extend(value.chars().filter(|character| !character.is_control()));
}

/// `znode` is there where it is another than was asked for.
fn line(
    who: &str,
    operation: &Operation,
    znode: Option<&str>,
    outcome: Outcome,
    field_max: usize,
) -> String {
    let mut line = who.to_owned();
    put_field(&mut line, "operation", operation.name);
    if let Some(znode) = znode.or(operation.znode.as_deref()) {
        put_field(&mut line, "znode", &cut(znode, field_max));
    }
    if let Some(znode_type) = operation.znode_type {
        put_field(&mut line, "znode_type", znode_type);
    }
    if let Some(acl) = &operation.acl {
        put_field(&mut line, "acl", &cut(acl, field_max));
    }
    put_field(&mut line, "result", outcome.name());
    line
}

#[cfg(test)]
#[path = "audit_test.rs"]
mod audit_test;
