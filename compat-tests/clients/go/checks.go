// The Go client github.com/samuel/go-zookeeper: prints "ok NAME" for each check that holds,
// "failed NAME: why" for one that does not. Arguments: HOST:PORT of a server that grants no session
// more than four seconds, HOST:PORT of a proxy before it, PORT of the proxy's control.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"reflect"
	"runtime"
	"sort"
	"sync"
	"time"

	"github.com/samuel/go-zookeeper/zk"
)

const (
	session  = 4 * time.Second
	deadline = 30 * time.Second
	burst    = 500
)

var (
	server, proxy, control string
	world                  = zk.WorldACL(zk.PermAll)
)

// failure ends a check from within.
type failure string

func line() int {
	_, _, line, _ := runtime.Caller(2)
	return line
}

func want(holds bool, what ...interface{}) {
	if !holds {
		panic(failure(fmt.Sprintf("line %d: %v", line(), what)))
	}
}

func gives(expected, err error) {
	if err != expected {
		panic(failure(fmt.Sprintf("line %d: %v instead of %v", line(), err, expected)))
	}
}

type quiet struct{}

// Connections are lost on purpose.
func (quiet) Printf(string, ...interface{}) {}

// open waits for a session; the states that come later are in the channel.
func open(address string) (*zk.Conn, chan zk.State) {
	states := make(chan zk.State, 4096)
	note := func(event zk.Event) {
		if event.Type == zk.EventSession {
			select {
			case states <- event.State:
			default:
			}
		}
	}
	conn, _, err := zk.Connect([]string{address}, session, zk.WithLogger(quiet{}),
		zk.WithEventCallback(note))
	gives(nil, err)
	comesTo(states, zk.StateHasSession)
	return conn, states
}

func comesTo(states chan zk.State, state zk.State) {
	late := time.After(deadline)
	for {
		select {
		case seen := <-states:
			if seen == state {
				return
			}
		case <-late:
			panic(failure(fmt.Sprintf("line %d: no state %v", line(), state)))
		}
	}
}

func next(events <-chan zk.Event, kind zk.EventType, path string) {
	select {
	case event := <-events:
		want(event.Type == kind && event.Path == path, event, "instead of", kind, path)
	case <-time.After(deadline):
		panic(failure(fmt.Sprintf("line %d: no event %v %s", line(), kind, path)))
	}
}

func none(events <-chan zk.Event) {
	select {
	case event := <-events:
		panic(failure(fmt.Sprintf("line %d: %v", line(), event)))
	default:
	}
}

func order(word string) {
	conn, err := net.Dial("tcp", "127.0.0.1:"+control)
	gives(nil, err)
	defer conn.Close()
	fmt.Fprintln(conn, word)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	want(err == nil && answer == "done\n", answer, err)
}

func create(conn *zk.Conn, path, data string, flags int32) {
	made, err := conn.Create(path, []byte(data), flags, world)
	gives(nil, err)
	want(flags&zk.FlagSequence != 0 || made == path, made)
}

func set(conn *zk.Conn, path, data string) {
	_, err := conn.Set(path, []byte(data), -1)
	gives(nil, err)
}

func holds(conn *zk.Conn, path, data string) {
	seen, _, err := conn.Get(path)
	gives(nil, err)
	want(string(seen) == data, string(seen))
}

func there(conn *zk.Conn, path string) bool {
	found, _, err := conn.Exists(path)
	gives(nil, err)
	return found
}

func gone(conn *zk.Conn, path string) {
	late := time.Now().Add(deadline)
	for there(conn, path) {
		want(time.Now().Before(late), path, "is still there")
		time.Sleep(20 * time.Millisecond)
	}
}

func sessions(conn *zk.Conn) {
	want(conn.SessionID() != 0, "no id")
	want(conn.State() == zk.StateHasSession, conn.State())
	other, states := open(server)
	want(other.SessionID() != conn.SessionID(), "the same id")
	other.Close()
	comesTo(states, zk.StateDisconnected)
}

