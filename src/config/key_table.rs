//! The table of keys: what is in it, `keys` explains.

use super::keys::Fate::{Better, Meaningless, NotYet, Refused, Works};
use super::keys::Refusal::{
    Always, IfTrue, IfTrueInEnsemble, IfTrueWithTls, UnknownProvider, WithTls,
};
use super::keys::Section;
use super::keys::Syntax::{Bool, Int, Long, LongDecimal, PeerType, Text};
use super::keys::{INT_MAX, INT_MIN, Range, bare, either, from, in_file, property};

const PORT: Range = Range { least: 0, most: u16::MAX as i64 };
/// Any Java `long`.
const ANY: Range = Range { least: i64::MIN, most: i64::MAX };
const IN_KB: Range = Range { least: i64::MIN, most: i64::MAX >> 10 };
const MS: &str = "a number of milliseconds";

const NO_TLS: &str = "Not yet: there is no TLS for clients.";
const NO_SASL: &str = "Not yet: there is no SASL.";
const NO_ADMIN_TLS: &str = "Not yet: the AdminServer has no TLS.";
const PATH_STATS: &str = "Requests are always counted by path, and never logged: \
                          see `ferrokeeper top` and the command `hot_paths`.";
const INSIDE: &str = "Tunes internals of Apache ZooKeeper.";
const CLIENTS: &str = "Read by clients only.";
const OTHER_WAY: &str = "Servers connect to each other in a different way.";
const RAFT: &str = "Servers elect a leader by Raft.";
const CATCHES_UP: &str = "A follower catches up from the leader's log, as far back as that goes.";
const NO_QUORUM_SASL: &str = "`true` is refused in an ensemble: there is no SASL between servers; \
     use `quorum.auth.secretFile` or `sslQuorum`.";
const WATCHES: &str = "A watch is removed when its connection ends.";
const NO_JVM: &str = "There is no JVM to pause.";
const TESTS: &str = "For ZooKeeper's own tests.";
const REVOKED: &str =
    "`true` is refused with TLS between servers: a revoked certificate would be accepted.";
const OF_QUORUM_SASL: &str = "Part of `quorum.auth.enableSasl`.";
const SUMMARIES: &str = "Summaries are updated in place, without worker threads.";
const PEM: &str = "PEM certificates have no password.";
const CLIENTS_BY_DEFINE: &str =
    "Read by clients, from `-D`; a line in zoo.cfg is refused, as by ZooKeeper.";
const LOG_LEVEL: &str = "Configures log4j or logback; here, `FERROKEEPER_LOG` sets the level.";
const LOG_FILE: &str =
    "Configures log4j or logback; here, `log.dir` and `log.file` set the log file.";

