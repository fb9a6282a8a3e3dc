//! What a server says, as lines that can be compared: zxids stay numbers until all of a script's
//! are known and can be given ranks.

use std::collections::BTreeMap;

use bytes::{Buf, Bytes};
use compat_tests::Reply;
use serde::{Deserialize, Serialize};

use crate::script::{Op, op};

/// A zxid in a line.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Zxid {
    /// That of a transaction which the script can tell apart.
    Of(i64),
    /// The last one applied, whatever it was: how many of the script's are not above it counts.
    Last(i64),
}

/// Stands in a line's text for the next of its zxids.
const HOLE: char = '\u{1}';

/// One reply or event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Without the zxids.
    pub(crate) text: String,
    zxids: Vec<Zxid>,
    /// Apache ZooKeeper now and then closes before this is sent.
    pub(crate) may_be_lost: bool,
}

impl Line {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into().replace(HOLE, "?"), ..Self::default() }
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// 0 and -1 mean none, in both servers.
    fn zxid(&mut self, label: &str, zxid: Zxid) {
        let (Zxid::Of(number) | Zxid::Last(number)) = zxid;
        self.push(label);
        if number > 0 {
            self.text.push(HOLE);
            self.zxids.push(zxid);
        } else {
            self.push(&number.to_string());
        }
    }

    /// The same line with another text.
    pub(crate) fn with_text(&self, text: String) -> Self {
        Self { text, ..self.clone() }
    }

    /// All zxids that name a transaction.
    pub(crate) fn known(&self) -> impl Iterator<Item = i64> {
        self.zxids.iter().filter_map(|zxid| match zxid {
            Zxid::Of(number) => Some(*number),
            Zxid::Last(_) => None,
        })
    }

    /// The first zxid, by which events are grouped.
    pub(crate) fn first_zxid(&self) -> i64 {
        self.known().next().unwrap_or(-1)
    }

    /// The text with ranks: `z3` is the third of the script's, `z3+` is it or one after it.
    pub(crate) fn ranked(&self, known: &[i64]) -> String {
        let mut zxids = self.zxids.iter();
        let mut out = String::with_capacity(self.text.len() + 8);
        for char in self.text.chars() {
            if char != HOLE {
                out.push(char);
                continue;
            }
            let (Zxid::Of(number) | Zxid::Last(number)) = zxids.next().expect("one for each hole");
            out.push_str(&format!("z{}", known.partition_point(|zxid| zxid <= number)));
        }
        out
    }
}

/// The result of one request, or of one part of a multi.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub(crate) err: i32,
    /// Of a create.
    pub(crate) path: Option<String>,
    /// version and aversion, where there is a stat.
    pub(crate) versions: Option<(i32, i32)>,
}

/// A reply, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) err: i32,
    /// One, or as many as a multi has results.
    pub(crate) parts: Vec<Part>,
}

/// What names mean in one run against one server.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The top node's path.
    pub(crate) top: String,
    /// Sessions of the script.
    pub(crate) sessions: BTreeMap<i64, String>,
    /// Transaction to its time: it has only one.
    times: BTreeMap<i64, i64>,
    /// Whether the order of an ACL's entries is nobody's promise.
    sort_acls: bool,
}

impl Names {
    pub(crate) fn new(top: &str, sort_acls: bool) -> Self {
        Self { top: top.into(), sort_acls, ..Self::default() }
    }

    pub(crate) fn forget_times(&mut self) {
        self.times.clear();
    }

    fn relative(&self, path: &str) -> String {
        path.replace(&self.top, "$")
    }

    fn shown(&self, text: Option<&str>) -> String {
        text.map_or_else(|| "null".into(), |text| format!("{:?}", self.relative(text)))
    }