func stats(conn *zk.Conn) {
	create(conn, "/stat", "abc", 0)
	_, made, err := conn.Get("/stat")
	gives(nil, err)
	want(made.Czxid > 0 && made.Czxid == made.Mzxid && made.Czxid == made.Pzxid, made)
	want(made.Ctime == made.Mtime && made.Ctime > 1600000000000, made)
	want(made.Version == 0 && made.Cversion == 0 && made.Aversion == 0, made)
	want(made.EphemeralOwner == 0 && made.DataLength == 3 && made.NumChildren == 0, made)
	changed, err := conn.Set("/stat", []byte("fours"), 0)
	gives(nil, err)
	want(changed.Version == 1 && changed.DataLength == 5 && changed.Mzxid > made.Mzxid, changed)
	want(changed.Pzxid == made.Pzxid && changed.Czxid == made.Czxid, changed)
	create(conn, "/stat/a", "", 0)
	create(conn, "/stat/b", "", 0)
	gives(nil, conn.Delete("/stat/a", -1))
	found, seen, err := conn.Exists("/stat")
	want(found && err == nil, err)
	want(seen.Cversion == 3 && seen.NumChildren == 1 && seen.Pzxid > changed.Mzxid, seen)
}

func versions(conn *zk.Conn) {
	create(conn, "/version", "0", 0)
	_, err := conn.Set("/version", []byte("1"), 0)
	gives(nil, err)
	_, err = conn.Set("/version", []byte("2"), 0)
	gives(zk.ErrBadVersion, err)
	gives(zk.ErrBadVersion, conn.Delete("/version", 0))
	holds(conn, "/version", "1")
	gives(nil, conn.Delete("/version", 1))
	want(!there(conn, "/version"), "still there")
}

func ephemerals(conn *zk.Conn) {
	other, _ := open(server)
	create(other, "/mine", "", zk.FlagEphemeral)
	_, stat, err := conn.Exists("/mine")
	gives(nil, err)
	want(stat.EphemeralOwner == other.SessionID(), stat)
	_, err = conn.Create("/mine/child", nil, 0, world)
	gives(zk.ErrNoChildrenForEphemerals, err)
	other.Close()
	gone(conn, "/mine")
}

func sequence(conn *zk.Conn) {
	create(conn, "/queue", "", 0)
	for i, flags := range []int32{zk.FlagSequence, zk.FlagSequence | zk.FlagEphemeral} {
		path, err := conn.Create("/queue/n-", nil, flags, world)
		gives(nil, err)
		want(path == fmt.Sprintf("/queue/n-%010d", i), path)
	}
	path, err := conn.CreateProtectedEphemeralSequential("/queue/p-", nil, world)
	gives(nil, err)
	want(len(path) == len("/queue/_c_-p-0000000002")+32 && path[len(path)-12:] == "p-0000000002", path)
}

func errors(conn *zk.Conn) {
	create(conn, "/error", "", 0)
	create(conn, "/error/child", "", 0)
	_, err := conn.Create("/error", nil, 0, world)
	gives(zk.ErrNodeExists, err)
	_, err = conn.Create("/nothing/child", nil, 0, world)
	gives(zk.ErrNoNode, err)
	gives(zk.ErrNotEmpty, conn.Delete("/error", -1))
	gives(zk.ErrNoNode, conn.Delete("/nothing", -1))
	_, _, err = conn.Get("/nothing")
	gives(zk.ErrNoNode, err)
	_, _, err = conn.Children("/nothing")
	gives(zk.ErrNoNode, err)
	_, err = conn.Set("/nothing", nil, -1)
	gives(zk.ErrNoNode, err)
	_, _, err = conn.GetACL("/nothing")
	gives(zk.ErrNoNode, err)
}

