//! Records of the client protocol.
//!
//! A frame is a 4-byte length and that many bytes. The first frame of a client is a
//! [`ConnectRequest`], every later one a [`RequestHeader`] and the body of a [`Request`]; the
//! server answers with a [`ConnectResponse`], then with a [`ReplyHeader`] and, where it succeeded,
//! a [`Response`].

mod connect;
mod frame;
mod header;
mod multi;
mod request;
mod response;
mod watcher_event;

pub use connect::{ConnectRequest, ConnectResponse};
pub use frame::{LENGTH_LEN, put_event, put_frame, put_refusal, put_reply};
pub use header::{ReplyHeader, RequestHeader, xid};
pub use multi::{MultiHeader, MultiOp, MultiResult, ReadOp};
pub use request::{
    AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, CreateRequest,
    CreateTtlRequest, DeleteRequest, EphemeralsRequest, PathRequest, ReconfigRequest, Request,
    SaslRequest, SetAclRequest, SetDataRequest, SetWatches2Request, SetWatchesRequest, SyncRequest,
    WatchRequest, WatcherType, WatcherTypeRequest,
};
pub use response::{
    Children2Response, ChildrenResponse, ClientInfo, Create2Response, CreateResponse,
    EphemeralsResponse, ErrorResponse, GetAclResponse, GetDataResponse, Response, SaslResponse,
    SyncResponse, WhoAmIResponse,
};
pub use watcher_event::{EventType, KeeperState, WatcherEvent};
