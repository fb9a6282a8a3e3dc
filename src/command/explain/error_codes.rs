//! ZooKeeper's error codes: what each means, when this server sends it, what to do.

/// A value of `KeeperException.Code`, or of the C client's own.
#[derive(Debug)]
pub(super) struct ErrorCode {
    pub(super) code: i32,
    /// That of Java's exception, in front of `Exception`; of C's constant behind the `Z` where only C has it.
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) remedy: &'static str,
}

const fn row(
    code: i32,
    name: &'static str,
    meaning: &'static str,
    remedy: &'static str,
) -> ErrorCode {
    ErrorCode { code, name, meaning, remedy }
}

const MARKER: &str = "The begin of a range of codes; no server sends it.";
const NO_RECONFIG: &str = "Nothing here: it is not sent, since there is no reconfig.";
const MISUSE: &str = "Correct the call.";
const NOTHING: &str = "Nothing.";

/// Every code, from the top.
#[rustfmt::skip]
pub(super) const ERROR_CODES: [ErrorCode; 35] = [
    row(0, "Ok", "The request was done.", NOTHING),
    row(-1, "SystemError", MARKER, NOTHING),
    row(-2, "RuntimeInconsistency", "A part of a multi that was not tried, because another one failed.", "Look at the part with another code: that one failed."),
    row(-3, "DataInconsistency", "Not sent by any server.", NOTHING),
    row(-4, "ConnectionLoss", "The client lost its server before the answer. The request may have been done.", "Let the client reconnect, read what came of the request, and only then send it again."),
    row(-5, "MarshallingError", "The server cannot decode the request, or a multi or create would be longer in the log than it can be read back.", "Look for a client of another protocol or with a defect; compare `jute.maxbuffer` of both sides."),
    row(-6, "Unimplemented", "The operation does not exist, or is switched off: a create with a time to live without `extendedTypesEnabled`, a reconfig of a lone server.", "Switch it on, or do without."),
    row(-7, "OperationTimeout", "From a client: no answer in time. From this server: disk or memory is nearly full, and the write would take more of it.", "Look for `nearly full` or `nearly used up` in the server's log; delete znodes, or give it more room. Writes are taken again by themselves then."),
    row(-8, "BadArguments", "A path, a create mode, a time to live or a configuration that is not valid; of a multiRead, more than fits into an answer.", MISUSE),
    row(-9, "InvalidState", "Of the C client: its handle is closed or its session has expired.", "Open a new handle."),
    row(-12, "UnknownSession", "The session does not exist; no client sees it.", NOTHING),
    row(-13, "NewConfigNoQuorum", "The servers of a new configuration have no majority that is up to date.", NO_RECONFIG),
    row(-14, "ReconfigInProgress", "Another reconfig is not through.", NO_RECONFIG),
    row(-100, "APIError", MARKER, NOTHING),
    row(-101, "NoNode", "The znode does not exist; for a create its parent.", "Check the path, and the chroot in the client's connect string; create the parent first."),
    row(-102, "NoAuth", "The znode's ACL, or for a create and a delete that of its parent, does not allow it to the identities of this connection.", "Authenticate (`addauth`) ahead of the request; `getAcl` shows who may."),
    row(-103, "BadVersion", "The znode was changed since its version was read.", "Read again, decide again; -1 for any version."),
    row(-108, "NoChildrenForEphemerals", "The parent is ephemeral.", "Create below a persistent znode."),
    row(-110, "NodeExists", "There is a znode of that name.", "Take it for another's, or for one's own of before a lost connection; a sequence number makes names unique."),
    row(-111, "NotEmpty", "The znode that should be deleted has children.", "Delete them first (`deleteall`)."),
    row(-112, "SessionExpired", "The session has ended: its client was not heard of for its timeout, or closed it. Its ephemeral znodes are gone.", "Open a new session and set up ephemeral znodes and watches again. Look for pauses of the client; lengthen its timeout, up to `maxSessionTimeout`."),
    row(-113, "InvalidCallback", "Of a client's library: a callback that cannot be used.", MISUSE),
    row(-114, "InvalidACL", "The ACL is empty, names a scheme that does not exist or an id that is malformed, or says `auth` where nobody has authenticated; or with `auth` replaced it is too long for the log.", "Correct the ACL."),
    row(-115, "AuthFailed", "The server did not take what was shown, or the connection has shown more than 64 KiB of identities; it is closed.", "Check scheme and secret; there are digest and ip here, no SASL and no X.509."),
    row(-116, "Closing", "Of the C client: its handle is being closed.", NOTHING),
    row(-117, "Nothing", "Of the C client: there is no answer to handle yet.", NOTHING),
    row(-118, "SessionMoved", "The session goes on through another connection. The server closes the old one instead of sending it.", "Share a session between processes no more."),
    row(-119, "NotReadOnly", "A write to a server without a majority that serves reads.", "Nothing here: it is not sent, since there is no read-only mode."),
    row(-120, "EphemeralOnLocalSession", "An ephemeral znode needs a session of the whole ensemble, and this one is local.", "Set `localSessionsUpgradingEnabled=true`, or `localSessionsEnabled=false`."),
    row(-121, "NoWatcher", "This session has no such watch that could be removed.", "Check path and kind: data, children or any."),
    row(-122, "RequestTimeout", "Of Java's client: no answer within `zookeeper.request.timeout`.", "Look at the server's latency; lengthen the timeout."),
    row(-123, "ReconfigDisabled", "Reconfig is switched off.", "Change the list of servers in every zoo.cfg and restart them one after the other."),
    row(-124, "SessionClosedRequireSaslAuth", "The connection has not authenticated as the server requires, and is closed.", "Authenticate first, by one of `enforce.auth.schemes`."),
    row(-125, "QuotaExceeded", "A hard quota of the znode or one above it would be exceeded.", "`listquota` shows it; delete, or set it anew with `setquota`."),
    row(-127, "ThrottledOp", "The request waited longer than `throttled_op_wait_time`.", "Nothing here: it is not sent, since requests are not throttled so."),
];
