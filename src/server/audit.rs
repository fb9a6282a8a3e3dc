//! The audit log: who changed what, a line each, as ZooKeeper writes it (reference 12.7).
//!
//! A request is noted when it goes to the orderer and told when its answer comes. One that loses its connection
//! before that is told as `invoked`: it may be done or not. Lines go through a bounded queue to a thread; where nobody
//! takes them they are lost, and the log says so.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::process;

use jute::protocol::{MultiOp, MultiResult, Request, Response};
use jute::{Acl, CreateMode, perms};
use parking_lot::Mutex;
use time::OffsetDateTime;
use time::macros::format_description;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, WorkerGuard};

use super::environment;
use crate::config::AuditTo;
use crate::engine::acl::Identity;
use crate::engine::session::SessionId;
use crate::ensemble::Answer;
use crate::logging::{RollingFile, queue_to};
use crate::message::MessageId;

/// Where programs on this machine leave lines for syslog.
const SYSLOG: &str = "/dev/log";
/// Facility 13 of RFC 5424, log audit.
const FACILITY: u8 = 13;
const NOTICE: u8 = 5;
const ERROR: u8 = 3;

/// Words of the log4j layout that ZooKeeper comes with.
const LOGGER: &str = "audit.Slf4jAuditLogger";

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

/// A request that changes something, until its answer comes.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The fields ahead of the operation.
    who: String,
    what: What,
}

impl Asked {
    /// `None` where a request changes nothing.
    pub(super) fn of(
        request: &Request<'_>,
        session: SessionId,
        identities: &[Identity],
        address: &str,
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
        let users: Vec<&str> = identities.iter().filter_map(user).collect();
        let mut who = String::new();
        put(&mut who, "session", &format!("0x{:x}", session.0));
        put(&mut who, "user", &users.join(","));
        put(&mut who, "ip", address);
        Some(Self { who, what })
    }

    /// What came of it, a line each.
    fn lines(&self, answer: Option<&Answer<'_>>) -> Vec<(Outcome, String)> {
        let line = |operation: &Operation, znode: Option<&str>, outcome| {
            (outcome, line(self.who.clone(), operation, znode, outcome))
        };
        match (&self.what, answer) {
            (What::One(operation), None) => vec![line(operation, None, Outcome::Invoked)],
            (What::One(operation), Some(Err(_))) => vec![line(operation, None, Outcome::Failure)],
            (What::One(operation), Some(Ok(response))) => {
                vec![line(operation, created(response), Outcome::Success)]
            }
            (What::Multi(parts), Some(Ok(Response::Multi(results)))) if all_done(results) => {
                let done = parts.iter().zip(results);
                done.filter_map(|(part, result)| {
                    let znode = match result {
                        MultiResult::Create(path) | MultiResult::Create2(path, _) => Some(path),
                        _ => None,
                    };
                    let znode = znode.map(|path| &**path);
                    part.as_ref().map(|part| line(part, znode, Outcome::Success))
                })
                .collect()
            }
            (What::Multi(_), answer) => {
                let outcome = answer.map_or(Outcome::Invoked, |_| Outcome::Failure);
                vec![line(&Operation::without_znode("multiOperation"), None, outcome)]
            }
        }
    }
}