func children(conn *zk.Conn) {
	create(conn, "/list", "", 0)
	expected := []string{"a", "b", "c"}
	for _, name := range expected {
		create(conn, "/list/"+name, "", 0)
	}
	names, stat, err := conn.Children("/list")
	gives(nil, err)
	sort.Strings(names)
	want(reflect.DeepEqual(names, expected), names)
	want(stat.NumChildren == 3 && stat.Cversion == 3, stat)
	names, _, err = conn.Children("/list/a")
	want(err == nil && len(names) == 0, names, err)
}

func acls(conn *zk.Conn) {
	create(conn, "/acl", "x", 0)
	reader := zk.WorldACL(zk.PermRead | zk.PermAdmin)
	_, err := conn.SetACL("/acl", reader, 7)
	gives(zk.ErrBadVersion, err)
	_, err = conn.SetACL("/acl", []zk.ACL{{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}}, -1)
	gives(zk.ErrInvalidACL, err)
	stat, err := conn.SetACL("/acl", reader, 0)
	want(err == nil && stat.Aversion == 1, err)
	seen, _, err := conn.GetACL("/acl")
	want(err == nil && reflect.DeepEqual(seen, reader), seen, err)
	holds(conn, "/acl", "x")
	_, err = conn.Set("/acl", nil, -1)
	gives(zk.ErrNoAuth, err)
	_, err = conn.Create("/acl/child", nil, 0, world)
	gives(zk.ErrNoAuth, err)
	_, err = conn.SetACL("/acl", []zk.ACL{{Perms: zk.PermAll, Scheme: "ip", ID: "10.1.2.3"}}, 1)
	gives(nil, err)
	_, _, err = conn.Get("/acl")
	gives(zk.ErrNoAuth, err)
}

func auth(conn *zk.Conn) {
	other, states := open(proxy)
	_, err := other.Create("/auth", nil, 0, zk.AuthACL(zk.PermAll))
	gives(zk.ErrInvalidACL, err)
	gives(nil, other.AddAuth("digest", []byte("user:user")))
	_, err = other.Create("/auth", []byte("x"), 0, zk.AuthACL(zk.PermAll))
	gives(nil, err)
	seen, _, err := other.GetACL("/auth")
	gives(nil, err)
	want(len(seen) == 1 && seen[0] == zk.ACL{Perms: zk.PermAll, Scheme: "digest",
		ID: "user:F46PeTVYeItL6aAyygIVQ9OaaeY="}, seen)
	_, err = conn.Create("/digest", nil, 0, zk.DigestACL(zk.PermAll, "user", "user"))
	gives(nil, err)
	holds(other, "/digest", "")
	_, _, err = conn.Get("/auth")
	gives(zk.ErrNoAuth, err)
	// The client says who it is on every new connection.
	order("cut")
	comesTo(states, zk.StateHasSession)
	holds(other, "/auth", "x")
	other.Close()
}

func multi(conn *zk.Conn) {
	replies, err := conn.Multi(
		&zk.CreateRequest{Path: "/multi", Data: []byte("x"), Acl: world},
		&zk.CreateRequest{Path: "/multi/a-", Data: nil, Acl: world, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: "/multi", Data: []byte("yy"), Version: 0},
		&zk.CheckVersionRequest{Path: "/multi", Version: 1})
	gives(nil, err)
	want(len(replies) == 4, replies)
	want(replies[0].String == "/multi" && replies[1].String == "/multi/a-0000000000", replies)
	want(replies[2].Stat.Version == 1 && replies[2].Stat.DataLength == 2, replies[2].Stat)
	replies, err = conn.Multi(
		&zk.DeleteRequest{Path: "/multi/a-0000000000", Version: -1},
		&zk.CheckVersionRequest{Path: "/multi", Version: 9},
		&zk.SetDataRequest{Path: "/multi", Data: []byte("z"), Version: -1})
	gives(zk.ErrBadVersion, err)
	want(len(replies) == 3 && replies[0].Error == nil && replies[1].Error == zk.ErrBadVersion, replies)
	want(there(conn, "/multi/a-0000000000"), "half of it happened")
	holds(conn, "/multi", "yy")
}

