//! What goes wrong with what operators and monitoring see.

messages! { "AdminServer, metrics, audit":

RK0601 NO_ADMIN_SERVER
"The AdminServer's port cannot be had."
"There are no commands over HTTP; clients are served as usual."
"Set `admin.serverPort` to another port, or `admin.enableServer=false`."

RK0602 ADMIN_SERVER_GONE
"The AdminServer ended."
"There are no commands over HTTP until a restart; clients are served as usual."
"Look at the reason in the line; restart when it suits."

RK0603 ADMIN_REFUSED
"Somebody asked the AdminServer for a command without the right to it."
"Nothing was done."
"It takes an `Authorization: digest USER:PASSWORD` of somebody who has every permission on `/`, as the super user has; from another machine `restore` takes the super user, and for the rest what the world may does not count, unless `admin.remote.allowWorld=true`. If nobody was meant to ask: the address is in the line."

RK0604 SNAPSHOT_NOT_SERVED
"A snapshot that was asked for over HTTP was taken and cannot be read."
"The answer is an error 500. The server's data is not touched."
"Look at the reason in the line; verify the file with `rookeeper snapshot verify`."

RK0605 METRICS_GONE
"`/metrics` ended."
"Prometheus gets no figures until a restart; `mntr` has them. Clients are served as usual."
"Look at the reason in the line; restart when it suits."

RK0606 AUDIT_LINES_LOST
"Lines of the audit log were dropped: it takes none, and no more can wait."
"Changes were done that are in no line of it; how many lines, `audit_lines_lost` and a line of the audit log say. Nothing else is lost."
"Look at the disk of the audit log, or at whoever reads standard output or syslog."

RK0607 NOT_RESTORED
"A snapshot that was sent over HTTP to be restored was refused."
"Nothing was changed: the server has what it had. If it had closed its connections already, clients come back by themselves."
"Look at the reason in the line: send a whole snapshot, or make room. `rookeeper snapshot verify` tells what is wrong with a file."

RK0608 AUDIT_NOT_WRITTEN
"The audit log has taken no line for 5 s: the disk refuses it, or nobody reads it."
"Changes go on, and their lines wait; beyond 64 MiB they are lost. With `audit.failClosed=true` changes get -7 instead."
"Make room on the disk of the audit log, or look at whoever reads standard output or syslog. It heals by itself."

}
