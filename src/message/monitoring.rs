//! What goes wrong with what operators and monitoring see.

messages! { "AdminServer, metrics, audit":

FK0601 NO_ADMIN_SERVER
"The port of the AdminServer could not be opened."
"There are no commands over HTTP; clients are served as usual."
"Set `admin.serverPort` to another port, or `admin.enableServer=false`."

FK0602 ADMIN_SERVER_GONE
"The AdminServer ended."
"There are no commands over HTTP until a restart; clients are served as usual."
"See the reason in the line; restart when convenient."

FK0603 ADMIN_REFUSED
"Somebody called an AdminServer command without permission."
"Nothing was done."
"Send `Authorization: digest USER:PASSWORD` for a user who has all permissions on `/`, as the super user has. If a request does not come over loopback, or comes through a proxy, then `restore` requires the super user, and for other commands the permissions of `world` do not count, unless `admin.remote.allowWorld=true`. If nobody was supposed to call it, the address is in the line."

FK0604 SNAPSHOT_NOT_SERVED
"A snapshot requested over HTTP was taken but cannot be read."
"The answer has the HTTP status 500. The server's data is not affected."
"See the reason in the line; verify the file with `ferrokeeper snapshot verify`."

FK0605 METRICS_GONE
"`/metrics` ended."
"Prometheus gets no metrics until a restart; `mntr` still has them. Clients are served as usual."
"See the reason in the line; restart when convenient."

FK0606 AUDIT_LINES_LOST
"Lines of the audit log were dropped. Either they cannot be written and the buffer for waiting lines is full; or the server ends before they are written, and the log line says how many; or a line is too long for syslog's socket."
"Changes were made that no audit line records; `audit_lines_lost` and, once it can be written, a line of the audit log say how many lines. Nothing else is lost."
"Check the disk of the audit log, or whatever reads standard output or syslog, before the next restart. Lines that are too long fit if `net.core.wmem_default` is at least 16384."

FK0607 NOT_RESTORED
"A snapshot sent over HTTP to be restored was refused."
"Nothing was changed: the server has the data it had before. If it had already closed its connections, clients reconnect by themselves."
"See the reason in the line: send a complete snapshot, or free some space. `ferrokeeper snapshot verify` says what is wrong with a file."

FK0608 AUDIT_NOT_WRITTEN
"No audit line could be written for 5 s: the disk refuses them, the file was moved away and cannot be opened again, or nothing reads them."
"Changes continue, and their audit lines wait; beyond 64 MiB, or a quarter of the memory reserve if that is less, they are lost. With `audit.failClosed=true`, changes get -7 instead."
"Free some space on the disk of the audit log, let the user of the server create and open the file, or check whatever reads standard output or syslog. It recovers by itself. Do this before a restart: lines that still wait when the server ends are lost."

FK0609 LOG_LEVEL_SET
"The level of the server's log was changed through the AdminServer's `log_level`, or somebody tried to."
"From this line on, the log has more or fewer lines; with `off`, it has none. An attempt with a level that does not exist changes nothing."
"If nobody was supposed to do it, set `admin.serverAddress=127.0.0.1`, and find out who has access to this machine."

}
