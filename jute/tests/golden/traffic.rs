//! Frames as they passed between ZooKeeper's server and its Java client.

use std::borrow::Cow;

use bytes::BytesMut;
use jute::protocol::{
    AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, Children2Response,
    ChildrenResponse, ClientInfo, ConnectRequest, ConnectResponse, Create2Response, CreateRequest,
    CreateResponse, CreateTtlRequest, DeleteRequest, EphemeralsRequest, EphemeralsResponse,
    ErrorResponse, EventType, GetAclResponse, GetDataResponse, KeeperState, LENGTH_LEN, MultiOp,
    MultiResult, PathRequest, ReadOp, ReconfigRequest, ReplyHeader, Request, RequestHeader,
    Response, SaslRequest, SaslResponse, SetAclRequest, SetDataRequest, SetWatches2Request,
    SetWatchesRequest, SyncRequest, SyncResponse, WatchRequest, WatcherEvent, WatcherType,
    WatcherTypeRequest, WhoAmIResponse, put_event, put_frame, put_refusal, put_reply, xid,
};
use jute::{CreateMode, DecodeError, ErrorCode, OpCode, Record, Stat, decode};

use super::{Golden, acls, count_up, data, decode_response, open, stat, text, texts};

const SESSION: i64 = 0x0100_001e_b04d_0000;
const PASSWORD: [u8; 16] = 0xa9c2_2c26_82e9_5346_2f04_5efd_9b4a_c08b_u128.to_be_bytes();

impl Golden {
    /// The payload of a frame, without its length.
    fn payload(&mut self, name: &str) -> &'static [u8] {
        let (len, payload) = decode::<i32>(self.take(name)).expect(name);
        assert_eq!(usize::try_from(len), Ok(payload.len()), "{name}");
        payload
    }

    fn frame<T: Record<'static> + PartialEq + std::fmt::Debug>(&mut self, name: &str, record: &T) {
        let payload = self.payload(name);
        assert_eq!(decode(payload).as_ref(), Ok(&(record, &[][..])).map(|_| unreachable!()));
    }
}
