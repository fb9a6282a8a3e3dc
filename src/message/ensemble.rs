//! What goes wrong between the servers of an ensemble.

messages! { "Ensemble":

FK0401 UNKNOWN_ENTRY
"The replicated log has an entry of a kind that this version does not know."
"This member ends instead of applying it. Nothing is lost; the others continue if they are a majority."
"Run the same version on all members, or two consecutive ones while upgrading."

FK0402 FINAL_ENTRIES_LOST
"The log on this disk ends before an entry that was known to be committed."
"ACKNOWLEDGED TRANSACTIONS are missing on this server; the others have them. It does not start."
"While a majority of the others is running, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start it again; the line has the command. If the newest files are on a disk that is not mounted, mount it instead. Never restore older files of a member."

FK0403 FOREIGN_DIRECTORY
"The data directory belongs to another server of the ensemble, according to the server number in it."
"It does not start; nothing was changed. Two servers with one identity could break the ensemble."
"Check `myid` and `dataDir`: disks or volumes were swapped, or a directory was copied."

FK0404 NO_ENSEMBLE_YET
"A member was to start with a directory that belongs to no ensemble."
"It ends; nothing was changed. This is a bug."
"Start again, and report it."

FK0405 DIRECTORY_REPLACED
"The member that this data directory belongs to was removed from the ensemble: this server has rejoined with another directory, or was no longer listed."
"It ends: the votes recorded in this directory are no longer valid. The ensemble continues without it. If this server was no longer listed, it asks to join as a new member when you start it again. Once it is admitted, what the directory holds is moved aside, into a folder `before-` next to `version-2`, which you may delete, and the leader's data is loaded. As long as the other servers do not list this server, or it is a member with another directory, it waits (FK0441, FK0445)."
"Start it again, unless you removed it on purpose. If this server rejoined with another directory that you still have, and that directory is the one to keep, start with that one."

FK0406 WRITER_LOST
"The thread that writes the log of a member ended unexpectedly."
"The member ends; nothing was acknowledged that is not on disk. This is a bug."
"Start again, and report it with the error above (FK0701)."

FK0407 RAFT_BROKEN
"Raft found that something it relies on is not true."
"The member ends. The others continue if they are a majority. This is a bug."
"Keep the log lines and a copy of the data directory, report it, start again."

FK0408 DATA_OF_NO_ENSEMBLE
"This server has data that belongs to no ensemble, or a member's data that ZooKeeper has continued, and the others continue an ensemble that is not known to have all of that data."
"It does not start: it would have to discard its data for theirs. Nothing was changed."
"Only if the ensemble has what is needed, and while a majority of the others is running, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start it again; the line has the command. Otherwise first find out which data is right."

FK0409 CHANGE_OF_MEMBERS_VOID
"A committed change of the members is not possible: the ensemble has as many members as it can have, or the change would remove the last voter."
"All members ignore the change, and everything continues."
"This should not happen, because members beyond the limit are not proposed: report it, with the line."

FK0410 OLDER_COPY
"The data directory is an older copy of this member's directory: another server knows of a later term of this member, or of a later acknowledgement by it, than this directory contains."
"The server ends, and this directory never starts as this member again: its votes could count twice, and transactions that it acknowledged could be missing. The ensemble continues without it. Nothing in the directory was changed except a mark in `raft.state`."
"If the directory that this server ran with last still exists, start with that one. Otherwise, while a majority of the others is running, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start it again: it loads everything from them. The line has the command."

FK0411 SECURITY_FILE_UNREADABLE
"A certificate, key or secret for the ensemble cannot be read."
"The server does not start; nothing was touched."
"Check the path, owner and mode of the file."

FK0412 SECURITY_FILE_NOT_PEM
"A certificate or key file for the ensemble is not PEM."
"The server does not start; nothing was touched."
"Convert it: `openssl pkcs12 -in k.p12 -nodes -out k.pem`; convert JKS to PKCS12 first, with `keytool -importkeystore`."

FK0413 NO_CERTIFICATE
"The file contains no certificate."
"The server does not start; nothing was touched."
"The key store needs the certificate, any intermediate certificates, and the key; the trust store needs the issuers' certificates."

FK0414 NO_PRIVATE_KEY
"There is no private key in the key store."
"The server does not start; nothing was touched."
"Append the key to the file with the certificate, and make the file unreadable for anyone else."

FK0415 KEY_ENCRYPTED
"The private key is encrypted with a password; this version reads only unencrypted keys."
"The server does not start; nothing was touched."
"`openssl pkey -in FILE` prints it unencrypted; write that into a file that only the server's user can read."

FK0416 CERTIFICATES_UNFIT
"The certificate, key and issuers do not match."
"The server does not start; nothing was touched."
"Check that the key belongs to the first certificate in the file."

FK0417 NO_CIPHER_LEFT
"`ssl.quorum.ciphersuites` names no cipher that is available for the enabled protocols."
"The server does not start; nothing was touched."
"Name one of those in the message, or remove the key."

FK0418 SHORT_SECRET
"The secret of the ensemble is shorter than 32 bytes."
"The server does not start: it could be guessed."
"`openssl rand -base64 48` makes one; use the same one on all servers."

FK0419 PROCESS_REPLACED
"Another process was started as this server, with a copy of its data directory, while this one did not answer: it was frozen, or cut off."
"This process ends as soon as it learns of the other one. That one has taken its place, and the ensemble continues."
"Make sure that only one process runs as this server. The directory that ran last is the only valid one. If the wrong process is running, stop it first; then start with that directory, or, while a majority of the others is running, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start the server again."

FK0421 NOT_AUTHENTICATED
"The servers of the ensemble do not authenticate each other."
"Anyone who can reach the port between the servers can read and change everything."
"Set `sslQuorum` or `quorum.auth.secretFile`; until then, let nobody else reach that port."

FK0422 PORT_UNIFICATION
"`portUnification=true`: a connection without TLS or the secret is accepted as that of a server anyway."
"As long as it is set, anyone who can reach the port between the servers can read and change everything."
"Remove it once every server has TLS or the secret."

FK0423 SECRET_READABLE
"A file with a secret or a private key is readable by every user of the machine."
"Any of them can impersonate a server of the ensemble."
"`chmod o= FILE`. If others had access, make a new one."

FK0424 CERTIFICATES_NOT_TAKEN
"The certificate files have changed, and their new contents cannot be used."
"The old certificates stay in use. Connections fail when they expire."
"Correct the files; they are read again when they change. With the files as they are, a restart would be refused."

FK0425 UNKNOWN_CIPHER
"`ssl.quorum.ciphersuites` names a cipher that is not available here."
"It is ignored; the others in the list are used."
"Remove it, or correct its name (use Java's names)."

FK0431 PEER_UNREACHABLE
"This server cannot reach another server of the ensemble. It keeps trying. Each reason is reported once a minute; a server that is not running, or that is still reading its data directory, is reported only after ten seconds."
"The ensemble continues as long as a majority can reach each other."
"The reason is in the line. Compare the `server.N` lines and look at the log of the other server, which says why if it refuses."

FK0432 PEER_NOT_ACCEPTED
"The system failed to accept a connection from another server."
"It is retried. Until then, other servers may not be able to reach this one."
"Usually the limit of open files: look at the reason in the line."

FK0433 COMPLAINTS_LEFT_OUT
"There are so many different problems with connections to the ensemble's port that, for a minute, not all of them are reported."
"Most likely something that is not a server of the ensemble is connecting to that port."
"Let only the servers reach that port."

FK0434 SNAPSHOT_NOT_SENT
"A leader could not send its snapshot to a follower that needs it."
"The follower has no current data until the snapshot is sent; sending is retried from where it stopped. The others continue."
"The reason is in the line; check the network, and the follower's log and disk."

FK0435 SNAPSHOT_OF_NO_USE
"The leader sent its snapshot, but no server could start from it."
"It was not installed: this server keeps the data that it has, which stays out of date until a good snapshot arrives. The leader sends one again; the message is repeated at most once a minute. The others continue."
"The reason is in the line. Check the leader's newest snapshot with `ferrokeeper snapshot verify`. If it is wrong, make another server the leader (SIGUSR1), then restart the previous one, which rebuilds its tree."

FK0436 ID_IN_USE
"Another server refuses to talk to this process: another process runs as this server (its address is in the line) or has taken its place, the data directory is an older copy, or the member that it belongs to was removed from the ensemble."
"This process neither votes nor serves clients. As long as another process runs as this server, it keeps trying, and says so once a minute. If it was replaced, is an older copy or was removed, it ends (FK0405, FK0410, FK0419). The ensemble is not affected."
"Two servers have the same `myid`, or a data directory was copied and both copies were started: stop the one that is wrong. Of two copies, the one that ran last is the only valid one: use that one. Only if it is lost, and while a majority of the others is running, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start the server again. Each server needs a `myid` and a data directory of its own."

FK0437 ID_CALLED_ELSEWHERE
"Another process connects to the servers of the ensemble with this server's `myid`, from the address in the line."
"It is refused as long as this server answers. If this server stopped answering for a second, the other process would take its place."
"Find the other process and stop it, or correct its `myid`."

FK0441 WAITING_FOR_ENSEMBLE
"This server has waited ten seconds or more: it has no ensemble yet, or no majority of its ensemble answers, or no reachable member of that ensemble has the data. The line is repeated every ten seconds."
"It does not serve clients. An ensemble begins only when the contents of the servers' directories prove that no data would be lost. If a disk is not mounted, the directory on it looks empty and counts as empty, unless `db.autocreate=false`."
"The line names the servers that are waited for, and the command that ends the wait; `/health/ready` says the same. If a server that it names is running, look for FK0431 in the logs of both. Check that the disks of empty servers are mounted. Create the marker `initialize` only if no server has data that is needed: THE ENSEMBLE MAY THEN BEGIN WITH AN EMPTY TREE, and earlier data is lost to it. Move data aside only if the line asks for it, which it does only beside a majority that has the data of the ensemble. `docs/operations/founding.md`, \"What a server waits for\", has a row for each case."

FK0442 NO_RANDOM_BYTES
"The system provided no random bytes, which founding an ensemble needs."
"It is retried; until then the servers do not serve clients."
"Look at the reason in the line; a container may lack `getrandom`."

FK0443 SESSIONS_END_AT_FOUNDING
"An ensemble is being founded on a server whose session passwords depend on `session.key`, and either that key cannot be given to the others, or ZooKeeper has taken over the data since."
"These sessions end, with their ephemeral znodes, and their clients open new ones. This happens once. Sessions that ZooKeeper opened in the meantime do not end. All znodes that are not ephemeral stay."
"To avoid it, set up TLS or `quorum.auth.secretFile` before the first start of the ensemble. If the line says that there are too many sessions from before a seal, let those sessions close first."

FK0444 PEER_NOT_IN_NEW_ENSEMBLE
"A server refused to join the ensemble that this one founded."
"The ensemble continues if a majority has joined. The other server keeps its data and does not serve clients. As long as the ensemble has not begun, that server is asked again, and the line is repeated at most once a minute."
"The line gives the reason and, as long as the ensemble has not begun, the way out: usually to start all other servers, or else to run `ferrokeeper data leave` on this server, after which the server with the newest data founds the ensemble. Neither loses data. If clients are served already and the other server has newer data, stop all servers and decide which data is right. Only if the other server's data is not needed: stop that server, start all the others, and while a majority of the others is running, on that server move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start it again. If that server's list or this one's is wrong, correct the list."

FK0445 NO_SEAT
"A member refused to let this server join the ensemble. This server keeps asking."
"This server does not serve clients; the ensemble is not affected."
"The reason is in the line. An ensemble with a session key accepts only servers that authenticate (TLS or the secret, without `portUnification`)."

FK0446 FOUNDING_REFUSED
"Another server founded an ensemble, and this one refused to join it."
"Its data stays as it is, and it does not serve clients with the others."
"The reason is in the line. As long as that ensemble has not begun, FK0441 in this log says what ends it. If it has begun and the data here is newer than its data, start all servers, so that FK0441 says whether a majority has the data of that ensemble, and decide which is right. Until then, move nothing aside."

FK0447 PEER_OF_ANOTHER_ENSEMBLE
"A server in the list belongs to a different ensemble."
"The data of the two has nothing in common, so they do not speak to each other. Each keeps trying, and says so at most once a minute. Only an ensemble that has a majority of its servers serves clients: usually one of the two was founded but has not begun, or one kept running while ZooKeeper was using the data of the others."
"If ZooKeeper has run on the other servers, restart the one that kept running: it joins them by itself. Otherwise, start all other servers. If the other ensemble then serves clients, stop this server; while a majority of the others is running, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start it again. If neither ensemble serves clients, move nothing away. If a waiting server has an FK0441 line that names both ensembles, do what that line says. If there is none, run `ferrokeeper data leave` on a server whose ensemble has not begun, and on no other. The command says whether the ensemble has begun (with `--dry-run`, that is all it does); the server then uses the data again that it held before. Do not touch the other server's directory because of this line: it may hold what clients were told is safe."

FK0448 ENSEMBLE_LEFT
"ZooKeeper went on with the data of a majority of this member's ensemble, and a later ensemble was founded on that."
"This member was away meanwhile. It leaves its ensemble, of which no majority is left, and joins the later one; what it had goes into a folder `before-` next to `version-2`."
"Nothing. Anything that this member had and ZooKeeper never received was never acknowledged."

FK0449 BASE_LOST
"A server has promised to found an ensemble on the data in its directory, and some of that data is missing."
"It does not start. The ensemble does not exist yet: nothing was acknowledged by it. What was acknowledged before may be in the missing files."
"Bring the missing files back: a disk may not be mounted. Only if they are lost, and only if other servers have as much, run `ferrokeeper data leave` on the directory: what is left in it then counts, and the servers found an ensemble on the newest data that they have. Do not start it with an empty directory as long as what was here may be newer than what the others have."

FK0451 HAND_OVER_ALONE
"A handover of leadership was requested (SIGUSR1), but this is a standalone server."
"Nothing was done."
"Nothing."

FK0452 HAND_OVER_NOT_LEADING
"A handover of leadership was requested (SIGUSR1), but this server is not the leader."
"Nothing was done; the line names the leader."
"Send the signal to the leader."

FK0453 HAND_OVER_NOBODY
"A handover of leadership was requested (SIGUSR1), but there is no other voter that could lead."
"Nothing was done; this server remains the leader."
"Find out why the others are missing before this server is stopped: without them there is no service."

FK0454 LEADER_LEAVES_DISK
"The leader's disk has done nothing for a second, so the leader hands over leadership."
"Another server becomes leader within a moment. Clients of this server with a write in progress are disconnected; nothing acknowledged is lost."
"Look at the disk of this server's log and at the kernel log."

FK0455 LEADER_LEAVES_SHORT_DISK
"The leader's disk is short of space and another server's is not, so the leader hands over leadership."
"Another server becomes leader within a moment; nothing is lost."
"Free some space on the disk of this server's log."

FK0456 MEMBER_DISK_FULL
"The disk of the log has less free space than a quarter of the reserve, so this member accepts no more transactions."
"The state that it serves becomes out of date; after `syncLimit` it closes its clients' connections. The others continue if they are a majority. Nothing is lost."
"Free some space; it catches up by itself."

FK0461 RAFT_ERROR
"The Raft library reports an error, in its own words."
"The server goes on if it can. If it cannot, the process ends with FK0407 or FK0701."
"Look at the lines around it. If they do not explain it, report it."

FK0462 RAFT_WARNING
"The Raft library warns of something, in its own words; usually of a leader that steps down because it does not hear from a majority."
"Nothing acknowledged is in danger. Without a majority there is no service."
"If it does not stop, check whether the servers can reach each other (FK0431)."

FK0471 TREE_WRONG
"The tree of this server is not the same as the others': at the zxid in the line, its digest differs from theirs. The log is the same everywhere, so the memory or the disk of this machine, or a bug, has changed the tree."
"The server serves no clients until it has loaded the leader's tree; a leader hands over leadership first. It stays a member and a voter. What clients read from this server before may have been wrong. If it happens a second time before a restart, the process ends (FK0472)."
"Test the machine's memory and look at the kernel's log. If several machines are affected, or one right after an upgrade, it is a bug: report it, with this server's snapshots and logs from before the message."

FK0472 TREE_WRONG_AGAIN
"The tree of this server differs from the others' again, although it has loaded the leader's (FK0471)."
"The server ends rather than serve a wrong tree. The others continue if they are a majority. Nothing is lost."
"The memory or the disk of this machine cannot be trusted: test both, or move the server to another machine. It may be started again, and its tree is compared again. If it happens on more than one machine, it is a bug: report it."

FK0473 TREE_OF_PEER_WRONG
"The leader found that the tree of the server in the line is not the one that a majority has."
"That server serves no clients until it has loaded the leader's tree; its own log has FK0471. Nothing is lost."
"See FK0471, for that machine."

FK0474 TREES_DIFFER
"The trees of the leader and of a follower differ, and too few other servers are present to tell which one is right. Both of them report it."
"The leader continues. The follower closes its clients' connections after `syncLimit` and serves nobody for now. Neither tree is replaced until a majority of the voters has the same one; then the wrong one is replaced (FK0471)."
"Start the servers that are missing. If there are none, restart the follower: it builds its tree again from its own snapshot and log. If it still differs, restart the leader."

FK0475 LEADER_LEAVES_TREE
"This server is the leader although its tree is wrong (FK0471), so it hands over leadership."
"It decides nothing until then; requests wait for the next leader. Nothing is lost."
"See FK0471."

FK0481 STATE_TOO_OLD
"This server knows a leader, but what it has applied may be older than `syncLimit` allows; the line says by how many milliseconds. For `syncLimit` plus that time, it had no answer from the leader and a majority, or could not apply the log fast enough."
"It serves no clients until it has caught up; clients go to the other servers. Nothing is lost."
"If this persists, check whether the servers can reach each other (FK0431), whether the disk of this one has space (FK0456) and keeps up, and whether its machine or container keeps being paused."

FK0482 READ_TOO_OLD
"A client would have been told something that may be older than `syncLimit` allows: this server or its machine was paused during the read, this server had no answer from the leader and a majority, or it could not apply the log fast enough."
"The connection in the line was closed after all earlier answers had been sent; its session remains, and the client goes to another server. Nothing is lost. `read_too_old_closed_count` counts such connections, and `read_too_old_wait_count` how often reads waited for the state to become recent enough."
"Once or twice after a pause or an outage: nothing. If it goes on, see FK0481. Where followers lag or pause for about `syncLimit`, raise it, one server at a time: reads may then be older by as much."

FK0483 READ_ONLY
"This server has had no leader for two seconds, or for a tick if that is longer, and serves only clients that accept a read-only server (`readonlymode.enabled`); or it hears of a leader again and leaves read-only mode. Each change is logged once."
"Clients that accept a read-only server read what this server has applied, which is final and may be old; they get error -119 for a write or a sync. All others are disconnected until there is a leader. When it ends, read-only clients reconnect, with their watches. Nothing is lost."
"Start the servers that are missing, or check whether the servers can reach each other (FK0431): without a majority nothing can be written."

}
