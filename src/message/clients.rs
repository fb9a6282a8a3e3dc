//! What is refused to clients.

messages! { "Clients":

RK0501 CLIENT_NOT_ACCEPTED
"The system refused to hand over a connection of a client."
"It waits or is lost; those that are open go on. Accepting is tried again every 50 ms."
"Most often the limit of open files (`ulimit -n`, LimitNOFILE): look at the reason in the line."

RK0502 TOO_MANY_CONNECTIONS
"A connection was closed at once: there are too many, of its address or in all."
"That client tries another server or again; the others are not touched."
"A client that leaks connections is the usual cause: `cons` shows who has how many. Else raise `maxClientCnxns`, `maxCnxns` or the limit of open files."

RK0503 AUTHENTICATION_FAILED
"A client authenticated with a scheme that there is not here, or without a token."
"It got -115 AuthFailed and was disconnected. A wrong password of scheme digest never shows here: it makes another identity."
"There are digest and ip here, no SASL and no X.509. Correct the client."

RK0504 TOO_MANY_IDENTITIES
"A client has shown more identities on one connection than 64 KiB, which go with each of its requests."
"It got -115 AuthFailed and was disconnected; its session goes on and it may reconnect."
"Look for a client that authenticates again and again, under another name each time."

RK0505 EVENTS_NOT_READ
"A client has left 64 MiB of watch events unread, or a quarter of `unreadLimitInKb` where that is less."
"It was disconnected, so that it does not take the server's memory. When it reconnects it learns what it missed."
"Look at that client: it hangs, or it watches more than it can follow."

RK0506 FRAME_TOO_LONG
"A client sent the length of a request that is negative or above `jute.maxbuffer`."
"It was disconnected; nothing of the request was done."
"A client whose writes are too large must make them smaller; raise `jute.maxbuffer` on servers and clients if that cannot be. Anything else than a ZooKeeper client (HTTP, TLS, a scanner) is told so too."

RK0507 LARGE_REQUESTS_TOO_MANY
"A large request came while others that are not answered yet take `largeRequestMaxBytes`."
"The client was disconnected; nothing of the request was done."
"Fewer large requests at a time; or raise `largeRequestMaxBytes`."

RK0508 TOO_MANY_SESSIONS_AT_ONCE
"More sessions are asked for at once than `connection_throttle_tokens` lets through."
"The client was disconnected before it had a session and tries again. Open sessions go on."
"After a failure of many clients this is what it is for. If it stays, raise the tokens or look for a client that reconnects in a loop."

RK0509 CLIENT_AHEAD
"A client has seen a later transaction than this server has."
"It was disconnected, so that it does not see an older tree, and tries another server."
"In an ensemble: nothing, unless it does not stop; this server may be catching up. After a restore of older data, restart those clients."

RK0510 WRONG_PASSWORD
"A client wants to go on with a session and has not its password."
"It is told that the session has expired. The session and its owner are not touched."
"Expected where `session.key` was lost or replaced, and of clients of another server. Else somebody tries session ids: the address is in the line."

RK0511 UNREAD_TOO_MUCH
"Clients leave so much unread, all together, as `unreadLimitInKb` allows. The one that has read nothing for the longest was disconnected."
"Its session goes on: it reconnects and learns what it missed, as after any lost connection. Others are not touched, and memory stays bounded. `unread_closed_count` counts."
"Look at the client in the line: it hangs, is cut off, or asks for more than it takes. If all of them read, raise `unreadLimitInKb`."

RK0512 REFUSED_ON_PURPOSE
"A client asked for something that Apache ZooKeeper would take and that does harm there: the line says what."
"It got an error (-8 BadArguments, or -6 Unimplemented and the end of its connection); nothing was changed. Told once for each client and cause, at most once a second."
"The client needs to be mended. `docs/architecture.md`, \"Where it differs from ZooKeeper\", has the harm of each."

RK0513 ANOTHER_ENSEMBLE
"A client said by the scheme ensemble that it means another ensemble."
"It was disconnected without a word, so that it tries another server of its list."
"Correct the client's list of servers, or add the name to `ensembleAuthName`."

RK0514 LARGE_ANSWER
"An answer is longer than ZooKeeper's Java client takes where nobody sets its `jute.maxbuffer`, 1048575 bytes (a warning), or longer than half of that. `path` is what was asked for, of several the first, and `-` what a multi changed; `address` who asked."
"It was sent. Beyond all of it such a client closes the connection, connects and asks again. Told once a day for each path, of 64 paths at most; `response_above_half_maxbuffer_count` and `response_above_maxbuffer_count` count all."
"Split what is at that path: fewer children of a znode, less data in one, fewer parts of a multi. Else raise `jute.maxbuffer` of the clients; where that is done there is nothing to do."

}