func watches(conn *zk.Conn) {
	found, _, exists, err := conn.ExistsW("/watch")
	want(err == nil && !found, err)
	create(conn, "/watch", "", 0)
	next(exists, zk.EventNodeCreated, "/watch")
	_, _, data, err := conn.GetW("/watch")
	gives(nil, err)
	_, _, list, err := conn.ChildrenW("/watch")
	gives(nil, err)
	create(conn, "/watch/child", "", 0)
	next(list, zk.EventNodeChildrenChanged, "/watch")
	none(data)
	set(conn, "/watch", "1")
	next(data, zk.EventNodeDataChanged, "/watch")
	_, _, exists, err = conn.ExistsW("/watch/child")
	gives(nil, err)
	_, _, list, err = conn.ChildrenW("/watch")
	gives(nil, err)
	gives(nil, conn.Delete("/watch/child", -1))
	next(exists, zk.EventNodeDeleted, "/watch/child")
	next(list, zk.EventNodeChildrenChanged, "/watch")
	_, _, list, err = conn.ChildrenW("/watch")
	gives(nil, err)
	gives(nil, conn.Delete("/watch", -1))
	next(list, zk.EventNodeDeleted, "/watch")
}

func cutConnection(conn *zk.Conn) {
	through, states := open(proxy)
	id := through.SessionID()
	create(through, "/cut", "", 0)
	create(through, "/cut/mine", "", zk.FlagEphemeral)
	_, _, data, err := through.GetW("/cut")
	gives(nil, err)
	_, _, later, err := through.ExistsW("/cut-later")
	gives(nil, err)
	// Not of the same node: this client tells its children's watches of changed data as well.
	create(conn, "/cut-list", "", 0)
	_, _, list, err := through.ChildrenW("/cut-list")
	gives(nil, err)
	order("hold")
	comesTo(states, zk.StateDisconnected)
	set(conn, "/cut", "missed")
	order("release")
	comesTo(states, zk.StateHasSession)
	next(data, zk.EventNodeDataChanged, "/cut")
	want(through.SessionID() == id, "another session")
	want(there(through, "/cut/mine"), "the ephemeral is gone")
	none(later)
	none(list)
	create(conn, "/cut-later", "", 0)
	next(later, zk.EventNodeCreated, "/cut-later")
	create(conn, "/cut-list/child", "", 0)
	next(list, zk.EventNodeChildrenChanged, "/cut-list")
	through.Close()
	gone(conn, "/cut/mine")
}

func expiry(conn *zk.Conn) {
	through, states := open(proxy)
	id := through.SessionID()
	create(through, "/expiring", "", zk.FlagEphemeral)
	_, _, data, err := through.GetW("/expiring")
	gives(nil, err)
	order("hold")
	want(there(conn, "/expiring"), "gone at once")
	gone(conn, "/expiring")
	order("release")
	comesTo(states, zk.StateExpired)
	next(data, zk.EventNotWatching, "/expiring")
	comesTo(states, zk.StateHasSession)
	want(through.SessionID() != id, "the same session")
	through.Close()
}

func locks(conn *zk.Conn) {
	var turns sync.WaitGroup
	inside, most := make(chan int, 8), 0
	for i := 0; i < 3; i++ {
		turns.Add(1)
		go func() {
			defer turns.Done()
			other, _ := open(server)
			defer other.Close()
			lock := zk.NewLock(other, "/lock/of/go", world)
			if lock.Lock() == nil {
				inside <- 1
				time.Sleep(time.Millisecond)
				inside <- -1
				lock.Unlock()
			}
		}()
	}
	turns.Wait()
	close(inside)
	count, holders := 0, 0
	for change := range inside {
		holders += change
		count++
		if holders > most {
			most = holders
		}
	}
	want(count == 6 && most == 1, count, most)
}

