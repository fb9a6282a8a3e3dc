#!/usr/bin/env bash
# ZooKeeper's zkServer.sh for ferrokeeper: the same arguments, messages, exit codes and pid file.
#
#   scripts/zkServer.sh [--config DIR] start|start-foreground|stop|restart|status|version [zoo.cfg]
#
# ZOOCFGDIR, ZOOCFG, ZOOPIDFILE, ZOO_LOG_DIR and ZOO_DATADIR_AUTOCREATE_DISABLE mean what they mean there; SERVER_JVMFLAGS and
# JVMFLAGS are the server's to read. FERROKEEPER names the binary; else it is the one beside this script, on the PATH, or in
# target/release.
set -uo pipefail

# As there: a relative name of its own, as it was called.
command=$0
folder=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)

if [ "${1:-}" = --config ]; then
    [ -n "${2:-}" ] || { echo "--config needs a directory" >&2; exit 2; }
    ZOOCFGDIR=$2
    shift 2
fi
if [ -z "${ZOOCFGDIR:-}" ]; then
    if [ -d "$folder/../conf" ]; then ZOOCFGDIR=$folder/../conf; else ZOOCFGDIR=/etc/zookeeper/conf; fi
fi
export ZOOCFGDIR

find_binary() {
    local found
    for found in "${FERROKEEPER:-}" "$folder/ferrokeeper" "$(type -P ferrokeeper)" "$folder/../target/release/ferrokeeper"; do
        [ -x "$found" ] && [ -f "$found" ] && { echo "$found"; return; }
    done
    echo "no ferrokeeper binary: set FERROKEEPER" >&2
    return 1
}

# The value of a key in zoo.cfg.
setting() { # $1: the key, $2: the file
    sed -n "s/^[[:space:]]*$1[[:space:]]*=[[:space:]]*//p" "$2" 2>/dev/null | sed 's/[[:space:]]*$//' | tail -n 1
}