    pub(crate) fn event(&self, reply: &Reply) -> (Line, i32, String) {
        let mut line = Line::new("event ");
        let mut body = Reader(reply.body.clone());
        let (Some(kind), Some(state), Some(path)) = (body.int(), body.int(), body.string()) else {
            return (
                Line::new(format!("event without a body: {:?}", reply.body)),
                0,
                String::new(),
            );
        };
        let path = path.unwrap_or_default();
        line.push(&format!("{kind} {}", self.shown(Some(&path))));
        line.zxid(" ", Zxid::Of(reply.zxid));
        if (state, reply.err) != (3, 0) || body.0.has_remaining() {
            line.push(&format!(" state {state} err {} rest {:?}", reply.err, body.0));
        }
        (line, kind, self.relative(&path))
    }

    /// A reply to `request`.
    pub(crate) fn reply(&mut self, request: &Op, reply: &Reply) -> (Line, Answer) {
        let mut line = Line::new("");
        if reply.err != 0 {
            line.push(&format!("error {}", reply.err));
            line.zxid(" at ", Zxid::Last(reply.zxid));
            if reply.body.has_remaining() {
                line.push(&format!(" and a body {:?}", reply.body));
            }
            let part = Part { err: reply.err, ..Part::default() };
            return (line, Answer { err: reply.err, parts: vec![part] });
        }
        let mut body = Reader(reply.body.clone());
        let mut parts = Vec::new();
        if self.body(request, &mut body, &mut line, &mut parts).is_none() {
            line.push(&format!(" and then cannot be read: {:?}", reply.body));
        } else if body.0.has_remaining() {
            line.push(&format!(" and behind it {:?}", body.0));
        }
        let failed = parts.iter().any(|part| part.err != 0);
        let is_done = request.is_write() && !failed;
        let zxid = if is_done { Zxid::Of(reply.zxid) } else { Zxid::Last(reply.zxid) };
        line.zxid(" at ", zxid);
        (line, Answer { err: 0, parts })
    }

    fn body(
        &mut self,
        request: &Op,
        body: &mut Reader,
        line: &mut Line,
        parts: &mut Vec<Part>,
    ) -> Option<()> {
        if matches!(request.code(), op::MULTI | op::MULTI_READ) {
            return self.results(body, line, parts);
        }
        let mut part = Part::default();
        line.push("ok");
        self.result(request.code(), body, line, &mut part)?;
        parts.push(part);
        Some(())
    }

    fn results(&mut self, body: &mut Reader, line: &mut Line, parts: &mut Vec<Part>) -> Option<()> {
        line.push("results");
        loop {
            let (kind, done, err) = (body.int()?, body.byte()?, body.int()?);
            if done != 0 {
                if (kind, done, err) != (-1, 1, -1) {
                    line.push(&format!(" odd end {kind} {done} {err}"));
                }
                return Some(());
            }
            let mut part = Part { err, ..Part::default() };
            line.push(&format!("\n      {kind} err {err}"));
            if kind == -1 {
                let again = body.int()?;
                line.push(&format!(" {again}"));
                // An undone part says 0 and was not done.
                part.err = if err == 0 { -2 } else { err };
            } else {
                self.result(kind, body, line, &mut part)?;
            }
            parts.push(part);
        }
    }