func unicode(conn *zk.Conn) {
	create(conn, "/größe", "", 0)
	create(conn, "/größe/雪-値", "naïve 値 😀", 0)
	holds(conn, "/größe/雪-値", "naïve 値 😀")
	names, _, err := conn.Children("/größe")
	want(err == nil && reflect.DeepEqual(names, []string{"雪-値"}), names, err)
}

func bigValues(conn *zk.Conn) {
	data := make([]byte, 1000000)
	for i := range data {
		data[i] = byte(i * 31 % 251)
	}
	create(conn, "/big", "", 0)
	stat, err := conn.Set("/big", data, 0)
	want(err == nil && stat.DataLength == 1000000, err)
	back, _, err := conn.Get("/big")
	want(err == nil && bytes.Equal(back, data), "other bytes", err)
	other, _ := open(server)
	defer other.Close()
	_, err = other.Set("/big", make([]byte, 1100000), -1)
	// Whoever is still writing when the server closes may be told that by the write already.
	_, writing := err.(*net.OpError)
	want(writing || err == zk.ErrConnectionClosed, err)
	found, stat, err := conn.Exists("/big")
	want(found && stat.Version == 1, stat, err)
	gives(nil, conn.Delete("/big", 1))
}

// Many callers on one connection: each sees its own answer, all together each number once.
func pipelined(conn *zk.Conn) {
	create(conn, "/burst", "", 0)
	var callers sync.WaitGroup
	paths := make(chan string, burst)
	for i := 0; i < burst; i++ {
		callers.Add(1)
		go func(data string) {
			defer callers.Done()
			path, err := conn.Create("/burst/n-", []byte(data), zk.FlagSequence, world)
			if err == nil {
				if seen, _, err := conn.Get(path); err == nil && string(seen) == data {
					paths <- path
				}
			}
		}(fmt.Sprint(i))
	}
	callers.Wait()
	close(paths)
	var all []string
	for path := range paths {
		all = append(all, path)
	}
	sort.Strings(all)
	want(len(all) == burst, len(all))
	for i, path := range all {
		want(path == fmt.Sprintf("/burst/n-%010d", i), path)
	}
}

func syncs(conn *zk.Conn) {
	path, err := conn.Sync("/stat")
	want(err == nil && path == "/stat", path, err)
	path, err = conn.Sync("/nothing")
	want(err == nil && path == "/nothing", path, err)
}

// It does not understand srvr and cons of today's servers: their numbers have decimals.
func ruok(*zk.Conn) {
	for _, ok := range zk.FLWRuok([]string{server}, time.Second) {
		want(ok, "ruok")
	}
}

func check(name string, conn *zk.Conn, run func(*zk.Conn)) {
	defer func() {
		if why := recover(); why != nil {
			fmt.Printf("failed %s: %v\n", name, why)
			order("release")
			return
		}
		fmt.Printf("ok %s\n", name)
	}()
	run(conn)
}

func main() {
	server, proxy, control = os.Args[1], os.Args[2], os.Args[3]
	conn, _ := open(server)
	check("session", conn, sessions)
	check("stats", conn, stats)
	check("versions", conn, versions)
	check("ephemerals", conn, ephemerals)
	check("sequence", conn, sequence)
	check("errors", conn, errors)
	check("children", conn, children)
	check("acls", conn, acls)
	check("auth", conn, auth)
	check("multi", conn, multi)
	check("watches", conn, watches)
	check("cut connection", conn, cutConnection)
	check("expiry", conn, expiry)
	check("locks", conn, locks)
	check("unicode", conn, unicode)
	check("big values", conn, bigValues)
	check("burst", conn, pipelined)
	check("sync", conn, syncs)
	check("ruok", conn, ruok)
	conn.Close()
}
