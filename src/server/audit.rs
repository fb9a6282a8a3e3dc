//! The audit log: who changed what, a line each, as ZooKeeper writes it.
//!
//! A request is noted when it goes to the orderer and told when its answer comes, which leaves once the line is written
//! ([`log`]). One that loses its connection before that is told as `invoked`: it may be done or not. Owns the facts, and the
//! lines that they make; those are made by the log's own thread.

mod form;
mod log;
mod noted;
mod sink;

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use jute::protocol::{MultiOp, MultiResult, Request, Response};
use jute::{Acl, CreateMode, perms};

pub(super) use self::log::{Audit, watch};
pub(super) use self::noted::Noted;
use super::connection::java_address;
use crate::engine::acl::{Identities, Identity};
use crate::engine::session::SessionId;
use crate::ensemble::Answer;

/// What a fact takes in memory beside its texts, or a little more.
const FACT_OVERHEAD: usize = 256;
/// The same of an operation.
const OPERATION_OVERHEAD: usize = 96;
/// Bytes of the names of a line's users.
const USERS_MAX: usize = 1 << 10;
/// Stands where names are left out.
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
struct Asked {
    session: SessionId,
    /// One text for all facts of the same identities.
    users: Arc<str>,
    address: IpAddr,
    what: What,
}

impl Asked {
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
        Some(Self { session, users, address, what })
    }

    /// What came of it, a line each.
    fn lines(&self, came: &Came, mut put: impl FnMut(Outcome, &str)) {
        let mut who = String::new();
        put_field(&mut who, "session", &format!("0x{:x}", self.session.0));
        put_field(&mut who, "user", &self.users);
        put_field(&mut who, "ip", &java_address(self.address));
        let whole = Operation::without_znode("multiOperation");
        let outcome = came.outcome();
        match (&self.what, came) {
            (What::Multi(parts), Came::Done(created)) => {
                for (part, znode) in parts.iter().zip(created) {
                    if let Some(part) = part {
                        put(outcome, &line(&who, part, znode.as_deref(), outcome));
                    }
                }
            }
            (What::Multi(_), _) => put(outcome, &line(&who, &whole, None, outcome)),
            (What::One(operation), Came::Done(created)) => {
                let znode = created.first().and_then(Option::as_deref);
                put(outcome, &line(&who, operation, znode, outcome));
            }
            (What::One(operation), _) => put(outcome, &line(&who, operation, None, outcome)),
        }
    }

    fn operations(&self) -> impl Iterator<Item = &Operation> {
        let (one, parts) = match &self.what {
            What::One(operation) => (Some(operation), &[][..]),
            What::Multi(parts) => (None, &parts[..]),
        };
        one.into_iter().chain(parts.iter().flatten())
    }

    /// What it takes in memory, or a little more.
    fn weight(&self) -> usize {
        let places = match &self.what {
            What::One(_) => 1,
            What::Multi(parts) => parts.len(),
        };
        let texts = self.operations().flat_map(|operation| [&operation.znode, &operation.acl]);
        let texts = texts.flatten().map(String::len).sum::<usize>();
        FACT_OVERHEAD + self.users.len() + places * OPERATION_OVERHEAD + texts
    }
}

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// Its parts are done: of each the path, where that is another than was asked for.
    Done(Vec<Option<String>>),
    Refused,
    /// Nothing is known of it.
    Invoked,
}