/// In the order of the documentation; `{default}` in a sentence is the default of its row.
#[rustfmt::skip] // A row is a line, as in any table.
pub const KEYS: &[Section] = &[
    Section { heading: "Directories and files", keys: &[
        in_file("dataDir", Text, Works, "Parent of `version-2` with the snapshots; no default."),
        in_file("dataLogDir", Text, Works, "Parent of `version-2` with the log; default `dataDir`."),
        property("datadir.autocreate", Text, Works, "Whether missing folders are created; default {default}.").flag(true),
        property("db.autocreate", Text, Works, "Whether an empty folder counts as a new database; default {default}.").flag(true),
        property("snapshot.trust.empty", Text, Works, "Whether a standalone server accepts logs without a snapshot as the complete state; default {default}.").flag(false),
        property("snapshot.compression.method", Text, Works, "`gz` or `snappy`: how snapshots are compressed; all three forms can be read."),
        property("preAllocSize", LongDecimal, Better, "Size of a log segment in KB, default {default}; segments are prepared in advance, so that no write waits for one.")
            .number(64 << 10, IN_KB, "a number of KB"),
        property("txnLogSizeLimitInKb", Long, Works, "Greatest size of a log segment in KB; ignored if it is not less than `preAllocSize`; -1 means no limit.")
            .number(-1, IN_KB, "a number of KB"),
        property("snapCount", Int, Works, "Transactions between snapshots; default {default}.")
            .number(100_000, from(INT_MIN), "a number of transactions"),
        property("snapSizeLimitInKb", Long, Works, "KB of log between snapshots, default {default}; 0 or less means no limit.")
            .number(4 << 20, IN_KB, "a number of KB"),
        property("forceSync", Text, Works, "Only `no` leaves the log unsynced; acknowledged changes can then be lost."),
        either("fsync.warningthresholdms", Long, Better, "ms; a slower sync is logged and counted, and one that hangs is reported while it hangs.")
            .number(1000, ANY, MS),
        in_file("autopurge.purgeInterval", Int, Better, "Hours between purges, default {default}; 0 means that nothing is purged. A server also purges at the start and, unless this is above {default}, after each snapshot; above {default}, after a snapshot only if the disk of the log is short of space. Files written by ZooKeeper stay until `data seal`.")
            .number(1, from(INT_MIN), "a number of hours"),
        in_file("autopurge.snapRetainCount", Int, Works, "Number of snapshots that a purge keeps; default {default}, which is also the minimum.")
            .number(3, from(INT_MIN), "a number of snapshots"),
        property("digest.enabled", Text, Works, "Whether the log and the snapshots contain the tree's digest; default {default}.").flag(true),
        property("flushDelay", Text, Meaningless, "Requests that arrive during a sync go with the next sync, without a delay."),
        property("maxWriteQueuePollTime", Text, Meaningless, "Requests that arrive during a sync go with the next sync, without a delay."),
        property("maxBatchSize", Text, Meaningless, "Requests that arrive during a sync go with the next sync, up to a limit in bytes."),
        property("closeSessionTxn.enabled", Text, Meaningless, "The end of a session always lists the ephemeral znodes that are deleted with it."),
        property("serializeLastProcessedZxid.enabled", Text, Meaningless, "A snapshot always ends with the last zxid, unless `digest.enabled` is false."),
    ] },
    Section { heading: "Clients", keys: &[
        in_file("clientPort", Int, Works, "TCP port for clients, unencrypted.")
            .number(0, PORT, "a TCP port"),
        in_file("clientPortAddress", Text, Works,
            "Address for `clientPort`; default all; an empty value means 127.0.0.1, as in ZooKeeper."),
        in_file("clientPortListenBacklog", Int, Works, "Connections that may wait to be accepted; -1 means 4096 (in ZooKeeper 50).")
            .number(-1, from(INT_MIN), "a number of connections"),
        property("clientTcpKeepAlive", Text, Works, "SO_KEEPALIVE on clients' sockets; default {default}.").flag(false),
        in_file("maxClientCnxns", Int, Works, "Connections from one address, default {default}; 0 means no limit.")
            .number(60, from(INT_MIN), "a number of connections"),
        property("maxCnxns", Int, Works, "Connections in total; 0 means no limit.")
            .number(0, from(-INT_MAX), "a number of connections"),
        in_file("tickTime", Int, Works, "ms, default {default}; unit of `initLimit` and others.")
            .number(3000, from(1), MS),
        in_file("minSessionTimeout", Int, Works, "ms; default 2 ticks.")
            .number(-1, from(-1), MS),
        in_file("maxSessionTimeout", Int, Works, "ms; default 20 ticks.")
            .number(-1, from(-1), MS),
        property("nio.sessionlessCnxnTimeout", Int, Works, "ms within which a connection must open a session; default {default}.")
            .number(10_000, from(1), MS),
        property("globalOutstandingLimit", Int, Works, "Requests waiting to be ordered, default {default}; beyond that, sockets are not read.")
            .number(1000, from(INT_MIN), "a number of requests"),
        bare("jute.maxbuffer", Int, Works, "Bytes of a request frame, default {default}; also read from zoo.cfg.")
            .number(1_048_575, from(1), "a number of bytes"),
        property("jute.maxbuffer.extrasize", Int, Works, "Bytes that a log record may have beyond `jute.maxbuffer`; default the value of `jute.maxbuffer`; a value below 1024 is raised to 1024. Longer records, which ZooKeeper cannot read back, are refused.")
            .range(from(-INT_MAX), "a number of bytes"),
        property("enforceQuota", Text, Works, "Whether hard quotas are enforced; default {default}.")
            .flag(false),
        property("extendedTypesEnabled", Text, Works, "Whether there are TTL znodes; default {default}.").flag(false),
        property("emulate353TTLNodes", Text, Refused(IfTrue), "`true` is refused: a TTL znode written by ZooKeeper 3.5.3 would be treated as ephemeral and removed."),
        bare("znode.container.checkIntervalMs", Int, Works, "ms between two rounds of the container cleanup, default {default}; also read from zoo.cfg.")
            .number(60_000, from(1), MS),
        bare("znode.container.maxPerMinute", Int, Works, "Znodes that the cleanup removes per minute, default {default}; also read from zoo.cfg.")
            .number(10_000, from(1), "a number of znodes a minute"),
        bare("znode.container.maxNeverUsedIntervalMs", Long, Works, "ms after which a container that never had a child is removed; 0 means never, less at once; also read from zoo.cfg.")
            .number(0, ANY, MS),
        property("4lw.commands.whitelist", Text, Works, "Four-letter words that are answered, `*` means all; `srvr` always is."),
        in_file("localSessionsEnabled", Bool, Works, "New sessions exist only on the server that opened them; no effect on a standalone server, as in ZooKeeper.").flag(false),
        in_file("localSessionsUpgradingEnabled", Bool, Works, "A local session becomes a global one with its first ephemeral znode.").flag(false),
        bare("readonlymode.enabled", Text, Works, "In an ensemble, `true` lets a server that has lost its leader serve clients that accept a read-only server; with it, `isro` is always allowed, as in ZooKeeper. Unlike there, `localSessionsEnabled` is not needed."),
        property("enableEagerACLCheck", Text, Meaningless, "ACLs are checked once, where the order of changes is decided."),
        property("watchManagerName", Text, Meaningless, "There is a single table for all kinds of watches."),
        property("watcherCleanThreadsNum", Text, Meaningless, WATCHES),
        property("watcherCleanThreshold", Text, Meaningless, WATCHES),
        property("watcherCleanIntervalInSeconds", Text, Meaningless, WATCHES),
        property("maxInProcessingDeadWatchers", Text, Meaningless, WATCHES),
        property("bitHashCacheSize", Text, Meaningless, "Sizes a table inside Apache ZooKeeper."),
        property("maxResponseCacheSize", Text, Meaningless, "Replies are written from the tree, without a cache."),
        property("maxGetChildrenResponseCacheSize", Text, Meaningless, "Replies are written from the tree, without a cache."),
        property("intBufferStartingSizeBytes", Text, Meaningless, "Sizes a buffer of the JVM."),
    ] },
    Section { heading: "Protection", keys: &[
        in_file("sessions.passwords", Text, Works, "Ferrokeeper's own: how session passwords are made in a directory or an ensemble that ferrokeeper creates, `keyed` or `zookeeper`; default `keyed`, in an ensemble only if its servers authenticate each other. With `zookeeper`, they can be computed from a session's id, and sessions survive going back to ZooKeeper."),
        property("memoryLimitInKb", LongDecimal, Works, "Ferrokeeper's own: KB that the process may use; default the limit of its control group. Near the limit, writes that grow the tree get -7.")
            .number(-1, IN_KB, "a number of KB"),
        property("unreadLimitInKb", LongDecimal, Works, "Ferrokeeper's own: KB of answers and events that all clients together may leave unread; default 262144, or half of the memory reserve if that is less, but never less than four of the largest frames. Beyond the limit, the connection that has gone longest without reading is closed.")
            .number(-1, IN_KB, "a number of KB"),
        property("request_throttle_max_requests", Int, Better, "Requests of all connections that may wait to be ordered, if less than `globalOutstandingLimit`; {default}, the default, means no further limit.")
            .number(0, from(INT_MIN), "a number of requests"),
        property("request_throttle_stall_time", Text, Meaningless, "A request continues as soon as the queue has room; there is no polling."),
        property("request_throttle_drop_stale", Text, Meaningless, "A request that waits for room in the queue has not been read from its socket yet; it disappears with its connection."),
        property("request_stale_latency_check", Text, Meaningless, "Part of `request_throttle_drop_stale`."),
        property("request_stale_connection_check", Text, Meaningless, "Part of `request_throttle_drop_stale`."),
        property("request_throttler.shutdownTimeout", Text, Meaningless, "On shutdown, requests already received are answered, and no more are accepted."),
        property("throttled_op_wait_time", Int, Works, "ms; a request that waited longer for its turn gets -127 instead; {default}, the default, means never.")
            .number(0, from(INT_MIN), MS),
        property("largeRequestThreshold", Int, Works, "Bytes above which a request counts as large; {default}, the default, means that no request counts as large.")
            .number(-1, from(INT_MIN), "a number of bytes"),
        property("largeRequestMaxBytes", Int, Works, "Bytes of all large requests in progress, default {default}; the connection of a request that exceeds it is closed.")
            .number(100 << 20, from(INT_MIN), "a number of bytes"),
        property("connection_throttle_tokens", Int, Works, "Sessions that may be requested at once, one token each; {default}, the default, means no limit. Connections beyond that are closed.")
            .number(0, from(0), "a number of tokens"),
        property("connection_throttle_fill_time", Int, Works, "ms after which `connection_throttle_fill_count` tokens are added; default {default}.")
            .number(1, from(1), MS),
        property("connection_throttle_fill_count", Int, Works, "Tokens that are added each time; default {default}.")
            .number(1, from(0), "a number of tokens"),
        property("connection_throttle_freeze_time", Int, Works, "ms between two changes of the probability that a session request is refused at random; {default}, the default, means off.")
            .number(-1, from(-1), MS),
        property("connection_throttle_drop_increase", Text, Works, "Added to the probability that a session request is refused at random, when no token is left, from 0 to 1; default {default}.").fraction(0.02),
        property("connection_throttle_drop_decrease", Text, Works, "Subtracted from the probability that a session request is refused at random, when there are enough tokens, from 0 to 1; default {default}.").fraction(0.002),
        property("connection_throttle_decrease_ratio", Text, Works, "There are enough tokens if at most this fraction of them is missing, from 0 to 1; default {default}.").fraction(0.0),
        property("connection_throttle_weight_enabled", Text, Works, "Whether a session costs as many tokens as the keys `connection_throttle_*_session_weight` say, and there are three times as many tokens; default {default}.").flag(false),
        property("connection_throttle_global_session_weight", Int, Works, "Tokens for a new global session, default {default}; a value lower than that for a local one is raised to it.")
            .number(3, from(INT_MIN), "a number of tokens"),
        property("connection_throttle_local_session_weight", Int, Works, "Tokens for a new local session; default {default}.")
            .number(1, from(INT_MIN), "a number of tokens"),
        property("connection_throttle_renew_session_weight", Int, Works, "Tokens for a session that is resumed, default {default}; a value lower than that for a new local one is raised to it.")
            .number(2, from(INT_MIN), "a number of tokens"),
    ] },
    Section { heading: "Ensemble", keys: &[
        in_file("server.N", Text, Works, "A server of the ensemble; with a single line, the server runs standalone, unless `standaloneEnabled=false`."),
        in_file("initLimit", Int, Works, "Ticks that servers with data, once they are a majority, wait for servers that do not answer, before they found an ensemble; required for an ensemble.")
            .range(from(1), "a number of ticks"),
        in_file("syncLimit", Int, Works, "Ticks without a leader after which a server disconnects its clients, and how old a read may be; required for an ensemble.")
            .range(from(1), "a number of ticks"),
        in_file("electionAlg", Int, Works, "Only 3, as in ZooKeeper; servers elect a leader by Raft."),
        in_file("standaloneEnabled", Bool, Works, "With `false`, a single `server.N` is an ensemble of one; by default, it runs standalone.").flag(true),
        in_file("reconfigEnabled", Bool, Works, "Whether clients may change the servers of an ensemble. On all of its servers, or on none.").flag(false),
        in_file("linearizableReads", Bool, Works, "Ferrokeeper's own: whether a read shows every change that was acknowledged before it; default {default}.").flag(false),
        in_file("leader.snapSyncLimitInKbPerSecond", Int, Works, "Ferrokeeper's own: KiB per second for all snapshots being sent to other servers; 0 means no limit.")
            .number(0, from(0), "a number of KiB per second, 0 for no limit,"),
        in_file("dynamicConfigFile", Text, Works, "The file that has the `server.N` lines instead of zoo.cfg, relative to the working directory; the end of its name is the version of the list, as in ZooKeeper."),
        in_file("group.N", Text, Refused(Always), "Refused: a majority of all voters decides here, not a quorum of groups."),
        in_file("weight.N", Text, Refused(Always), "Refused: all voters have the same weight here; there is no weighted quorum."),
        in_file("oraclePath", Text, Refused(Always),
            "Refused: an ensemble of two needs both servers; no oracle lets one continue alone."),
        in_file("peerType", PeerType, Meaningless, "The list of servers says who is an observer, as in ZooKeeper."),
        in_file("quorumListenOnAllIPs", Bool, NotYet("false"), "Not yet: the port between servers is opened on the host of the server's own line."),
        property("leaderServes", Text, Works, "`no` leaves all clients to the followers."),
        in_file("connectToLearnerMasterLimit", Int, Meaningless, "Servers never give up connecting to each other."),
        property("electionPortBindRetry", Text, Meaningless, "Elections have no port of their own."),
        property("cnxTimeout", Text, Meaningless, OTHER_WAY),
        property("quorumCnxnTimeoutMs", Text, Meaningless, "Silent servers are detected by missing heartbeats."),
        property("tcpKeepAlive", Text, Meaningless, "Silent servers are detected by missing heartbeats."),
        in_file("syncEnabled", Bool, Meaningless, "Observers always write their own log and snapshots."),
        property("observer.syncEnabled", Text, Meaningless, "Observers always write their own log and snapshots."),
        in_file("observerMasterPort", Int, Meaningless, "Observers follow the leader."),
        property("observer.reconnectDelayMs", Text, Meaningless, "Observers follow the leader as followers do."),
        property("observer.election.DelayMs", Text, Meaningless, "Observers follow the leader as followers do."),
        property("observerMaster.sizeLimit", Text, Meaningless, "Observers follow the leader."),
        property("commitLogCount", Text, Meaningless, CATCHES_UP),
        property("snapshotSizeFactor", Text, Meaningless, CATCHES_UP),
        property("forceSnapshotSync", Text, Meaningless, CATCHES_UP),
        property("fastleader.minNotificationInterval", Text, Meaningless, RAFT),
        property("fastleader.maxNotificationInterval", Text, Meaningless, RAFT),
        property("leader.maxTimeToWaitForEpoch", Text, Meaningless, RAFT),
        property("leader.maxConcurrentSnapSyncs", Text, Meaningless, "Snapshots to other servers share `leader.snapSyncLimitInKbPerSecond`."),
        property("leader.maxConcurrentDiffSyncs", Text, Meaningless, "Followers that catch up are sent what they are missing, each at its own pace."),
        property("leader.ackLoggingFrequency", Text, Meaningless, "Tunes a log line of Apache ZooKeeper."),
        property("leaderConnectDelayDuringRetryMs", Text, Meaningless, OTHER_WAY),
        property("leader.closeSocketAsync", Text, Meaningless, OTHER_WAY),
        property("learner.closeSocketAsync", Text, Meaningless, OTHER_WAY),
        property("learner.asyncSending", Text, Meaningless, "Sending to another server never blocks."),
        bare("follower.nodelay", Text, Meaningless, "TCP_NODELAY is always set."),
        bare("leader.nodelay", Text, Meaningless, "TCP_NODELAY is always set."),
        property("forward_learner_requests_to_commit_processor_disabled", Text, Meaningless, INSIDE),
        property("follower.skipLearnerRequestToNextProcessor", Text, Meaningless, INSIDE),
        property("commitProcessor.numWorkerThreads", Text, Meaningless, INSIDE),
        property("commitProcessor.maxReadBatchSize", Text, Meaningless, INSIDE),
        property("commitProcessor.maxCommitBatchSize", Text, Meaningless, INSIDE),
        property("commitProcessor.shutdownTimeout", Text, Meaningless, INSIDE),
        property("messageTracker.Enabled", Text, Meaningless, INSIDE),
        property("messageTracker.BufferSize", Text, Meaningless, INSIDE),
        in_file("multiAddress.enabled", Bool, NotYet("false"), "Not yet: if a `server.N` line has several addresses, only the first is used."),
        in_file("multiAddress.reachabilityCheckEnabled", Bool, Meaningless, "Part of `multiAddress.enabled`."),
        in_file("multiAddress.reachabilityCheckTimeoutMs", Int, Meaningless, "Part of `multiAddress.enabled`."),
        in_file("quorum.cnxn.threads.size", Int, Meaningless, "Sizes a thread pool of Apache ZooKeeper."),
    ] },
    Section { heading: "Between servers", keys: &[
        in_file("quorum.auth.secretFile", Text, Works, "Ferrokeeper's own: a file with a secret that all servers of the ensemble share."),
        in_file("quorum.auth.enableSasl", Bool, Refused(IfTrueInEnsemble), NO_QUORUM_SASL),
        in_file("quorum.auth.serverRequireSasl", Bool, Refused(IfTrueInEnsemble), NO_QUORUM_SASL),
        in_file("quorum.auth.learnerRequireSasl", Bool, Refused(IfTrueInEnsemble), NO_QUORUM_SASL),
        in_file("quorum.auth.kerberos.servicePrincipal", Text, Meaningless, OF_QUORUM_SASL),
        in_file("quorum.auth.learner.saslLoginContext", Text, Meaningless, OF_QUORUM_SASL),
        in_file("quorum.auth.server.saslLoginContext", Text, Meaningless, OF_QUORUM_SASL),
        in_file("sslQuorum", Bool, Works, "Servers connect to each other with TLS and accept nothing else; default {default}.").flag(false),
        in_file("portUnification", Bool, Works, "Whether a server without TLS, or without the secret, is accepted anyway; default {default}.").flag(false),
        in_file("sslQuorumReloadCertFiles", Bool, Better, "Certificates are always read again when the files change."),
        property("ssl.quorum.keyStore.location", Text, Works, "PEM with the server's own certificate, any intermediate certificates, and the key."),
        property("ssl.quorum.keyStore.type", Text, Works, "`PEM`; any other type is refused, with the command that converts it."),
        property("ssl.quorum.keyStore.password", Text, NotYet(""), "Not yet: an encrypted key is refused."),
        property("ssl.quorum.keyStore.passwordPath", Text, NotYet(""), "Not yet: an encrypted key is refused."),
        property("ssl.quorum.trustStore.location", Text, Works, "PEM with the certificates of the issuers."),
        property("ssl.quorum.trustStore.type", Text, Works, "`PEM`; any other type is refused, with the command that converts it."),
        property("ssl.quorum.trustStore.password", Text, Meaningless, PEM),
        property("ssl.quorum.trustStore.passwordPath", Text, Meaningless, PEM),
        property("ssl.quorum.protocol", Text, Works, "`TLSv1.2`: only that version; `TLSv1.3`: both versions."),
        property("ssl.quorum.enabledProtocols", Text, Works, "`TLSv1.2`, `TLSv1.3` or both; default both."),
        property("ssl.quorum.ciphersuites", Text, Works, "Java's names; names that are not available are logged."),
        property("ssl.quorum.clientAuth", Text, Works, "`need`, `want` or `none`: whether the connecting server presents a certificate; default need."),
        property("ssl.quorum.hostnameVerification", Text, Works, "Whether the certificate of the server connected to must name that server; default {default}.").flag(true),
        property("ssl.quorum.clientHostnameVerification", Text, Works, "Whether the certificate of a connecting server must name it; default {default}.").flag(true),
        property("ssl.quorum.allowReverseDnsLookup", Text, Better, "Names are compared with the server list; there are no reverse lookups."),
        property("ssl.quorum.crl", Text, Refused(IfTrueWithTls), REVOKED),
        property("ssl.quorum.ocsp", Text, Refused(IfTrueWithTls), REVOKED),
        property("ssl.quorum.handshakeDetectionTimeoutMillis", Text, Meaningless, "A connecting peer has five seconds to say who it is."),
        property("ssl.quorum.context.supplier.class", Text, Refused(WithTls), "Refused with TLS between servers: what a Java class would check is unknown."),
        property("ssl.quorum.sslProvider", Text, Meaningless, "There is only one TLS library."),
        property("ssl.quorum.authProvider", Text, Meaningless, "ZooKeeper reads it for clients only."),
    ] },
    Section { heading: "TLS for clients", keys: &[
        in_file("secureClientPort", Int, NotYet("0"), "Not yet: there is no TLS for clients; they can only connect unencrypted."),
        in_file("secureClientPortAddress", Text, NotYet(""), NO_TLS),
        property("client.portUnification", Text, NotYet("false"), NO_TLS),
        property("client.certReload", Text, NotYet("false"), NO_TLS),
        property("ssl.keyStore.location", Text, NotYet(""), NO_TLS),
        property("ssl.keyStore.password", Text, NotYet(""), NO_TLS),
        property("ssl.keyStore.passwordPath", Text, NotYet(""), NO_TLS),
        property("ssl.keyStore.type", Text, NotYet(""), NO_TLS),
        property("ssl.trustStore.location", Text, NotYet(""), NO_TLS),
        property("ssl.trustStore.password", Text, NotYet(""), NO_TLS),
        property("ssl.trustStore.passwordPath", Text, NotYet(""), NO_TLS),
        property("ssl.trustStore.type", Text, NotYet(""), NO_TLS),
        property("ssl.protocol", Text, NotYet(""), NO_TLS),
        property("ssl.enabledProtocols", Text, NotYet(""), NO_TLS),
        property("ssl.ciphersuites", Text, NotYet(""), NO_TLS),
        property("ssl.clientAuth", Text, NotYet(""), NO_TLS),
        property("ssl.hostnameVerification", Text, NotYet(""), NO_TLS),
        property("ssl.clientHostnameVerification", Text, NotYet(""), NO_TLS),
        property("ssl.allowReverseDnsLookup", Text, NotYet("false"), NO_TLS),
        property("ssl.crl", Text, NotYet("false"), NO_TLS),
        property("ssl.ocsp", Text, NotYet("false"), NO_TLS),
        property("ssl.handshakeDetectionTimeoutMillis", Text, NotYet(""), NO_TLS),
        property("ssl.context.supplier.class", Text, NotYet(""), NO_TLS),
        property("ssl.sslProvider", Text, Meaningless, "There is only one TLS library."),
        property("ssl.authProvider", Text, NotYet(""), NO_TLS),
        property("fips-mode", Text, Meaningless, "Selects among trust managers of the JVM."),
        property("netty.server.outstandingHandshake.limit", Text, NotYet("-1"), NO_TLS),
        property("netty.server.earlyDropSecureConnectionHandshakes", Text, NotYet("false"), NO_TLS),
    ] },
    Section { heading: "Authentication and authorization", keys: &[
        property("skipACL", Text, Works, "Only `yes` turns off all ACL checks."),
        property("DigestAuthenticationProvider.enabled", Text, Works, "Whether the digest scheme is available; default {default}.").flag(true),
        property("DigestAuthenticationProvider.superDigest", Text, Works, "`super:` and a hash; a client that authenticates with it passes every ACL check."),
        property("DigestAuthenticationProvider.digestAlg", Text, Works, "`SHA1`, `SHA-224`, `SHA-256`, `SHA-384`, `SHA-512`, `SHA-512/224`, `SHA-512/256`, `SHA3-224`, `SHA3-256`, `SHA3-384` or `SHA3-512`."),
        property("enforce.auth.enabled", Text, Works, "Whether a connection must authenticate first; default {default}.").flag(false),
        property("enforce.auth.schemes", Text, Works, "Schemes that satisfy `enforce.auth.enabled`: digest, ip; any other is refused, because it could not be enforced."),
        property("sessionRequireClientSASLAuth", Text, Refused(IfTrue), "`true` is refused: there is no SASL to require."),
        property("authProvider.N", Text, Refused(UnknownProvider), "A class that is not ZooKeeper's own is refused. The schemes digest, ip and auth are always available, ensemble only if its class is named. The schemes x509 and sasl are not supported yet; key, which is a sample, is not supported."),
        property("X509AuthenticationProvider.superUser", Text, NotYet(""), NO_TLS),
        property("superUser", Text, NotYet(""), NO_SASL),
        property("superUser.N", Text, NotYet(""), NO_SASL),
        property("IPAuthenticationProvider.usexforwardedfor", Text, Works, "Whether the AdminServer uses the address in `X-Forwarded-For` as that of the client; default {default}.").flag(false),
        property("ensembleAuthName", Text, Works, "Names that clients may give with the ensemble scheme, if `authProvider.N` names its class; a client that gives any other is disconnected."),
        property("allowSaslFailedClients", Text, NotYet("false"), NO_SASL),
        property("letAnySaslUserDoX", Text, NotYet(""), NO_SASL),
        property("SASLAuthenticationProvider.superPassword", Text, NotYet(""), NO_SASL),
        property("sasl.serverconfig", Text, NotYet(""), NO_SASL),
        property("kerberos.removeHostFromPrincipal", Text, NotYet("false"), NO_SASL),
        property("kerberos.removeRealmFromPrincipal", Text, NotYet("false"), NO_SASL),
        property("kerberos.canonicalizeHostNames", Text, NotYet("false"), NO_SASL),
        property("kerberos.minReLoginTimeMs", Text, NotYet(""), NO_SASL),
        property("security.auth_to_local", Text, NotYet(""), NO_SASL),
        property("requireKerberosConfig", Text, NotYet("false"), NO_SASL),
        property("kinit", Text, NotYet(""), NO_SASL),
        bare("java.security.auth.login.config", Text, NotYet(""), NO_SASL),
        property("audit.enable", Text, Works, "Whether clients' changes are recorded, one line each; default {default}.").flag(false),
        property("audit.failClosed", Text, Works, "Ferrokeeper's own: whether changes get -7 once no audit line could be written for 5 s, until one can; default {default}: changes continue.").flag(false),
        property("audit.impl.class", Text, Works, "ZooKeeper's two classes, which write to a log; with any other the server does not start."),
        property("audit.log", Text, Works, "Ferrokeeper's own: `stdout`, `syslog` or a file; by default `auditlog.file`, or standard output if there is no folder for it."),
        property("auditlog.dir", Text, Works, "Folder of the audit log; default `log.dir`."),
        property("auditlog.file", Text, Works, "Its name in `auditlog.dir`; default `{default}`.")
            .text("zookeeper_audit.log"),
    ] },
    Section { heading: "Metrics and AdminServer", keys: &[
        in_file("metricsProvider.className", Text, Works, "ZooKeeper's three classes; the one for Prometheus serves `/metrics`."),
        in_file("metricsProvider.httpHost", Text, Works, "Address of `/metrics`; default all."),
        in_file("metricsProvider.httpPort", Int, Works, "Port of `/metrics`; default {default}.")
            .number(7000, PORT, "a TCP port"),
        in_file("metricsProvider.exportJvmInfo", Text, Meaningless, "There is no JVM to report on."),
        in_file("metricsProvider.numWorkerThreads", Text, Meaningless, SUMMARIES),
        in_file("metricsProvider.maxQueueSize", Text, Meaningless, SUMMARIES),
        in_file("metricsProvider.workerShutdownTimeoutMs", Text, Meaningless, SUMMARIES),
        property("admin.enableServer", Text, Works, "Whether commands and `/health` are answered over HTTP; default true. If the port is in use, the server logs a warning and starts without the AdminServer."),
        property("admin.serverAddress", Text, Better, "Address of the AdminServer; default all, and 127.0.0.1 without a zoo.cfg."),
        property("admin.serverPort", Int, Works, "Port of the AdminServer; default {default}.")
            .number(8080, PORT, "a TCP port"),
        property("admin.idleTimeout", Int, Works, "ms that a connection may go without an answer, default {default}; 0 or less means no limit.")
            .number(30_000, from(INT_MIN), MS),
        property("admin.commandURL", Text, Works, "Path of the commands; default `{default}`.")
            .text("/commands"),
        property("admin.httpVersion", Text, Meaningless, "The version that TLS announces; HTTP is 1.1."),
        property("admin.portUnification", Text, NotYet("false"), NO_ADMIN_TLS),
        property("admin.forceHttps", Text, NotYet("false"), "Not yet: the AdminServer has no TLS; with `true` there is no AdminServer at all."),
        property("admin.needClientAuth", Text, NotYet("false"), NO_ADMIN_TLS),
        property("admin.rateLimiterIntervalInMS", Int, Better, "ms between two requested snapshots, and between two restores, default {default}; ZooKeeper 3.9.5 treats the first as microseconds.")
            .number(300_000, from(0), MS),
        property("admin.snapshot.enabled", Text, Works, "Whether a snapshot can be requested; default {default}.").flag(true),
        property("admin.restore.enabled", Text, Works, "Whether a snapshot can be sent to replace the served data; default {default}.").flag(true),
        property("admin.remote.allowWorld", Text, Works, "Ferrokeeper's own: with `true`, requests that do not come over loopback, or come through a proxy, need only the permissions that ZooKeeper asks for; default {default}.").flag(false),
        property("pathStats.enabled", Text, Meaningless, PATH_STATS),
        property("pathStats.slotCapacity", Text, Meaningless, PATH_STATS),
        property("pathStats.slotDuration", Text, Meaningless, PATH_STATS),
        property("pathStats.maxDepth", Text, Meaningless, PATH_STATS),
        property("pathStats.sampleRate", Text, Meaningless, PATH_STATS),
        property("pathStats.initialDelay", Text, Meaningless, PATH_STATS),
        property("pathStats.delay", Text, Meaningless, PATH_STATS),
        property("pathStats.topPathMax", Text, Meaningless, PATH_STATS),
    ] },
    Section { heading: "The JVM, tests, clients", keys: &[
        property("serverCnxnFactory", Text, Meaningless, "There is one way to serve sockets, with and without TLS."),
        property("nio.numSelectorThreads", Text, Meaningless, "There are as many threads for sockets as processors."),
        property("nio.numWorkerThreads", Text, Meaningless, "There are as many threads for sockets as processors."),
        property("nio.directBufferBytes", Text, Meaningless, "Sizes a buffer of the JVM."),
        property("nio.shutdownTimeout", Text, Meaningless, "A timeout for threads of the JVM."),
        property("netty.advancedFlowControl.enabled", Text, Meaningless, "Sockets are never read faster than the server can process requests."),
        in_file("jvm.pause.monitor", Bool, Meaningless, NO_JVM),
        in_file("jvm.pause.warn-threshold.ms", Long, Meaningless, NO_JVM),
        in_file("jvm.pause.info-threshold.ms", Long, Meaningless, NO_JVM),
        in_file("jvm.pause.sleep.time.ms", Long, Meaningless, NO_JVM),
        property("jmx.log4j.disable", Text, Meaningless, "There is no JMX and no log4j."),
        property("jmx.log4j.mbean", Text, Meaningless, "There is no JMX and no log4j."),
        property("log.dir", Text, Works, "Folder of a log in addition to standard error, like `ZOO_LOG_DIR`; no default."),
        property("log.file", Text, Works, "File name of the log in `log.dir`, default `{default}`; it is rotated at 10 MB, and ten older files are kept.").text("zookeeper.log"),
        property("log.threshold", Text, Meaningless, LOG_LEVEL),
        property("root.logger", Text, Meaningless, LOG_LEVEL),
        property("console.threshold", Text, Meaningless, LOG_LEVEL),
        property("tracelog.dir", Text, Meaningless, LOG_FILE),
        property("tracelog.file", Text, Meaningless, LOG_FILE),
        property("controllerPort", Text, Meaningless, TESTS),
        property("testingonly.initialZxid", Text, Meaningless, TESTS),
        property("test.allowDiscontinuousProposals", Text, Meaningless, TESTS),
        property("clientCnxnSocket", Text, Meaningless, CLIENTS),
        property("client.secure", Text, Meaningless, CLIENTS),
        property("request.timeout", Text, Meaningless, CLIENTS),
        property("disableAutoWatchReset", Text, Meaningless, CLIENTS),
        property("sasl.client", Text, Meaningless, CLIENTS),
        property("sasl.clientconfig", Text, Meaningless, CLIENTS),
        property("sasl.client.N", Text, Meaningless, CLIENTS),
        property("server.principal", Text, Meaningless, CLIENTS_BY_DEFINE),
        property("server.realm", Text, Meaningless, CLIENTS_BY_DEFINE),
    ] },
];