fn all_done(results: &[MultiResult<'_>]) -> bool {
    !results.iter().any(|result| matches!(result, MultiResult::Error(_)))
}

/// The path with its suffix.
fn created<'a>(response: &'a Response<'_>) -> Option<&'a str> {
    match response {
        Response::Create(its) => Some(&its.path),
        Response::Create2(its) => Some(&its.path),
        _ => None,
    }
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

fn put(line: &mut String, key: &str, value: &str) {
    if !line.is_empty() {
        line.push('\t');
    }
    line.push_str(key);
    line.push('=');
    // A path must not begin a field or a line of its own.
    line.extend(value.chars().filter(|character| !character.is_control()));
}

/// `znode` is there where it is another than was asked for.
fn line(mut who: String, operation: &Operation, znode: Option<&str>, outcome: Outcome) -> String {
    put(&mut who, "operation", operation.name);
    if let Some(znode) = znode.or(operation.znode.as_deref()) {
        put(&mut who, "znode", znode);
    }
    if let Some(znode_type) = operation.znode_type {
        put(&mut who, "znode_type", znode_type);
    }
    if let Some(acl) = &operation.acl {
        put(&mut who, "acl", acl);
    }
    put(&mut who, "result", outcome.name());
    who
}

/// The audit log of a server.
#[derive(Debug)]
pub(super) struct Audit {
    lines: Mutex<NonBlocking>,
    lost: ErrorCounter,
    is_syslog: bool,
    /// Whose process this is.
    own_user: String,
    worker: Mutex<Option<WorkerGuard>>,
}

impl Audit {
    /// # Errors
    /// When there is no such place.
    pub(super) fn open(to: &AuditTo) -> io::Result<Self> {
        let (lines, worker) = match to {
            AuditTo::Stdout => queue_to(io::stdout()),
            AuditTo::Syslog => queue_to(Syslog::connect()?),
            AuditTo::File(path) => queue_to(RollingFile::open(path)?),
        };
        Ok(Self {
            lost: lines.error_counter(),
            lines: Mutex::new(lines),
            is_syslog: *to == AuditTo::Syslog,
            own_user: environment::user_name(),
            worker: Mutex::new(Some(worker)),
        })
    }

    /// The server takes clients from here on.
    pub(super) fn started(&self) {
        self.of_server("serverStart", Outcome::Success);
    }

    /// The server is asked to end.
    pub(super) fn stopping(&self) {
        self.of_server("serverStop", Outcome::Invoked);
    }

    fn of_server(&self, operation: &'static str, outcome: Outcome) {
        let mut who = String::new();
        put(&mut who, "user", &self.own_user);
        self.write(outcome, &line(who, &Operation::without_znode(operation), None, outcome));
    }

    /// Waits a moment until every line is written; none comes behind this.
    pub(super) fn end(&self) {
        drop(self.worker.lock().take());
    }

    /// A request has its answer; `None` where it has lost its connection instead.
    pub(super) fn answered(&self, asked: &Asked, answer: Option<&Answer<'_>>) {
        for (outcome, line) in asked.lines(answer) {
            self.write(outcome, &line);
        }
    }

    /// A session has ended, and its ephemeral with it.
    pub(super) fn ephemeral_gone(&self, session: SessionId, znode: &str) {
        let mut who = String::new();
        put(&mut who, "session", &format!("0x{:x}", session.0));
        put(&mut who, "user", &self.own_user);
        let operation = Operation::of("ephemeralZNodeDeletionOnSessionCloseOrExpire", znode);
        self.write(Outcome::Success, &line(who, &operation, None, Outcome::Success));
    }

    fn write(&self, outcome: Outcome, line: &str) {
        let now = OffsetDateTime::now_utc();
        let is_failure = outcome == Outcome::Failure;
        let line = if self.is_syslog {
            let format = format_description!(
                "[month repr:short] [day padding:space] [hour]:[minute]:[second]"
            );
            let severity = if is_failure { ERROR } else { NOTICE };
            let priority = FACILITY * 8 + severity;
            let time = now.format(format).unwrap_or_default();
            format!("<{priority}>{time} rookeeper[{}]: {line}", process::id())
        } else {
            let format = format_description!(
                "[year]-[month]-[day] [hour]:[minute]:[second],[subsecond digits:3]"
            );
            let level = if is_failure { "ERROR" } else { "INFO" };
            format!("{} {level} {LOGGER}: {line}\n", now.format(format).unwrap_or_default())
        };
        let lost = self.lost.dropped_lines();
        // It takes the line or loses it.
        let _ = self.lines.lock().write_all(line.as_bytes());
        if self.lost.dropped_lines() > lost {
            tracing::error!(
                id = %MessageId::AUDIT_LINES_LOST,
                "lines of the audit log are lost: nothing takes them fast enough"
            );
        }
    }
}

/// This machine's syslog.
#[derive(Debug)]
struct Syslog(UnixDatagram);

impl Syslog {
    fn connect() -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(SYSLOG)?;
        Ok(Self(socket))
    }
}

impl Write for Syslog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // It may have been restarted.
        if self.0.send(line).is_err() {
            self.0.connect(SYSLOG)?;
            self.0.send(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jute::ErrorCode;
    use jute::protocol::{CreateRequest, CreateResponse, CreateTtlRequest, DeleteRequest};

    use super::*;

    fn asked(request: &Request<'_>) -> Asked {
        let identity = |scheme: &str, id: &str| Identity { scheme: scheme.into(), id: id.into() };
        let identities = [identity("ip", "::1"), identity("super", ""), identity("digest", "b:#")];
        Asked::of(request, SessionId(0xab), &identities, "::1").expect("it changes something")
    }

    fn lines(asked: &Asked, answer: Option<Answer<'_>>) -> Vec<String> {
        let lines = asked.lines(answer.as_ref());
        lines.into_iter().map(|(_, line)| line.replace('\t', " ")).collect()
    }

    fn create(path: &str, mode: CreateMode) -> CreateRequest<'_> {
        CreateRequest { path: path.into(), data: None, acl: None, flags: mode.flags() }
    }

    const WHO: &str = "session=0xab user=::1,b ip=::1";

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
        let lines = one.lines(Some(&Err(ErrorCode::NoNode)));
        let text = &lines[0].1;
        assert_eq!(text.split('\t').count(), 6, "{text}");
        assert!(!text.contains('\n') && text.ends_with("\tresult=failure"), "{text}");
    }

    #[test]
    fn reads_are_not_audited() {
        let identities: [Identity; 0] = [];
        for request in [Request::Ping, Request::WhoAmI, Request::CloseSession] {
            assert!(Asked::of(&request, SessionId(1), &identities, "").is_none());
        }
    }
}
