//! What goes wrong while a server runs: its log, disk, memory, snapshots, time.

messages! { "Running server: disk, memory, time":

RK0301 LOG_NOT_WRITTEN
"The transaction log could not be written or synced."
"The server ends. What was acknowledged is on the disk; of what was not, nobody knows."
"The causes below the line say why: space, mount, a failing disk. Correct that and start again: a start finds out what is on disk."

RK0302 DIVERGED
"A transaction that is in the log cannot be applied."
"The server ends rather than serve a wrong tree. It is a defect; the log is whole."
"Keep a copy of the data directory and report it. A start will most likely refuse it, and say how to go on."

RK0303 ORDERER_LOST
"The thread that orders requests ended unexpectedly."
"The server ends. What was acknowledged is on the disk. It is a defect."
"Start again, and report it with the error above (RK0701)."

RK0311 SLOW_SYNC
"A sync of the log took longer than `fsync.warningthresholdms`."
"All writes waited for it; nothing is lost."
"Look at what else uses that disk. A disk of its own for `dataLogDir` helps; `mntr` has how long syncs take (`fsynctime`)."

RK0312 GROUP_HANGS
"A group of requests has not ended for a while; most likely the disk of the log hangs. It is told again at each doubling."
"No write is answered meanwhile; reads are. Nothing is lost."
"Look at the disk and the kernel's log. In an ensemble a leader hands over by itself."

RK0313 STOOD_STILL
"The server itself did not run for the time in the line: the machine was suspended, starved of CPU, or swapped."
"No session expires by it: all deadlines move by as much. Clients may have gone elsewhere, and in an ensemble another server may lead now."
"Look at CPU, memory and live migrations of the machine."

RK0321 DISK_NEARLY_FULL
"The disk of the log has less free space than the reserve (twice `preAllocSize`)."
"Writes that need room (create, setACL, longer data) get -7 OperationTimeout; the rest goes on. Nothing is lost."
"Make room, or delete znodes. It heals by itself, with an eighth more than the reserve."

RK0322 DISK_ALL_BUT_FULL
"The disk of the log has less free space than half of the reserve."
"Only deletes, the end of sessions and reads go on; new sessions are turned away. Nothing is lost."
"Make room now. With none left the log cannot be written, and a lone server ends."

RK0323 MEMORY_NEARLY_FULL
"Memory is nearly used up, by the limit of the control group or `memoryLimitInKb`."
"Writes that grow the tree get -7 OperationTimeout; the rest goes on. Without that the system would kill the process."
"Give the server more memory, or delete znodes. It heals by itself."

RK0331 SNAPSHOT_FAILED
"No snapshot could be taken."
"Nothing is lost: the log keeps everything, and the next one is due as usual. Until one succeeds, logs pile up and a start takes longer."
"The reason is in the line; most often the disk of `dataDir` is full."

RK0332 SPARE_FAILED
"A log segment could not be prepared ahead. It is tried again, and told once."
"Nothing is lost. Syncs take longer while there is no spare."
"The reason is in the line: space or owner, most often."

RK0333 NO_SPARES
"The thread that prepares log segments could not be started."
"Nothing is lost. Every sync takes longer, until a restart."
"Look at the limit of threads for this user or container, then restart."

RK0334 PURGE_FAILED
"Old snapshots and logs could not be purged."
"Nothing is lost; they take space. A purge by `autopurge` is tried again at its next turn."
"The reason is in the line."

RK0335 PURGE_ENDED
"A purge ended unexpectedly."
"Nothing that a start needs was deleted. It is a defect; the next turn tries again."
"Report it with the error above (RK0701)."

RK0336 PURGE_NOT_STARTED
"The thread that purges could not be started."
"Nothing is lost; old files take space until the next turn."
"Look at the limit of threads for this user or container."

RK0337 SNAPSHOT_LATE
"A snapshot was given up: 64 MiB of what changed meanwhile waited for its disk."
"Nothing is lost: the log keeps everything, and the next attempt is 10 s later or more. Told once until one succeeds; until then logs pile up and a start takes longer. Requests did not wait."
"A disk of `dataDir` that is slow or hangs: look at it. If it is only slow, take snapshots when less changes, or give `dataDir` a faster one."

RK0341 SEQUENCE_EXHAUSTED
"The counter below a parent for sequential znodes is at its end, 2147483647."
"No sequential znode can be created there any more (-8): a name would come twice. Locks and queues there stand still; the data is safe."
"Have the application use a new parent."

RK0342 QUOTA_REFUSED
"A write was refused by a hard quota."
"The client got -125 QuotaExceeded. Told at most once a second."
"`listquota` of the path in the line; delete there, or raise it with `setquota`."

RK0343 QUOTA_EXCEEDED
"A write went beyond a soft quota."
"It was done."
"`listquota` of the path in the line; delete there, or raise it with `setquota`."

RK0344 DIGEST_MISMATCH
"The digest of the tree, as a transaction or a snapshot of Apache ZooKeeper says it, is not the one of the znodes that are here."
"Nothing was refused. ZooKeeper says wrong ones after a create with the flags of a container, and is right again later. Of a transaction of this server it is a defect, or a server whose tree is not that of the others. `digest_mismatches_count` counts them."
"Once, in a log of ZooKeeper's: nothing. Else compare the servers (`hash` of each, at the same zxid) and report it; a server that differs gets the others' tree by a start on an empty directory."

}
