//! What is refused to clients.

messages! { "Clients":

FK0501 CLIENT_NOT_ACCEPTED
"The system failed to accept a client's connection."
"That connection waits or is lost; open connections are not affected. Accepting is retried every 50 ms."
"Usually the limit of open files (`ulimit -n`, LimitNOFILE): look at the reason in the line."

FK0502 TOO_MANY_CONNECTIONS
"A connection was closed at once: there are too many, from its address or in total."
"That client tries another server or tries again; the others are not affected."
"The usual cause is a client that leaks connections: `cons` shows who has how many. Otherwise raise `maxClientCnxns`, `maxCnxns` or the limit of open files."

FK0503 AUTHENTICATION_FAILED
"A client authenticated with a scheme that is not supported here, or without a token."
"It got -115 AuthFailed and was disconnected. A wrong password with the digest scheme never shows up here: it results in a different identity."
"Only digest and ip are supported, not SASL or X.509. Correct the client."

FK0504 TOO_MANY_IDENTITIES
"A client has presented more than 64 KiB of identities on one connection; they go with each of its requests."
"It got -115 AuthFailed and was disconnected; its session remains and it may reconnect."
"Look for a client that authenticates again and again, each time under another name."

FK0505 EVENTS_NOT_READ
"A client has left 64 MiB of watch events unread, or a quarter of `unreadLimitInKb` if that is less."
"It was disconnected, so that it does not use up the server's memory. When it reconnects, it learns what it missed."
"Look at that client: it hangs, or it watches more than it can keep up with."

FK0506 FRAME_TOO_LONG
"A client sent a request length that is negative or above `jute.maxbuffer`."
"It was disconnected; no part of the request was carried out."
"A client whose writes are too large should make them smaller; if that is not possible, raise `jute.maxbuffer` on servers and clients. Anything that is not a ZooKeeper client (HTTP, TLS, a scanner) causes this message too."

FK0507 LARGE_REQUESTS_TOO_MANY
"A large request arrived while other requests in progress already use up `largeRequestMaxBytes`."
"The client was disconnected; no part of the request was carried out."
"Send fewer large requests at a time, or raise `largeRequestMaxBytes`."

FK0508 TOO_MANY_SESSIONS_AT_ONCE
"More sessions are requested at once than `connection_throttle_tokens` allows."
"The client was disconnected before it had a session, and tries again. Open sessions are not affected."
"After an outage that affected many clients, this is what the limit is for. If it persists, raise the tokens or look for a client that reconnects in a loop."

FK0509 CLIENT_AHEAD
"A client has seen a later transaction than this server has."
"It was disconnected, so that it does not see an older tree, and tries another server."
"In an ensemble: nothing, unless it persists; this server may be catching up. After a restore of older data, restart those clients."

FK0510 WRONG_PASSWORD
"A client tried to resume a session with the wrong password."
"It is told that the session has expired. The session and its owner are not affected."
"Expected if `session.key` was lost or replaced, or if a client of a different ensemble connects here. Otherwise somebody is trying session ids: the address is in the line."

FK0511 UNREAD_TOO_MUCH
"All clients together leave as much unread as `unreadLimitInKb` allows. The one that has gone longest without reading was disconnected."
"Its session remains: it reconnects and learns what it missed, as after any lost connection. Others are not affected, and memory stays bounded. `unread_closed_count` counts such disconnections."
"Look at the client in the line: it hangs, is cut off, or asks for more than it reads. If all of them read, raise `unreadLimitInKb`."

FK0512 REFUSED_ON_PURPOSE
"A client asked for something that Apache ZooKeeper would accept and that does harm there: the line says what."
"It got an error (-8 BadArguments, or -6 Unimplemented and the end of its connection); nothing was changed. Reported once for each client and cause, at most once a second."
"The client needs to be fixed. `docs/architecture.md`, \"Where it differs from ZooKeeper\", describes the harm in each case."

FK0513 ANOTHER_ENSEMBLE
"A client said with the ensemble scheme that it expects another ensemble."
"It was disconnected without an answer, so that it tries another server in its list."
"Correct the client's list of servers, or add the name to `ensembleAuthName`."

FK0514 LARGE_ANSWER
"A response is longer than ZooKeeper's Java client accepts by default (`jute.maxbuffer`, 1048575 bytes), or longer than half of that; only the first is a warning. `path` is the requested path, the first one if there are several, and `-` for the changes of a multi; `address` is the client's."
"The response was sent. If it is above the full limit, such a client closes the connection, reconnects and asks again. Reported once a day for each path, for at most 64 paths; `response_above_half_maxbuffer_count` and `response_above_maxbuffer_count` count all of them."
"Split up what is at that path: fewer children of a znode, less data in one, fewer parts of a multi. Otherwise raise `jute.maxbuffer` of the clients; if the clients already accept longer responses, there is nothing to do."

}