    /// The body of one success.
    fn result(
        &mut self,
        code: i32,
        body: &mut Reader,
        line: &mut Line,
        part: &mut Part,
    ) -> Option<()> {
        match code {
            op::CREATE | op::CREATE2 | op::CREATE_CONTAINER | op::CREATE_TTL | op::SYNC => {
                let path = body.string()?;
                line.push(&format!(" {}", self.shown(path.as_deref())));
                part.path = path.map(|path| self.relative(&path));
                if !matches!(code, op::CREATE | op::SYNC) {
                    self.stat(body, line, part)?;
                }
            }
            op::EXISTS | op::SET_DATA | op::SET_ACL => self.stat(body, line, part)?,
            op::GET_DATA => {
                let data = body.buffer()?;
                line.push(&data.map_or_else(|| " null".into(), |data| format!(" {data:?}")));
                self.stat(body, line, part)?;
            }
            op::GET_ACL => {
                let mut entries = Vec::new();
                for _ in 0..body.int()? {
                    let (perms, scheme, id) = (body.int()?, body.string()?, body.string()?);
                    entries.push(format!(" {perms} {scheme:?} {id:?}"));
                }
                if self.sort_acls {
                    entries.sort();
                }
                line.push(&entries.concat());
                self.stat(body, line, part)?;
            }
            op::GET_CHILDREN | op::GET_CHILDREN2 | op::GET_EPHEMERALS => {
                let mut names = Vec::new();
                for _ in 0..body.int()? {
                    let name = body.string()?;
                    names.push(self.shown(name.as_deref()));
                }
                names.sort();
                line.push(&shortened(&names));
                if code == op::GET_CHILDREN2 {
                    self.stat(body, line, part)?;
                }
            }
            op::WHO_AM_I => {
                let mut infos = Vec::new();
                for _ in 0..body.int()? {
                    infos.push(format!(" {:?} {:?}", body.string()?, body.string()?));
                }
                infos.sort();
                line.push(&infos.concat());
            }
            op::ALL_CHILDREN_NUMBER | op::ADD_WATCH => line.push(&format!(" {}", body.int()?)),
            _ => {}
        }
        Some(())
    }

    fn stat(&mut self, body: &mut Reader, line: &mut Line, part: &mut Part) -> Option<()> {
        let (czxid, mzxid, ctime, mtime) = (body.long()?, body.long()?, body.long()?, body.long()?);
        let (version, cversion, aversion) = (body.int()?, body.int()?, body.int()?);
        let owner = body.long()?;
        let (length, children, pzxid) = (body.int()?, body.int()?, body.long()?);
        part.versions = Some((version, aversion));
        for (label, zxid) in [(" c=", czxid), (" m=", mzxid), (" p=", pzxid)] {
            line.zxid(label, Zxid::Of(zxid));
        }
        line.push(&format!(
            " version={version} cversion={cversion} aversion={aversion} length={length} \
             children={children}"
        ));
        if owner != 0 {
            let name = self.sessions.get(&owner).map_or("a stranger", String::as_str);
            line.push(&format!(" owner={name}"));
        }
        for (zxid, time) in [(czxid, ctime), (mzxid, mtime)] {
            let known = *self.times.entry(zxid).or_insert(time);
            if known != time || (zxid == 0) != (time == 0) {
                line.push(&format!(" TIMES {time} and {known} of one transaction"));
            }
        }
        Some(())
    }
}

/// Sorted names; those that were there before the script as the runs of their numbers.
fn shortened(names: &[String]) -> String {
    let number = |name: &String| name.trim_matches('"').strip_prefix("resident-")?.parse().ok();
    let follows = |one: &String, next: &String| {
        number(one).is_some_and(|one: usize| number(next) == Some(one + 1))
    };
    let mut out = String::from(" [");
    for run in names.chunk_by(follows) {
        match run {
            [first, .., last] => out.push_str(&format!(" {first}..={last}")),
            _ => run.iter().for_each(|name| out.push_str(&format!(" {name}"))),
        }
    }
    out.push_str(" ]");
    out
}

/// The front of a body; None where it ends too early.
struct Reader(Bytes);

impl Reader {
    fn byte(&mut self) -> Option<u8> {
        self.0.try_get_u8().ok()
    }

    fn int(&mut self) -> Option<i32> {
        self.0.try_get_i32().ok()
    }

    fn long(&mut self) -> Option<i64> {
        self.0.try_get_i64().ok()
    }

    fn buffer(&mut self) -> Option<Option<Bytes>> {
        let length = self.int()?;
        if length == -1 {
            return Some(None);
        }
        let length = usize::try_from(length).ok()?;
        (self.0.remaining() >= length).then(|| Some(self.0.split_to(length)))
    }

    fn string(&mut self) -> Option<Option<String>> {
        let bytes = self.buffer()?;
        Some(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }
}
