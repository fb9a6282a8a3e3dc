//! What goes wrong while a server runs: its log, disk, memory, snapshots, time.

messages! { "Running server: disk, memory, time":

FK0301 LOG_NOT_WRITTEN
"The transaction log could not be written or synced."
"The server ends. What was acknowledged is on disk; the rest may or may not be."
"The causes under the line say why: space, mount, a failing disk. Fix that and start the server again: it reads back what is on disk."

FK0302 DIVERGED
"A transaction in the log cannot be applied."
"The server ends rather than serve a wrong tree. This is a bug; the log is intact."
"Keep a copy of the data directory and report it. A start will most likely be refused, and say how to proceed."

FK0303 ORDERER_LOST
"The thread that orders requests ended unexpectedly."
"The server ends. What was acknowledged is on disk. This is a bug."
"Start again, and report it with the error above (FK0701)."

FK0311 SLOW_SYNC
"A sync of the log took longer than `fsync.warningthresholdms`."
"All writes waited for it; nothing is lost."
"Find out what else uses that disk. A separate disk for `dataLogDir` helps; `mntr` shows how long syncs take (`fsynctime`)."

FK0312 GROUP_HANGS
"A group of requests has been in progress for a while; most likely the disk of the log hangs. The message is repeated each time the duration doubles."
"Writes are not answered meanwhile; reads still are. Nothing is lost."
"Look at the disk and the kernel log. In an ensemble, a leader hands over leadership by itself."

FK0313 STOOD_STILL
"The server did not run at all for the time in the line: the machine was suspended, starved of CPU, or swapping."
"No session expires because of it: all deadlines are extended by the same time. Clients may have moved to other servers, and in an ensemble another server may now be the leader."
"Check CPU, memory and live migrations of the machine."

FK0321 DISK_NEARLY_FULL
"The disk of the log has less free space than the reserve (twice `preAllocSize`)."
"Writes that need space (create, setACL, longer data) get -7 OperationTimeout; everything else continues. Nothing is lost."
"Free some space: move other files away, or enlarge the disk. Never delete `log.*` or `snapshot.*` by hand. Deleting znodes helps only later: each delete is written to the log, which is purged after further snapshots. Normal service resumes by itself once the free space is an eighth above the reserve."

FK0322 DISK_ALL_BUT_FULL
"The disk of the log has less free space than half of the reserve."
"Only deletes, closing sessions and reads continue; new sessions are refused. Nothing is lost."
"Free some space now, but never delete `log.*` or `snapshot.*` by hand. When none is left, the log cannot be written, and a standalone server ends."

FK0323 MEMORY_NEARLY_FULL
"Memory is nearly used up, measured against the limit of the control group or `memoryLimitInKb`."
"Writes that grow the tree get -7 OperationTimeout. Once watches have grown by an eighth of the reserve, requests that set a watch get -7 too, and a setWatches ends its connection. Everything else continues. Without these limits the system would kill the process."
"Give the server more memory, or delete znodes. If `watched_bytes` is large, `wchc` shows whose watches they are. Normal service resumes by itself."

FK0331 SNAPSHOT_FAILED
"A snapshot could not be taken."
"Nothing is lost: the log keeps everything, and the next snapshot is due as usual. Until one succeeds, logs accumulate and a start takes longer."
"The reason is in the line; most often the disk of `dataDir` is full."

FK0332 SPARE_FAILED
"A log segment could not be prepared in advance. This is retried, and reported once."
"Nothing is lost. Syncs take longer while there is no spare segment."
"The reason is in the line: usually space or ownership."

FK0333 NO_SPARES
"The thread that prepares log segments could not be started."
"Nothing is lost. Every sync takes longer until a restart."
"Check the limit of threads for this user or container, then restart."

FK0334 PURGE_FAILED
"Old snapshots and logs could not be purged."
"Nothing is lost; they take up space. A purge by `autopurge` is retried the next time it is due."
"The reason is in the line."

FK0335 PURGE_ENDED
"A purge ended unexpectedly."
"Nothing that a start needs was deleted. This is a bug; the next purge tries again."
"Report it with the error above (FK0701)."

FK0336 PURGE_NOT_STARTED
"The purge thread could not be started."
"Nothing is lost; old files take up space until the next purge."
"Check the limit of threads for this user or container."

FK0337 SNAPSHOT_LATE
"A snapshot was abandoned: 64 MiB of changes were waiting for its disk."
"Nothing is lost: the log keeps everything, and the next attempt is at least 10 s later. Reported once until one succeeds; until then logs accumulate and a start takes longer. Requests did not wait."
"Check whether the disk of `dataDir` is slow or hangs. If it is only slow, take snapshots when there are fewer changes, or give `dataDir` a faster disk."

FK0338 SNAPSHOT_DRIFTED
"A new snapshot was discarded: the digest of its znodes is not the one that the server has kept up to date."
"Nothing was replaced or purged because of it, and the log keeps everything. But something in memory is wrong, the tree or its digest: this is a bug, or the machine's memory is failing. A member of an ensemble loads the leader's tree (FK0471) without a restart. On a standalone server, no snapshot succeeds until a restart, so logs accumulate and a start takes longer."
"Restart a standalone server: a start rebuilds the tree from the previous snapshot and the log. Keep a copy of the data directory and report it. If it happens again, check the memory of the machine; a member of an ensemble can also load everything from the others: stop it, and while a majority of the others is running, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start it again."

FK0339 LOG_REMOVED
"The file that the transactions are written to was removed, moved or replaced while the server was running."
"The server continues in a new file and takes a snapshot at once. Until that snapshot is complete, what the file held is in memory only: if the server ends before that, the next start is refused."
"Do not stop the server until the AdminServer command `last_snapshot` shows a snapshot taken after this message. Find out what removes files from dataLogDir: the server itself removes old logs (`autopurge.purgeInterval`)."

FK0340 PURGE_KEEPS_FILE
"A purge keeps a file that it cannot read or remove."
"Nothing is lost, and the purge goes on with the other files. A snapshot that cannot be read is not one of those that `autopurge.snapRetainCount` counts. Each file is reported once."
"The line names the file and the reason: the disk, the owner or the rights of the file, or damage. A start reads the newest snapshot and the log after it: if this file is one of these, run `ferrokeeper data check` before the next start. Never delete `log.*` by hand."

FK0341 SEQUENCE_EXHAUSTED
"The counter for sequential znodes under a parent has reached its end, 2147483647."
"No more sequential znodes can be created there (-8): names would repeat. Locks and queues there stop working; the data is safe."
"Have the application use a new parent."

FK0342 QUOTA_REFUSED
"A write was refused by a hard quota."
"The client got -125 QuotaExceeded. Reported at most once a second."
"Run `listquota` for the path in the line; delete something there, or raise the quota with `setquota`."

FK0343 QUOTA_EXCEEDED
"A write exceeded a soft quota."
"The write was applied."
"Run `listquota` for the path in the line; delete something there, or raise the quota with `setquota`."

FK0344 DIGEST_MISMATCH
"The digest of the tree recorded in a transaction or in a snapshot of Apache ZooKeeper does not match the znodes that are here."
"This alone is no reason to refuse anything, unless it is the first transaction that a standalone server wrote after its own snapshot: then the start is refused (FK0217). ZooKeeper records wrong digests after a create with the flags of a container, and correct ones again later. For a transaction of this server, it means a bug, or that this server's tree differs from the others'. `digest_mismatches_count` counts them."
"If it happened once, in a log written by ZooKeeper: nothing. Otherwise report it. The members of an ensemble compare their trees themselves, and a wrong one is replaced (FK0471)."

FK0345 TXN_MISFIT
"A transaction of the ensemble does not fit the tree of this server: the line shows the version that this server would have given and the one in the transaction, or names the znode that is missing here or already exists."
"The transaction was applied with its own numbers, as in ZooKeeper, and likewise on every other server. What cannot be done was left undone: a client of this server that asked for it got the error, or after a multi was disconnected. Either this server's tree is wrong, or the leader's tree was wrong when it ordered the transaction, usually because memory was corrupted. The line appears for the 1st, 2nd, 4th, 8th, ... of these transactions; `digest_mismatches_count` counts them all."
"The servers compare their trees, and a wrong one is replaced: FK0471 in the log of a server tells whose it was. Test the memory of that machine. If none of them logs it, all have the same tree, and the values in the line tell what changed. If it happens again without FK0471, it is a bug: report it."

}