# zoo.cfg: its name in the directory, or a path.
if [ -n "${2:-}" ]; then ZOOCFG=$2; fi
ZOOCFG=${ZOOCFG:-zoo.cfg}
case $ZOOCFG in
*/*) ;;
*) ZOOCFG=$ZOOCFGDIR/$ZOOCFG ;;
esac

need_config() {
    echo "Using config: $ZOOCFG" >&2
    data_dir=$(setting dataDir "$ZOOCFG")
    if [ -n "${ZOO_DATADIR_AUTOCREATE_DISABLE:-}" ]; then
        local log_dir
        log_dir=$(setting dataLogDir "$ZOOCFG")
        if [ ! -d "$data_dir/version-2" ]; then
            echo "ZooKeeper data directory is missing at $data_dir fix the path or run initialize"
            exit 1
        fi
        if [ -n "$log_dir" ] && [ ! -d "$log_dir/version-2" ]; then
            echo "ZooKeeper txnlog directory is missing at $log_dir fix the path or run initialize"
            exit 1
        fi
        export SERVER_JVMFLAGS="-Dzookeeper.datadir.autocreate=false ${SERVER_JVMFLAGS:-}"
    fi
    if [ -z "${ZOOPIDFILE:-}" ]; then
        if [ -n "$data_dir" ]; then mkdir -p "$data_dir"; fi
        ZOOPIDFILE=$data_dir/zookeeper_server.pid
    else
        # Else stop would fail.
        mkdir -p "$(dirname "$ZOOPIDFILE")"
    fi
    ZOO_LOG_DIR=${ZOO_LOG_DIR:-$folder/../logs}
    daemon_out=$ZOO_LOG_DIR/zookeeper-${USER:-}-server-${HOSTNAME:-}.out
}

start() {
    local ferrokeeper pid
    echo -n "Starting zookeeper ... "
    if [ -f "$ZOOPIDFILE" ] && kill -0 "$(cat "$ZOOPIDFILE")" 2>/dev/null; then
        echo "$command already running as process $(cat "$ZOOPIDFILE")."
        exit 1
    fi
    ferrokeeper=$(find_binary) || exit 1
    mkdir -p "$ZOO_LOG_DIR"
    nohup "$ferrokeeper" server "$ZOOCFG" >"$daemon_out" 2>&1 </dev/null &
    pid=$!
    if ! echo -n "$pid" >"$ZOOPIDFILE"; then
        echo FAILED TO WRITE PID
        exit 1
    fi
    sleep 1
    if kill -0 "$pid" 2>/dev/null; then
        echo STARTED
    else
        echo FAILED TO START
        exit 1
    fi
}

# The server hands over and takes its last snapshot: where ZooKeeper's script waits a second, this one waits for the end.
stop() {
    local pid tenth
    echo -n "Stopping zookeeper ... "
    if [ ! -f "$ZOOPIDFILE" ]; then
        echo "no zookeeper to stop (could not find file $ZOOPIDFILE)"
        return
    fi
    pid=$(cat "$ZOOPIDFILE")
    kill "$pid"
    for ((tenth = 0; tenth < 300; tenth++)); do
        runs "$pid" || break
        sleep 0.1
    done
    if runs "$pid"; then
        echo "FAILED TO STOP: process $pid has not ended within 30 s; $ZOOPIDFILE stays"
        exit 1
    fi
    rm "$ZOOPIDFILE"
    echo STOPPED
}

# Nobody has waited for a process that has ended where this script's parent is process 1 of a
# container: it does not run. As long as one of its threads is in the kernel, syncing a file, it
# holds the directory and the port: then it does.
runs() {
    local status
    kill -0 "$1" 2>/dev/null || return 1
    status=$(cat "/proc/$1/status" 2>/dev/null)
    ! { [[ $status =~ State:[[:space:]]*Z ]] && [[ $status =~ Threads:[[:space:]]*[01][[:space:]] ]]; }
}

# Where clients are served, as ZooKeeper's script finds it.
find_client_port() {
    local myid line dynamic
    address=$(setting clientPortAddress "$ZOOCFG")
    port=$(setting clientPort "$ZOOCFG")
    if ! [[ $port =~ ^[0-9]+$ ]]; then
        port=
        myid=$(cat "$data_dir/myid" 2>/dev/null)
        if ! [[ $myid =~ ^[0-9]+$ ]]; then
            echo "myid could not be determined, will not able to locate clientPort in the server configs."
        else
            line=$(setting "server\.$myid" "$ZOOCFG")
            if [[ $line != *';'* ]]; then
                echo "Client port not found in static config file. Looking in dynamic config file."
                dynamic=$(setting dynamicConfigFile "$ZOOCFG")
                line=$(setting "server\.$myid" "$dynamic")
            fi
            if [[ $line != *';'* ]]; then
                echo "Client port not found in the server configs"
            else
                line=${line##*;}
                port=${line##*:}
                if [[ $line == *:* ]]; then
                    address=${line%:*}
                    address=${address#[}
                    address=${address%]}
                fi
            fi
        fi
    fi
    if [ -z "$port" ]; then
        echo "Client port not found. Looking for secureClientPort in the static config."
        echo "Unable to find either secure or unsecure client port in any configs. Terminating."
        exit 1
    fi
    address=${address:-localhost}
}

status() {
    local mode
    find_client_port
    echo "Client port found: $port. Client address: $address. Client SSL: false."
    # In a shell of its own: where nobody listens, bash says so.
    mode=$( (exec 3<>"/dev/tcp/$address/$port" && echo -n srvr >&3 && timeout 10 cat <&3) 2>/dev/null | grep Mode)
    if [ -z "$mode" ]; then
        echo "Error contacting service. It is probably not running."
        exit 1
    fi
    echo "$mode"
}

case ${1:-} in
start)
    need_config
    start
    ;;
start-foreground)
    need_config
    ferrokeeper=$(find_binary) || exit 1
    # As there: for scripts that want to come back behind it.
    if [ -n "${ZOO_NOEXEC:-}" ]; then "$ferrokeeper" server "$ZOOCFG"; else exec "$ferrokeeper" server "$ZOOCFG"; fi
    ;;
stop)
    need_config
    stop
    ;;
restart)
    need_config
    stop
    start
    ;;
status)
    need_config
    status
    ;;
version)
    ferrokeeper=$(find_binary) || exit 1
    version=$("$ferrokeeper" --version)
    echo "ferrokeeper, version 3.9.5-ferrokeeper.${version##* }"
    ;;
print-cmd)
    need_config
    ferrokeeper=$(find_binary) || exit 1
    echo "\"$ferrokeeper\" server \"$ZOOCFG\" > \"$daemon_out\" 2>&1 < /dev/null"
    ;;
upgrade)
    echo "no: ferrokeeper reads what ZooKeeper wrote as it is" >&2
    exit 1
    ;;
*)
    echo "Usage: $0 [--config <conf-dir>] {start|start-foreground|stop|version|restart|status|print-cmd}" >&2
    ;;
esac
