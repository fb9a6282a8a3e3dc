//! The requests of a workload, cut from templates: only numbers are written for each.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::BytesMut;
use jute::protocol::{
    CheckVersionRequest, CreateRequest, DeleteRequest, MultiOp, Request, RequestHeader,
    SetDataRequest, WatchRequest, put_frame,
};
use jute::{Acl, Record as _};

/// The parent of everything that a run makes.
pub(crate) const ROOT: &str = "/bench";
/// A parent with [`LISTED`] children.
pub(crate) const LIST: &str = "/bench/list";
/// How many children a listing has.
pub(crate) const LISTED: u32 = 100;

/// xid and type code of a ping.
const PING: i32 = -2;

/// What the clients ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Workload {
    Get,
    Exists,
    Set,
    /// Nine gets, one set.
    Mixed,
    Create,
    /// An ephemeral znode created and deleted: two requests.
    Ephemeral,
    /// A check and two sets in one multi.
    Multi,
    /// The names of 100 children.
    Children,
    Ping,
}

/// Connections that have made requests in this run.
static MAKERS: AtomicU32 = AtomicU32::new(0);

/// Digits of a number in a path.
const DIGITS: usize = 9;

/// The znode of a key.
pub(crate) fn key_path(key: u32) -> String {
    format!("{ROOT}/k{key:0DIGITS$}")
}

/// A whole frame and where in it the numbers stand.
#[derive(Clone, Debug)]
struct Template {
    frame: Vec<u8>,
    /// Where a run of [`DIGITS`] digits begins.
    digits: Vec<usize>,
}

impl Template {
    /// `mark` is the number that stands in the paths of `request` until another replaces it.
    fn new(request: &Request<'_>, mark: &str) -> Self {
        let frame = frame(0, request);
        let digits = frame
            .windows(mark.len())
            .enumerate()
            .filter(|(_, window)| *window == mark.as_bytes())
            .map(|(at, _)| at)
            .collect();
        Self { frame, digits }
    }

    fn put(&self, xid: i32, number: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.frame);
        let frame = &mut out[start..];
        frame[4..8].copy_from_slice(&xid.to_be_bytes());
        for at in &self.digits {
            let mut rest = number;
            for place in frame[*at..*at + DIGITS].iter_mut().rev() {
                *place = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
    }
}

/// A request as it goes over the wire.
pub(crate) fn frame(xid: i32, request: &Request<'_>) -> Vec<u8> {
    let mut out = BytesMut::new();
    put_frame(&mut out, |out| {
        RequestHeader { xid, op: request.op_code().code() }.encode(out);
        request.encode(out);
    });
    out.to_vec()
}

pub(crate) fn create<'a>(path: &'a str, data: &'a [u8], flags: i32) -> Request<'a> {
    Request::Create(CreateRequest {
        path: path.into(),
        data: Some(Cow::Borrowed(data)),
        acl: Some(vec![Acl::anyone(31)]),
        flags,
    })
}

pub(crate) fn get(path: &str, watch: bool) -> Request<'_> {
    Request::GetData(WatchRequest { path: path.into(), watch })
}

pub(crate) fn exists(path: &str, watch: bool) -> Request<'_> {
    Request::Exists(WatchRequest { path: path.into(), watch })
}

pub(crate) fn set<'a>(path: &'a str, data: &'a [u8]) -> Request<'a> {
    Request::SetData(SetDataRequest {
        path: path.into(),
        data: Some(Cow::Borrowed(data)),
        version: -1,
    })
}

/// The requests of one connection, without an end.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    workload: Workload,
    templates: Vec<Template>,
    keys: u32,
    sent: u32,
    random: u64,
}

impl Requests {
    /// `connection` numbers the connections of a load, each of which chooses keys of its own.
    pub(crate) fn new(workload: Workload, connection: u32, keys: u32, value: &[u8]) -> Self {
        let mark = "9".repeat(DIGITS);
        let key = format!("{ROOT}/k{mark}");
        // An ephemeral one may be left at the end of a load: another letter than those that stay.
        let letter = if workload == Workload::Ephemeral { 'e' } else { 'c' };
        // A session of the load before may still have one, so no name comes twice in a run.
        let maker = MAKERS.fetch_add(1, Ordering::Relaxed);
        let own = format!("{ROOT}/{letter}{maker:05}-{mark}");
        let requests: Vec<Request<'_>> = match workload {
            Workload::Get => vec![get(&key, false)],
            Workload::Exists => {
                vec![exists(&key, false)]
            }
            Workload::Set => vec![set(&key, value)],
            Workload::Mixed => vec![get(&key, false), set(&key, value)],
            Workload::Create => vec![create(&own, value, 0)],
            Workload::Ephemeral => vec![
                create(&own, value, 1),
                Request::Delete(DeleteRequest { path: own.as_str().into(), version: -1 }),
            ],
            Workload::Multi => vec![Request::Multi(vec![
                MultiOp::Check(CheckVersionRequest { path: key.as_str().into(), version: -1 }),
                MultiOp::SetData(SetDataRequest {
                    path: key.as_str().into(),
                    data: Some(Cow::Borrowed(value)),
                    version: -1,
                }),
                MultiOp::SetData(SetDataRequest {
                    path: LIST.into(),
                    data: Some(Cow::Borrowed(value)),
                    version: -1,
                }),
            ])],
            Workload::Children => {
                vec![Request::GetChildren(WatchRequest { path: LIST.into(), watch: false })]
            }
            Workload::Ping => vec![Request::Ping],
        };
        let templates = requests.iter().map(|request| Template::new(request, &mark)).collect();
        let random = u64::from(connection).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { workload, templates, keys: keys.max(1), sent: 0, random }
    }

    /// Appends the next request.
    pub(crate) fn put_next(&mut self, out: &mut Vec<u8>) {
        let number = self.sent;
        self.sent = self.sent.wrapping_add(1);
        let (template, digits) = match self.workload {
            Workload::Create => (0, number),
            Workload::Ephemeral => ((number % 2) as usize, number / 2),
            Workload::Mixed => (usize::from(self.is_set_among_gets(number)), self.key()),
            _ => (0, self.key()),
        };
        self.templates[template].put(self.xid_of(number), digits, out);
    }

    /// The xid of the request with that number, as its answer has it.
    pub(crate) fn xid_of(&self, number: u32) -> i32 {
        if self.workload == Workload::Ping { PING } else { (number & 0x7fff_ffff) as i32 }
    }

    /// Whether the request with that number is the one of ten that changes something.
    pub(crate) fn is_set_among_gets(&self, number: u32) -> bool {
        self.workload == Workload::Mixed && number % 10 == 9
    }

    fn key(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (((self.random >> 32) * u64::from(self.keys)) >> 32) as u32
    }
}
