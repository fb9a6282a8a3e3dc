//! JSON as Jackson prints it with `INDENT_OUTPUT`: what scripts that look at lines expect.

use std::borrow::Cow;
use std::fmt;
use std::io;

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::ser::Formatter;

/// The fields of an object, in their order.
pub(super) type Fields = Vec<(Cow<'static, str>, Json)>;

/// A value whose fields keep their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Json {
    Null,
    Bool(bool),
    Integer(i64),
    Double(f64),
    Text(String),
    List(Vec<Self>),
    Object(Fields),
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl FromIterator<Self> for Json {
    fn from_iter<T: IntoIterator<Item = Self>>(values: T) -> Self {
        Self::List(values.into_iter().collect())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(value) => to.serialize_bool(*value),
            Self::Integer(value) => to.serialize_i64(*value),
            Self::Double(value) => to.serialize_f64(*value),
            Self::Text(value) => to.serialize_str(value),
            Self::List(values) => to.collect_seq(values),
            Self::Object(fields) => {
                let mut map = to.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

/// Writes values as Jackson prints them.
pub(super) fn pretty<W: io::Write>(to: W) -> serde_json::Serializer<W, impl Formatter> {
    serde_json::Serializer::with_formatter(to, Jackson::default())
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Vec::new();
        self.serialize(&mut pretty(&mut bytes)).map_err(|_| fmt::Error)?;
        f.write_str(&String::from_utf8_lossy(&bytes))
    }
}

/// Jackson's `DefaultPrettyPrinter`: each field of an object on a line, lists on one.
#[derive(Default)]
struct Jackson {
    depth: usize,
    has_field: bool,
}

impl Jackson {
    fn line<W: io::Write + ?Sized>(&self, to: &mut W) -> io::Result<()> {
        to.write_all(b"\n")?;
        (0..self.depth).try_for_each(|_| to.write_all(b"  "))
    }
}

impl Formatter for Jackson {
    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b" " } else { b", " })
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b" ]")
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.depth += 1;
        self.has_field = false;
        to.write_all(b"{")
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        if !first {
            to.write_all(b",")?;
        }
        self.line(to)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b" : ")
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_field = true;
        Ok(())
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, to: &mut W) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.has_field {
            self.line(to)?
        } else {
            to.write_all(b" ")?
        }
        to.write_all(b"}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the AdminServer of 3.9.5 printed it.
    #[test]
    fn it_looks_like_jacksons() {
        let object = |fields: &[(&'static str, Json)]| {
            Json::Object(
                fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect(),
            )
        };
        let one = object(&[("zxid", Json::Integer(1)), ("digest", Json::Integer(-2))]);
        let answer = object(&[
            ("none", object(&[])),
            ("empty", Json::List(Vec::new())),
            ("paths", ["/a", "/\"b\""].into_iter().map(Json::from).collect()),
            ("digests", [one.clone(), one].into_iter().collect()),
            ("deep", object(&[("deeper", object(&[("x", Json::Bool(true))]))])),
            ("avg_latency", Json::Double(31.0)),
            ("less", Json::Double(9.8333)),
            ("error", Json::Null),
        ]);
        let expected = r#"{
  "none" : { },
  "empty" : [ ],
  "paths" : [ "/a", "/\"b\"" ],
  "digests" : [ {
    "zxid" : 1,
    "digest" : -2
  }, {
    "zxid" : 1,
    "digest" : -2
  } ],
  "deep" : {
    "deeper" : {
      "x" : true
    }
  },
  "avg_latency" : 31.0,
  "less" : 9.8333,
  "error" : null
}"#;
        assert_eq!(answer.to_string(), expected);
    }
}
