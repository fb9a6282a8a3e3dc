//! Numbers, runs of bytes and lists, written and read.

use std::borrow::Cow;

use bytes::{BufMut as _, BytesMut};
use jute::{DecodeError, Record};

use super::FrameError;
use crate::engine::zxid::Zxid;

pub(super) fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    out.put_u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    out.put_slice(bytes);
}

pub(super) fn put_list<T>(out: &mut BytesMut, list: &[T], mut put: impl FnMut(&mut BytesMut, &T)) {
    out.put_u32(u32::try_from(list.len()).unwrap_or(u32::MAX));
    list.iter().for_each(|item| put(out, item));
}

/// What is left of a frame's content.
pub(super) struct Input<'a>(pub(super) &'a [u8]);

impl<'a> Input<'a> {
    pub(super) fn take<T: Record<'a>>(&mut self) -> Result<T, FrameError> {
        let (value, rest) = jute::decode(self.0)?;
        self.0 = rest;
        Ok(value)
    }

    pub(super) fn number(&mut self) -> Result<u64, FrameError> {
        self.take::<i64>().map(i64::cast_unsigned)
    }

    pub(super) fn zxid(&mut self) -> Result<Zxid, FrameError> {
        self.take().map(Zxid)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], FrameError> {
        match self.take::<Option<Cow<'a, [u8]>>>()? {
            Some(Cow::Borrowed(bytes)) => Ok(bytes),
            _ => Err(DecodeError::Null.into()),
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(super) fn text(&mut self) -> Result<String, FrameError> {
        self.take::<Cow<'a, str>>().map(Cow::into_owned)
    }

    /// As many as are said to be there. Room is taken for what came, not for what is said.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, FrameError>,
    ) -> Result<Vec<T>, FrameError> {
        let count = self.take::<i32>()?;
        let count = u32::try_from(count).map_err(|_| DecodeError::NegativeLength(count))?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(item(self)?);
        }
        Ok(list)
    }
}
