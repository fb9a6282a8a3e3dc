//! What is wrong with a data directory: refusals first, then what a start goes on with.

messages! { "Data directory":

FK0201 DISK_REFUSED
"The operating system refused an operation on a file or folder of the data directory."
"A server that is starting gives up; a running server ends rather than acknowledge what may not be on disk. Nothing acknowledged is lost, unless the disk itself loses it."
"Look at the reason in the line: owner and mode, free space, a disk or mount that is gone, the kernel log. Then start the server again: it reads back what is on disk."

FK0202 NO_ROOM_FOR_SNAPSHOT
"A snapshot would use up the last free space of its disk, which the log may need."
"No snapshot was written; nothing is lost."
"Free some space on the disk of `dataDir`."

FK0203 FOLDER_MISSING
"`dataDir` or `dataLogDir` does not exist, and `zookeeper.datadir.autocreate` is false."
"The server does not start. Often a disk is not mounted."
"Mount it, correct the path, or create the folder if it is meant to be new."

FK0204 DIRECTORY_LOCKED
"Another ferrokeeper is using the directory; its process id and host name are in the line. In a container, both are those of the container."
"Nothing was touched: two processes in one directory would destroy it."
"Stop that process, or use another `dataDir`. The lock is released when its process ends; the lock file may be left in place. Apache ZooKeeper takes no lock: make sure that it is not running there."

FK0205 FILES_MISPLACED
"A log is in the folder for snapshots, or a snapshot is in the folder for logs."
"The server does not start: it would miss transactions. Nothing was changed. Usually `dataLogDir` was set or removed while there were files."
"Move `log.*` to `dataLogDir` and `snapshot.*` to `dataDir`, each into `version-2`; or restore the previous setting."

FK0206 NO_HEADER
"A file does not begin like a log or a snapshot."
"It cannot be read. A start that needs it is refused, and nothing is changed."
"Restore the file from a backup; move it away only if nothing in it is needed. `ferrokeeper data check DIR` says what a start would do."

FK0207 LOG_DAMAGED
"A part of a log that had been synced cannot be read, or transactions are missing in it."
"The part that cannot be read contains ACKNOWLEDGED TRANSACTIONS. The server does not start; nothing was changed."
"Keep a copy of the directory. In an ensemble, while a majority of the others is running, run the command in the message, which moves `version-2` aside, and start the server: it loads everything from them. For a standalone server, restore the file from a backup. Only if there is no backup, run the command in the message: it removes the damaged part and everything after it, and says what that loses. With `forceSync=no` a power failure can cause this too; the message says so where that is possible."

FK0208 NO_READABLE_SNAPSHOT
"None of the snapshots that look complete can be read."
"The server does not start; nothing was changed. The logs may still hold everything."
"Restore a snapshot from a backup. If the command in the message is `ferrokeeper data first-snapshot`, the logs go back to the first transaction and the command loses nothing. Any other command moves everything aside and begins with an empty tree; a member of an ensemble then loads everything from the others, if a majority of them is running."

FK0209 LOG_WITHOUT_SNAPSHOT
"There are transactions but no snapshot that they build on."
"The server does not start; nothing was changed. The logs may still hold everything."
"Check that `dataDir` is the right one: snapshots are there, logs in `dataLogDir`. Restore a snapshot. What else to do depends on the command in the message. `ferrokeeper data first-snapshot` loses nothing, and `snapshot.trust.empty=true` does the same for one start. If the message names no command, the folder of snapshots holds nothing that belongs to this server's log, most likely because the disk of `dataDir` is not mounted: mount it. Only if that disk is lost for good, and never for a member of an ensemble, run `ferrokeeper data first-snapshot`: it makes a snapshot from the log, and open sessions then end. Any other command moves everything aside; a standalone server then begins with an empty tree. A member of an ensemble never starts from logs without a snapshot, whatever `snapshot.trust.empty` says. Run its command only while a majority of the other servers is running: it moves everything aside, and the server then loads everything from them."

FK0210 DIRECTORY_EMPTIED
"There is neither a snapshot nor a log, but there is a `session.key`, `sessions.before.key`, `ferrokeeper.sealed`, `ferrokeeper.logged` or spare log segment (`spare.N`): the directory once held data."
"The server does not start: it would serve an empty tree in place of what is gone. (ZooKeeper would do that.) Nothing was changed."
"Check `dataDir`, `dataLogDir` and what should be mounted there; restore a backup. To start over with an empty tree, use the command in the message."

FK0211 NO_SNAPSHOT_UP_TO
"No snapshot is old enough to rebuild the requested state from."
"The tool did nothing."
"Ask for a later zxid, or use a backup with older snapshots and logs."

FK0212 CUT_BEHIND_END
"The log cannot be read to the end of the part that was to be kept."
"Nothing was cut."
"Cut at the zxid named in the message; more cannot be kept."

FK0213 RESTORE_BROKEN_OFF
"A `ferrokeeper restore` was interrupted in this directory."
"The server does not start, because the directory mixes two sets of data. Nothing is lost: the backup is complete, and the previous files are in this folder or in `replaced-*` next to it."
"Run the same restore again, with `--replace`."

FK0214 TARGET_NOT_EMPTY
"A copy would overwrite existing files."
"Nothing was written."
"Choose an empty folder."

FK0215 FILES_KEEP_MOVING
"Files were removed faster than they could be copied."
"This attempt made no backup. The server is not affected."
"Try again; if it keeps happening, keep more snapshots (`autopurge.snapRetainCount`): a purge follows each new one."

FK0216 SNAPSHOT_INVALID
"Part of a snapshot does not follow its format."
"If an older snapshot and its logs exist, the server starts from them and nothing is lost."
"Find out why: a disk that loses bytes, or an unfinished copy. Restore it, or move it away. `ferrokeeper data check DIR` says what a start would use."

FK0217 TRANSACTION_UNFIT
"A transaction in the log is intact but does not fit the state before it."
"The server does not start; nothing was changed. Most likely the log and the snapshot come from different directories; otherwise it is a bug."
"Look at what was last restored, copied or mounted there. Restore the whole directory from one backup. If the log was not written after the newest snapshot, the command in the message moves that snapshot aside, and a start uses an older one that matches the log. Otherwise the command starts without this transaction and everything after it, and says what that loses."

FK0218 SNAPSHOT_UNFIT
"A snapshot has a valid format, but the tree cannot be built from its contents."
"It is not used. If there is no other, the server does not start; nothing was changed."
"Restore the directory from a backup. If ferrokeeper wrote the file, it is a bug: please report it, and include the file."

FK0219 LOG_POISONED
"A write to the log or its sync failed earlier, so nothing more may be written."
"The server ends. Acknowledged writes are on disk. Other writes may or may not be."
"Look for the first failure above, fix the disk, start again."

FK0220 OUT_OF_ORDER
"Transactions reached the log out of order."
"The server ends, and none of them was written: the log is undamaged. This is a bug."
"Start again, and report it with the preceding log lines."

FK0221 GROUP_TOO_LARGE
"A group of transactions is larger than a group in the log can be, 1 GiB."
"The server ends; nothing of the group was written or acknowledged."
"Start again; lower `jute.maxbuffer` if it is that large. Please report it."

FK0222 EPOCH_FILE
"`currentEpoch` or `acceptedEpoch` does not hold a number."
"The server does not start; the tree and the log are not affected."
"Restore the file. `currentEpoch` can be removed with the command in the message, which loses nothing: the log has the epoch too."

FK0223 RAFT_STATE_FILE
"None of the copies of the state in `raft.state` can be read."
"This member does not start: a member that forgets a vote can make the ensemble lose acknowledged writes. The other members are not affected."
"While a majority of the others is running, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start it again: it rejoins and loads the data from them. The line has the command. Never restore `raft.state` from a backup."

FK0224 ZOOKEEPER_WENT_ON
"Apache ZooKeeper has written to the directory of a member of a ferrokeeper ensemble."
"This server does not take part in that ensemble again: the others may not have what ZooKeeper wrote. If ZooKeeper wrote to a majority of the directories, the servers begin the next generation of the ensemble with the newest of them, and you need not do anything."
"If this server keeps waiting, do what its FK0441 lines say. Only if what ZooKeeper wrote is not needed, and while a majority of the others is running as an ensemble that serves clients: stop this server, move `version-2` in dataDir and dataLogDir aside, keep both, leave `myid`, and start this server again."

FK0225 MEMBER_STARTED_ALONE
"The directory belongs to a member of an ensemble, but the configuration is that of a standalone server."
"The server does not start: alone, it would treat as committed what the others may not have. Nothing was changed."
"Put the server list of its ensemble back into zoo.cfg. Only if all other members are lost for good, run the command in the message, which turns the directory into that of a standalone server: what only the others had is lost. If any of them still runs, two servers would serve different data."

FK0226 TOO_MANY_MEMBERS
"An ensemble was to have more than 480 members."
"Nothing was written. This is a bug: a server list cannot ask for that many."
"Please report it."

FK0227 SEAL_FILE
"`ferrokeeper.sealed` does not hold a zxid, or fails its checksum."
"The data is not affected. None of ZooKeeper's files is purged until this is fixed: the file says which of them may be deleted."
"Run `ferrokeeper data seal DIR` again."

FK0228 SESSIONS_BEFORE_KEY_FILE
"`sessions.before.key` does not hold session ids, or fails its checksum."
"The server does not start; the data is not affected. The file says which sessions from before the seal still have ZooKeeper's passwords."
"Restore it. Or remove it with the command in the message: those sessions end, their clients open new ones, and their ephemeral znodes are deleted."

FK0229 SESSION_KEY_FILE
"`session.key` fails its checksum, or is not as long as a key."
"The server does not start; the data is not affected. Session passwords are derived from this key."
"Restore it. Or remove it with the command in the message: all open sessions end, along with their ephemeral znodes, and passwords can be guessed until `ferrokeeper data seal` is run."

FK0230 NO_DATABASE
"The directory holds no database, and `db.autocreate` is false."
"The server does not start. Usually a disk is not mounted or `dataDir` is wrong."
"Mount the disk or correct the path. Only to begin with an empty tree, create an empty file `initialize` in `dataDir`. The next start removes that file and begins with an empty tree: what this directory is meant to hold is then lost to the server."

FK0231 LATER_VERSION
"A file of the data directory has a format that only a later release knows."
"The server does not start: it would lose whatever this release does not know. Nothing was changed."
"Start the release that wrote it, or a later one."

FK0232 LOG_GONE
"The folder of logs is empty, but `ferrokeeper.logged` next to the snapshots says that this server had a log."
"The server does not start: it would lose every transaction after the snapshot, and would use their zxids for other transactions. (ZooKeeper would do that.) Nothing was changed. Usually the disk of `dataLogDir` is not mounted, or `dataLogDir` was changed or removed; the line says where the log was."
"Mount the disk or restore the setting. If you moved `dataLogDir` on purpose, move the `log.*` files into `version-2` below the new `dataLogDir`. If they are lost, restore a backup. Only if there is none, run the command in the message: on a standalone server, everything after the snapshot is then lost for good; a member of an ensemble loads everything from the others."

FK0233 EPOCH_ABOVE_TERM
"`acceptedEpoch` is above the term promised in `raft.state`."
"The member starts with a term that is above both and in which it has not voted. ZooKeeper raises the epoch when it starts on the directory; a disk that lost the newest slots of `raft.state` looks the same."
"Nothing, if ZooKeeper ran on the directory. Otherwise check the disk."

FK0234 LAST_FILE_UNREADABLE
"The newest data of a server of an ensemble cannot be read: it is in a completely written snapshot, or in a log of ZooKeeper's."
"The server does not start: transactions that were acknowledged, possibly by ZooKeeper, may exist only there. Nothing was changed. A snapshot that was not completely written is skipped instead, as in ZooKeeper, and so is the torn end of a log."
"Restore the file from a backup. Only if the other servers have what is needed, and while a majority of them is running, run the command in the message: it moves the data aside and keeps it, and a start then loads everything from them."

FK0251 TORN_END_CUT
"The last group of the log is torn, and the start cuts it off."
"This is expected after a crash or a power failure, and nothing in that group was acknowledged. Disk damage at exactly that place looks the same."
"Nothing after a crash. If the server had been shut down cleanly, check the disk and, in an ensemble, compare with the others."

FK0252 RECORDS_IN_SNAPSHOT_ONLY
"Records that the snapshot holds are missing from the log."
"The state is complete. But it can be rebuilt from this snapshot only; older ones are of no use."
"Take a backup now. Find out why log files are missing."

FK0253 LOG_ENDS_IN_SNAPSHOT
"The log ends too early to complete the snapshot, which ZooKeeper wrote while transactions went on."
"SOME TRANSACTIONS ARE MISSING: the snapshot contains later ones, and the log ends before them. The server starts: there is no older state that would be complete."
"If the directory was copied while a server was running, copy it again with `ferrokeeper backup`. Otherwise look for newer log files."

FK0254 SNAPSHOT_NOT_WHOLE
"A snapshot file is incomplete and is skipped."
"A crash while a snapshot is being written leaves such a file, and so does an unfinished copy. An older snapshot and the logs have everything, or the start is refused."
"Nothing, if the start succeeds; the file may then be deleted."

FK0255 OLDER_SNAPSHOT
"A snapshot that looked complete cannot be read, so an older one is tried."
"Nothing is lost if the start succeeds: the logs from the older one onward have the rest."
"Take a backup once the server is running, and check the disk: the file was changed after it had been written. If the line is about a digest, all checksums of the file match: then it can also be a bug, so please report it."

FK0256 ACLS_MISSING
"Znodes of the snapshot refer to ACLs that neither it nor the log holds."
"Nobody has access to these znodes. The log does not belong to the snapshot, so more than this may be wrong."
"Restore the directory from one backup. Otherwise set their ACLs as the super user (`DigestAuthenticationProvider.superDigest`)."

FK0257 LOG_UNTOLD
"The disk of the snapshots (`dataDir`) has no room for `ferrokeeper.logged`, the file that says that there is a log."
"The log is complete and continues. But until the file is there, a start cannot notice that the log folder is missing or not mounted, and would begin from the newest snapshot without the log."
"Free some space in `dataDir`; the server writes the file by itself after that. Until then, check before each start that the log folder (`dataLogDir`) is mounted."

FK0258 SESSION_PASSWORDS_DIFFER
"`sessions.passwords` asks for a different kind of session password than the directory or the ensemble uses; the line says which kind is in effect, and how many open sessions have such passwords."
"The server starts, and no session ends because of it: the setting in zoo.cfg counts only when a directory or an ensemble begins, and `session.key` stays as long as an open session depends on it."
"To get ZooKeeper's formula on a standalone server, restart it when no such session is open. To get a key, stop it and run `ferrokeeper data seal`. For an ensemble, see 'Passwords of sessions in an ensemble' in docs/operations/peers.md. Or set zoo.cfg to the kind that is in effect."

FK0259 OLD_NAME
"A file in the directory has the name, or the header, that it had before this product was called ferrokeeper."
"The server or tool does not start; nothing was changed. Ignoring such a file would mean trusting data that must not be trusted, breaking a promise to an ensemble, or running alongside a server that holds the old lock."
"Stop the server of the earlier version if it still runs. Then run the command in the line, which gives the files their new names; their contents stay the same, and a lock stays held. In a backup, also replace the names in `backup.json`. `raft.state` and `raft.state.left` cannot be renamed: once all servers of the ensemble have stopped, do what the line says with the earlier version, and keep the directories of all."

}
