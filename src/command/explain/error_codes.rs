//! ZooKeeper's error codes: what each means, when this server sends it, what to do.

/// A value of `KeeperException.Code`, or of the C client's own.
#[derive(Debug)]
pub(super) struct ErrorCode {
    pub(super) code: i32,
    /// That of Java's exception, in front of `Exception`; of C's constant after the `Z` where only
    /// C has it.
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

const MARKER: &str = "The start of a range of codes; no server sends it.";
const MISUSE: &str = "Correct the call.";
const NOTHING: &str = "Nothing.";

/// Every code, from the top.
#[rustfmt::skip]
pub(super) const ERROR_CODES: [ErrorCode; 35] = [
    row(0, "Ok", "The request succeeded.", NOTHING),
    row(-1, "SystemError", MARKER, NOTHING),
    row(-2, "RuntimeInconsistency",
       "This part of a multi was not attempted, because another part \
        failed.", "Look \
        at the part with a different code: that one failed."),
    row(-3, "DataInconsistency", "Not sent by any server.", NOTHING),
    row(-4, "ConnectionLoss",
       "The client lost its connection before the answer arrived. The \
        request may have been carried out.",
       "Let \
        the client reconnect, read whether the request took effect, and only then send it again."),
    row(-5, "MarshallingError",
       "The server cannot decode the request, or the log record of a \
        multi or create would be too long to be read back.",
       "Look \
        for a client that speaks another protocol or has a bug; compare `jute.maxbuffer` on both \
        sides."),
    row(-6, "Unimplemented",
       "The operation does not exist or is turned off, such as a create with \
        a TTL without `extendedTypesEnabled`, or a reconfig of a standalone server.",
       "Turn \
        it on, or do without."),
    row(-7, "OperationTimeout",
       "From a client: no answer in time. From this server: disk or \
        memory is nearly full, and the write would take up more of it.",
       "Look \
        for `nearly full` or `nearly used up` in the server's log. Give it more space; for memory, \
        deleting znodes helps too. Never delete files of the data directory by hand. Once there is \
        enough, writes are accepted again without a restart."),
    row(-8, "BadArguments",
       "A path, a create mode, a TTL or a configuration is not valid; or a \
        multiRead asks for more than fits into one answer.", MISUSE),
    row(-9, "InvalidState",
       "From the C client: its handle is closed or its session has \
        expired.", "Open \
        a new handle."),
    row(-12, "UnknownSession", "The session does not exist; no client ever sees this \
        code.", NOTHING),
    row(-13, "NewConfigNoQuorum",
       "No majority of the servers in a new configuration is up to \
        date.",
       "Start the new servers first, and wait until they serve; then try again."),
    row(-14, "ReconfigInProgress", "Another reconfig is still in progress.",
       "Try again when it is done; right after the start of an ensemble, when \
        `/zookeeper/config` has a version."),
    row(-100, "APIError", MARKER, NOTHING),
    row(-101, "NoNode",
       "The znode does not exist; for a create, its parent does not.",
       "Check the \
        path, and the chroot in the client's connect string; create the parent first."),
    row(-102, "NoAuth",
       "The znode's ACL, or for a create or delete its parent's, does not permit \
        the request to the identities of this connection.",
       "Authenticate \
        (`addauth`) before the request; `getAcl` shows who has permission."),
    row(-103, "BadVersion",
       "The znode was changed since its version was read.",
       "Read it again \
        and decide again. Version -1 is not checked: it overwrites what others have written."),
    row(-108, "NoChildrenForEphemerals",
       "The parent is ephemeral.", "Create it under a persistent \
        znode."),
    row(-110, "NodeExists",
       "A znode with that name already exists.",
       "It is another client's, \
        or this client's own from before a lost connection; a sequential znode has a unique name."),
    row(-111, "NotEmpty",
       "The znode that was to be deleted has children.", "Look \
        at what is below it (`ls -R`). If none of it is needed, `deleteall` deletes the znode and \
        everything below it."),
    row(-112, "SessionExpired",
       "The session has ended: its client was not heard from for the \
        session timeout, or closed it. Its ephemeral znodes are gone.",
       "Open \
        a new session and set up ephemeral znodes and watches again. Look for pauses in the \
        client; increase its timeout, up to `maxSessionTimeout`."),
    row(-113, "InvalidCallback", "From a client library: a callback that cannot be used.", MISUSE),
    row(-114, "InvalidACL",
       "The ACL is empty, names an unknown scheme or a malformed id, or says \
        `auth` on a connection that has not authenticated; or it is too long for the log once \
        `auth` is replaced.", "Correct \
        the ACL."),
    row(-115, "AuthFailed",
       "The server rejected the authentication, or the connection has \
        presented more than 64 KiB of identities; it is closed.",
       "Check \
        the scheme and the secret; only digest and ip are supported, not SASL or X.509."),
    row(-116, "Closing", "From the C client: its handle is being closed.", NOTHING),
    row(-117, "Nothing", "From the C client: there is no answer to process yet.", NOTHING),
    row(-118, "SessionMoved",
       "The session has moved to another connection. The server closes the \
        old one instead of sending this code.", "Do \
        not share a session between processes."),
    row(-119, "NotReadOnly",
       "A write or a sync at a server that has no leader and serves only reads \
        (`readonlymode.enabled`).", "Repeat \
        it when the client is connected to a server that has a leader."),
    row(-120, "EphemeralOnLocalSession",
       "An ephemeral znode needs a global session, and this one \
        is local.", "Set \
        `localSessionsUpgradingEnabled=true`, or `localSessionsEnabled=false`."),
    row(-121, "NoWatcher",
       "This session has no such watch to remove.",
       "Check the path and the \
        type: data, children or any."),
    row(-122, "RequestTimeout",
       "From the Java client: no answer within \
        `zookeeper.request.timeout`.", "Check \
        the server's latency; increase the timeout."),
    row(-123, "ReconfigDisabled",
       "Reconfig is turned off.",
       "Change the server list in every \
        zoo.cfg and restart the servers one at a time."),
    row(-124, "SessionClosedRequireSaslAuth",
       "The connection has not authenticated as the server \
        requires, and is closed.", "Authenticate \
        first, with one of `enforce.auth.schemes`."),
    row(-125, "QuotaExceeded",
       "A hard quota of the znode or one above it would be exceeded.",
       "`listquota` \
        shows it; delete something, or change it with `setquota`."),
    row(-127, "ThrottledOp",
       "The request waited longer than `throttled_op_wait_time`.",
       "Reduce \
        the load, or raise `throttled_op_wait_time`."),
];
