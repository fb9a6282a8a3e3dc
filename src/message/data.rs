//! What is wrong with a data directory: refusals first, then what a start goes on with.

messages! { "Data directory":

RK0201 DISK_REFUSED
"The operating system refused an operation on a file or folder of the data directory."
"A start has not begun; a running server ends rather than acknowledge what may not be on the disk. Nothing acknowledged is lost, unless the disk itself loses it."
"Look at the reason in the line: owner and mode, free space, a disk or mount that is gone, the kernel's log. Then start again: a start finds out what is on disk."

RK0202 NO_ROOM_FOR_SNAPSHOT
"A snapshot would take the last space of its disk, which the log may need."
"No snapshot was written; nothing is lost."
"Make room on the disk of `dataDir`."

RK0203 FOLDER_MISSING
"`dataDir` or `dataLogDir` does not exist, and `zookeeper.datadir.autocreate` is false."
"No server starts. Often a disk that is not mounted."
"Mount it, correct the path, or create the folder if it is to be a new one."

RK0204 DIRECTORY_LOCKED
"Another rookeeper uses the directory; its process id is in the line."
"Nothing was touched: two processes on one directory would destroy it."
"Stop that process, or use another `dataDir`. The lock goes with its process; the file may stay. Apache ZooKeeper takes no lock: make sure that none runs there."

RK0205 FILES_MISPLACED
"A log lies in the folder of snapshots, or a snapshot in the folder of logs."
"No server starts: transactions would be passed over. Nothing was changed. Usually `dataLogDir` was set or removed while files were there."
"Move `log.*` to `dataLogDir` and `snapshot.*` to `dataDir`, each into `version-2`; or restore the setting of before."

RK0206 NO_HEADER
"A file does not begin as a log or a snapshot does."
"It cannot be read. A start that needs it is refused, and nothing is changed."
"Restore the file from a backup; move it away only if nothing of it is needed. `rookeeper data check DIR` says what a start would do."

RK0207 LOG_DAMAGED
"A log that had been synced cannot be read at some place, or transactions are missing in it."
"ACKNOWLEDGED TRANSACTIONS are in what cannot be read. No server starts; nothing was changed."
"Keep a copy of the directory. In an ensemble, if a majority of the others is well: the command in the message moves the directory away, and a start on an empty one loads everything from them. Alone: restore the file from a backup; only else the command in the message, which starts without what is behind the damage, and says what that loses. With `forceSync=no` a power failure leaves this, too; the message says so where it may be."

RK0208 NO_READABLE_SNAPSHOT
"Not one of the snapshots that look whole can be read."
"No server starts; nothing was changed. The logs may still hold everything."
"Restore a snapshot from a backup. Where the command in the message is `rookeeper data first-snapshot`, the logs go back to the first transaction, and it loses nothing; else it moves everything aside and begins with an empty tree; a member of an ensemble then loads everything from the others, while a majority of them runs."

RK0209 LOG_WITHOUT_SNAPSHOT
"There are transactions and no snapshot that they build on."
"No server starts; nothing was changed. The logs may still hold everything."
"Check that `dataDir` is the right one: snapshots are there, logs in `dataLogDir`. Restore a snapshot. Where the command in the message is `rookeeper data first-snapshot`, it loses nothing, and `snapshot.trust.empty=true` does the same for one start; else it moves everything aside and begins with an empty tree. A member of an ensemble starts on no logs without a snapshot, whatever `snapshot.trust.empty` says: while a majority of the others runs, the command moves everything aside, and a start loads it from them."

RK0210 DIRECTORY_EMPTIED
"There is neither a snapshot nor a log, but a session key, a spare or a seal: there once was data."
"No server starts: an empty tree would be served in place of what is gone. (ZooKeeper would do that.) Nothing was changed."
"Check `dataDir`, `dataLogDir` and what should be mounted there; restore a backup. To begin anew, the command in the message."

RK0211 NO_SNAPSHOT_UP_TO
"No snapshot is old enough to make the state from that was asked for."
"The tool did nothing."
"Ask for a later zxid, or use a backup with older snapshots and logs."

RK0212 CUT_BEHIND_END
"The log cannot be read as far as it is to be kept."
"Nothing was cut."
"Cut at the zxid that the message names; more cannot be kept."

RK0213 RESTORE_BROKEN_OFF
"A `rookeeper restore` was broken off in this directory."
"No server starts, because the data is half of one and half of another. Nothing is lost: the backup is whole, and what was there before is in this folder or in `replaced-*` beside."
"Run the same restore again, with `--replace`."

RK0214 TARGET_NOT_EMPTY
"A copy would go over files that are there."
"Nothing was written."
"Choose an empty folder."

RK0215 FILES_KEEP_MOVING
"Files were removed faster than they could be copied."
"There is no backup from this attempt. The server is not harmed."
"Try again; if it stays so, take the backup at another time than the purge (`autopurge.purgeInterval`)."

RK0216 SNAPSHOT_INVALID
"A snapshot is not what its format says at some place."
"A start uses an older one and the logs, if they are there; nothing is lost then."
"Find out why: a disk that loses bytes, a copy that was not finished. Restore it, or move it away. `rookeeper data check DIR` says what a start would take."

RK0217 TRANSACTION_UNFIT
"A transaction of the log is whole and does not fit the state before it."
"No server starts; nothing was changed. Most likely log and snapshot are of two directories; else it is a defect."
"Look at what was last restored or copied there. Restore the whole directory from one backup; the command in the message starts without what is behind, and says what it loses."

RK0218 SNAPSHOT_UNFIT
"A snapshot has an intact form, and the tree cannot take what is in it."
"It is not used. If there is no other, no server starts; nothing was changed."
"Restore the directory from a backup. If rookeeper wrote the file, it is a defect: please report it, with the file."

RK0219 LOG_POISONED
"A write to the log or its sync failed before, so that nothing more may be written."
"The server ends. What was acknowledged is on the disk; what was not may be or not."
"Look for the first failure above, correct the disk, start again."

RK0220 OUT_OF_ORDER
"Transactions came to the log out of order."
"The server ends, and nothing of it was written: the log is unharmed. It is a defect."
"Start again, and report it with the log lines before."

RK0221 GROUP_TOO_LARGE
"A group of transactions is beyond what one group of the log can be, 1 GiB."
"The server ends; nothing of the group was written or acknowledged."
"Start again; lower `jute.maxbuffer` if it is that large. Please report it."

RK0222 EPOCH_FILE
"`currentEpoch` or `acceptedEpoch` does not hold a number."
"No server starts; the tree and the log are not touched by it."
"Restore the file. `currentEpoch` can be removed with the command in the message, which loses nothing: the log has it too."

RK0223 RAFT_STATE_FILE
"`raft.state` does not hold the newest term that this member has promised."
"This member does not start: one that forgets a vote can let the ensemble lose acknowledged writes. The other members are not harmed."
"While a majority of the others runs, move its data directory away and start it on an empty one: it comes back and loads the data from them. Never restore `raft.state` from a backup."

RK0224 ZOOKEEPER_WENT_ON
"Apache ZooKeeper has written to the directory of a member of an ensemble of rookeeper."
"This member does not start: what ZooKeeper wrote, the others do not have. Nothing was changed."
"If all servers went over to ZooKeeper and come back: the command in the message, on each. If only this one did: give it an empty directory."

RK0225 MEMBER_STARTED_ALONE
"The directory is that of a member of an ensemble, and the configuration is that of a lone server."
"No server starts: alone it would take for final what the others may not have. Nothing was changed."
"Start it with the list of its ensemble. If the ensemble is gone for good, the command in the message makes the directory a lone server's, and may lose what only the others have."

RK0226 TOO_MANY_MEMBERS
"An ensemble is to have more than 480 members."
"Nothing was written. It is a defect: a list cannot ask for so many."
"Please report it."

RK0227 SEAL_FILE
"`rookeeper.sealed` does not hold a zxid."
"Data is not touched by it. Nothing is purged until it is right: it says which of ZooKeeper's files may go."
"Run `rookeeper data seal DIR` again."

RK0228 SESSIONS_BEFORE_KEY_FILE
"`sessions.before.key` does not hold session ids."
"No server starts; data is not touched by it. The file says which sessions of before the seal still have ZooKeeper's passwords."
"Restore it. Or remove it with the command in the message: those sessions end, their clients open new ones, and their ephemeral znodes go."

RK0229 SESSION_KEY_FILE
"`session.key` does not have 32 bytes."
"No server starts; data is not touched by it. The key is what session passwords are made of."
"Restore it. Or remove it with the command in the message: all open sessions end with their ephemeral znodes, and passwords can be guessed until `rookeeper data seal`."

RK0230 NO_DATABASE
"The directory holds no database, and `db.autocreate` is false."
"No server starts. Usually a disk that is not mounted or a wrong `dataDir`."
"Mount or correct it. If it is to be new: create an empty file `initialize` in `dataDir`; it counts once."

RK0231 LATER_VERSION
"A file of the data directory has a format that only a later release knows."
"No server starts: what this release does not know, it would lose. Nothing was changed."
"Start the release that wrote it, or a later one."

RK0251 TORN_END_CUT
"The last group of the log is torn, and a start cuts it off."
"After a crash or a power failure this is expected, and nothing of it was acknowledged. Damage of the disk at that very place looks the same."
"Nothing after a crash. If the server had been stopped in order, check the disk and, in an ensemble, compare with the others."

RK0252 RECORDS_IN_SNAPSHOT_ONLY
"Records are missing in the log that the snapshot holds."
"The state is whole. But it can be made from this snapshot only; older ones are of no use."
"Take a backup now. Look for why log files are missing."

RK0253 LOG_ENDS_IN_SNAPSHOT
"The log ends before the snapshot, which ZooKeeper wrote while transactions went on, was whole."
"Of the transactions up to the newest one in the snapshot SOME ARE MISSING. The server starts: there is no older state that would be whole."
"If the directory is a plain copy of a running server's, take the copy again with `rookeeper backup`. Else look for newer log files."

RK0254 SNAPSHOT_NOT_WHOLE
"A snapshot file is not whole, and is passed over."
"A crash while one is written leaves this, and so does a copy that was not finished. An older one and the logs have everything, or the start is refused."
"Nothing, if the start succeeds; it may be deleted then."

RK0255 OLDER_SNAPSHOT
"A snapshot that looked whole cannot be read, and an older one is tried."
"Nothing is lost if the start succeeds: the logs from the older one on have the rest."
"Take a backup once it runs, and check the disk: the file was changed after it had been written."

RK0256 ACLS_MISSING
"Znodes of the snapshot refer to ACLs that neither it nor the log holds."
"These znodes let nobody in. The log is not that of the snapshot, so more than this may be wrong."
"Restore the directory from one backup. Else set their ACLs as the super user (`DigestAuthenticationProvider.superDigest`)."

}