impl Came {
    pub(super) fn of(answer: &Answer<'_>) -> Self {
        let path = |path: &Cow<'_, str>| Some(path.clone().into_owned());
        match answer {
            Err(_) => Self::Refused,
            Ok(Response::Multi(results)) if !all_done(results) => Self::Refused,
            Ok(Response::Multi(results)) => {
                let created = results.iter().map(|result| match result {
                    MultiResult::Create(its) | MultiResult::Create2(its, _) => path(its),
                    _ => None,
                });
                Self::Done(created.collect())
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
    Request(Asked, Came),
    EphemeralsGone(SessionId, Vec<String>),
    Server(&'static str, Outcome),
}

impl Fact {
    /// What it takes in memory, or a little more.
    fn weight(&self) -> usize {
        match self {
            Self::Request(asked, Came::Done(created)) => {
                let texts = created.iter().flatten().map(String::len).sum::<usize>();
                asked.weight() + created.len() * size_of::<Option<String>>() + texts
            }
            Self::Request(asked, _) => asked.weight(),
            Self::EphemeralsGone(_, znodes) => {
                let texts = znodes.iter().map(String::len).sum::<usize>();
                FACT_OVERHEAD + znodes.len() * size_of::<String>() + texts
            }
            Self::Server(..) => FACT_OVERHEAD,
        }
    }

    /// How many lines it makes.
    fn line_count(&self) -> u64 {
        let lines = match self {
            Self::Request(asked, Came::Done(_)) => asked.operations().count(),
            Self::EphemeralsGone(_, znodes) => znodes.len(),
            Self::Request(..) | Self::Server(..) => 1,
        };
        lines as u64
    }

    /// Gives its lines; `own_user` is whose process this is.
    fn lines(&self, own_user: &str, mut put: impl FnMut(Outcome, &str)) {
        let mut who = String::new();
        match self {
            Self::Request(asked, came) => asked.lines(came, put),
            Self::EphemeralsGone(session, znodes) => {
                put_field(&mut who, "session", &format!("0x{:x}", session.0));
                put_field(&mut who, "user", own_user);
                for znode in znodes {
                    let name = "ephemeralZNodeDeletionOnSessionCloseOrExpire";
                    let line = line(&who, &Operation::of(name, znode), None, Outcome::Success);
                    put(Outcome::Success, &line);
                }
            }
            Self::Server(operation, outcome) => {
                put_field(&mut who, "user", own_user);
                let line = line(&who, &Operation::without_znode(operation), None, *outcome);
                put(*outcome, &line);
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

/// The names of all, as a line has them: a client may show very many, and each line would have them again.
fn users(identities: &Identities) -> Arc<str> {
    let mut text = String::new();
    for (number, name) in identities.all().iter().filter_map(user).enumerate() {
        if number > 0 {
            text.push(',');
        }
        let left = USERS_MAX.saturating_sub(text.len());
        if name.len() > left {
            text.push_str(name.get(..name.floor_char_boundary(left)).unwrap_or_default());
            text.push_str(CUT);
            break;
        }
        text.push_str(name);
    }
    text.into()
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
fn line(who: &str, operation: &Operation, znode: Option<&str>, outcome: Outcome) -> String {
    let mut line = who.to_owned();
    put_field(&mut line, "operation", operation.name);
    if let Some(znode) = znode.or(operation.znode.as_deref()) {
        put_field(&mut line, "znode", znode);
    }
    if let Some(znode_type) = operation.znode_type {
        put_field(&mut line, "znode_type", znode_type);
    }
    if let Some(acl) = &operation.acl {
        put_field(&mut line, "acl", acl);
    }
    put_field(&mut line, "result", outcome.name());
    line
}

#[cfg(test)]
mod tests {
    use jute::ErrorCode;
    use jute::protocol::{CreateRequest, CreateResponse, CreateTtlRequest, DeleteRequest};

    use super::*;
    use crate::engine::read::is_change;

    fn identity(scheme: &str, id: &str) -> Identity {
        Identity { scheme: scheme.into(), id: id.into() }
    }

    fn asked(request: &Request<'_>) -> Asked {
        let identities = Identities::from(vec![
            identity("ip", "::1"),
            identity("super", ""),
            identity("digest", "b:#"),
        ]);
        let address = [127, 0, 0, 1].into();
        let asked = Asked::of(request, SessionId(0xab), users(&identities), address);
        assert!(is_change(request));
        asked.expect("it changes something")
    }

    fn lines(asked: &Asked, answer: Option<Answer<'_>>) -> Vec<String> {
        told(asked, answer.as_ref()).iter().map(|line| line.replace('\t', " ")).collect()
    }

    fn told(asked: &Asked, answer: Option<&Answer<'_>>) -> Vec<String> {
        let came = answer.map_or(Came::Invoked, Came::of);
        let fact = Fact::Request(asked.clone(), came);
        let mut lines = Vec::new();
        fact.lines("root", |_, line| lines.push(line.to_owned()));
        assert_eq!(fact.line_count(), lines.len() as u64);
        lines
    }

    fn create(path: &str, mode: CreateMode) -> CreateRequest<'_> {
        CreateRequest { path: path.into(), data: None, acl: None, flags: mode.flags() }
    }

    const WHO: &str = "session=0xab user=::1,b ip=127.0.0.1";

    #[test]
    fn what_is_not_known_to_be_done_is_told_as_asked_for() {
        let one = asked(&Request::Create(create("/a-", CreateMode::PersistentSequential)));
        let line = |end: &str| vec![format!("{WHO} operation=create {end}")];
        let response = Response::Create(CreateResponse { path: "/a-7".into() });
        let znode_type = "znode_type=persistent_sequential";
        assert_eq!(lines(&one, None), line(&format!("znode=/a- {znode_type} result=invoked")));
        let done = lines(&one, Some(Ok(response)));
        assert_eq!(done, line(&format!("znode=/a-7 {znode_type} result=success")));
        let refused = lines(&one, Some(Err(ErrorCode::NoAuth)));
        assert_eq!(refused, line(&format!("znode=/a- {znode_type} result=failure")));
        let many =
            asked(&Request::Multi(vec![MultiOp::Create2(create("/a", CreateMode::Container))]));
        assert_eq!(lines(&many, None), [format!("{WHO} operation=multiOperation result=invoked")]);
    }

    /// ZooKeeper forgets the first, and of the second the type.
    #[test]
    fn creates_with_a_time_to_live_and_parts_with_a_suffix_have_their_type() {
        let request = CreateTtlRequest {
            path: "/t".into(),
            data: None,
            acl: None,
            flags: CreateMode::PersistentWithTtl.flags(),
            ttl: 1,
        };
        let ttl = lines(&asked(&Request::CreateTtl(request)), Some(Err(ErrorCode::NoNode)));
        let expected = "operation=create znode=/t znode_type=persistent_with_ttl result=failure";
        assert_eq!(ttl, [format!("{WHO} {expected}")]);

        let parts = vec![
            MultiOp::Create(create("/s-", CreateMode::EphemeralSequential)),
            MultiOp::Delete(DeleteRequest { path: "/d".into(), version: -1 }),
        ];
        let results = vec![MultiResult::Create("/s-1".into()), MultiResult::Delete];
        let multi = lines(&asked(&Request::Multi(parts)), Some(Ok(Response::Multi(results))));
        let expected = [
            "operation=create znode=/s-1 znode_type=ephemeral_sequential result=success",
            "operation=delete znode=/d result=success",
        ];
        assert_eq!(multi, expected.map(|end| format!("{WHO} {end}")));
    }

    #[test]
    fn a_path_begins_no_field_and_no_line_of_its_own() {
        let path = "/a\tresult=success\nsession=0x1";
        let one = asked(&Request::Delete(DeleteRequest { path: path.into(), version: -1 }));
        let lines = told(&one, Some(&Err(ErrorCode::NoNode)));
        let text = &lines[0];
        assert_eq!(text.split('\t').count(), 6, "{text}");
        assert!(!text.contains('\n') && text.ends_with("\tresult=failure"), "{text}");
    }

    #[test]
    fn the_names_of_very_many_are_cut() {
        let of = |names: &[String]| {
            let digests = names.iter().map(|name| identity("digest", &format!("{name}:#")));
            users(&Identities::from(digests.collect::<Vec<_>>()))
        };
        let names = |count: usize| (0..count).map(|i| format!("u{i:08}")).collect::<Vec<_>>();
        assert_eq!(&*of(&[]), "");
        // 102 of 9 bytes and the commas between them.
        assert_eq!(&*of(&names(102)), names(102).join(","));
        let cut = format!("{},u000{CUT}", names(102).join(","));
        assert!([103, 5000].iter().all(|count| *of(&names(*count)) == *cut), "{cut}");
        // Not within a character.
        assert_eq!(&*of(&["é".repeat(512), "b".into()]), format!("{},{CUT}", "é".repeat(512)));
        assert_eq!(&*of(&[format!("a{}", "é".repeat(600))]), format!("a{}{CUT}", "é".repeat(511)));
    }

    #[test]
    fn reads_are_not_audited() {
        let users = users(&Identities::default());
        for request in [Request::Ping, Request::WhoAmI, Request::CloseSession] {
            let address = [127, 0, 0, 1].into();
            assert!(Asked::of(&request, SessionId(1), Arc::clone(&users), address).is_none());
            assert!(!is_change(&request));
        }
    }
}
