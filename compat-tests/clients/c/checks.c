/*
 * The C client's API: prints "ok NAME" for each check that holds, "failed NAME: why" for one that
 * does not. Arguments: HOST:PORT of a server that looks at its containers often and grants no
 * session more than SESSION_MS, HOST:PORT of a proxy before it, PORT of the proxy's control.
 */
#include <arpa/inet.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define SESSION_MS 4000
#define DEADLINE_S 30
#define BURST 1000

static const char *server, *proxy;
static int control;
static char why[1024];

#define want(condition)                                                        \
    do {                                                                       \
        if (!(condition)) {                                                    \
            snprintf(why, sizeof why, "line %d: %s", __LINE__, #condition);    \
            return why;                                                        \
        }                                                                      \
    } while (0)

#define gives(code, call)                                                      \
    do {                                                                       \
        int rc_ = (call);                                                      \
        if (rc_ != (code)) {                                                   \
            snprintf(why, sizeof why, "line %d: %s: %d %s", __LINE__, #call,   \
                     rc_, zerror(rc_));                                        \
            return why;                                                        \
        }                                                                      \
    } while (0)

/* What a session's watchers have seen, in order. */
struct events {
    pthread_mutex_t lock;
    pthread_cond_t more;
    int count, taken;
    struct event {
        int type, state;
        char path[128];
    } list[256];
};

static struct events *events_new(void) {
    struct events *events = calloc(1, sizeof *events);
    pthread_mutex_init(&events->lock, NULL);
    pthread_cond_init(&events->more, NULL);
    return events;
}

static void note(struct events *events, int type, int state, const char *path) {
    pthread_mutex_lock(&events->lock);
    if (events->count < 256) {
        struct event *event = &events->list[events->count++];
        event->type = type;
        event->state = state;
        snprintf(event->path, sizeof event->path, "%s", path ? path : "");
    }
    pthread_cond_broadcast(&events->more);
    pthread_mutex_unlock(&events->lock);
}

static struct timespec deadline(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += DEADLINE_S;
    return until;
}

/* Takes the next event. */
static int next_is(struct events *events, int type, const char *path) {
    struct timespec until = deadline();
    int same = 0;
    pthread_mutex_lock(&events->lock);
    while (events->taken == events->count &&
           pthread_cond_timedwait(&events->more, &events->lock, &until) == 0) {
    }
    if (events->taken < events->count) {
        struct event *event = &events->list[events->taken++];
        same = event->type == type && strcmp(event->path, path) == 0;
        if (!same) {
            fprintf(stderr, "event %d %s instead of %d %s\n", event->type, event->path, type, path);
        }
    }
    pthread_mutex_unlock(&events->lock);
    return same;
}

/* Waits for a state of the session, taking the events before it. */
static int comes_to(struct events *events, int state) {
    struct timespec until = deadline();
    int there = 0;
    pthread_mutex_lock(&events->lock);
    while (!there) {
        if (events->taken < events->count) {
            there = events->list[events->taken++].state == state;
        } else if (pthread_cond_timedwait(&events->more, &events->lock, &until) != 0) {
            break;
        }
    }
    pthread_mutex_unlock(&events->lock);
    return there;
}

/* A node's watcher: its context is where it notes. */
static void on_node(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    if (type != ZOO_SESSION_EVENT) {
        note(context, type, state, path);
    }
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context) {
    (void)zh;
    (void)path;
    if (type == ZOO_SESSION_EVENT) {
        note(context, type, state, "");
    }
}

static zhandle_t *open_session(const char *address, const clientid_t *id, struct events **session) {
    struct events *events = events_new();
    zhandle_t *zh = zookeeper_init(address, on_session, SESSION_MS, id, events, 0);
    if (zh == NULL || !comes_to(events, ZOO_CONNECTED_STATE)) {
        printf("failed connect: no session with %s\n", address);
        exit(1);
    }
    if (session != NULL) {
        *session = events;
    }
    return zh;
}

static int order(const char *word) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)control)};
    char answer[16];
    int done, socket_ = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    done = connect(socket_, (struct sockaddr *)&address, sizeof address) == 0 &&
           dprintf(socket_, "%s\n", word) > 0 && read(socket_, answer, sizeof answer) == 5;
    close(socket_);
    return done;
}

static int create(zhandle_t *zh, const char *path, const char *data, int mode) {
    return zoo_create(zh, path, data, data ? (int)strlen(data) : -1, &ZOO_OPEN_ACL_UNSAFE, mode,
                      NULL, 0);
}

static int put(zhandle_t *zh, const char *path, const char *data, int version) {
    return zoo_set(zh, path, data, (int)strlen(data), version);
}

static int holds(zhandle_t *zh, const char *path, const char *data) {
    char buffer[128];
    int length = sizeof buffer;
    return zoo_get(zh, path, 0, buffer, &length, NULL) == ZOK && length == (int)strlen(data) &&
           memcmp(buffer, data, strlen(data)) == 0;
}

/* Until an exists of the path gives the code. */
static int becomes(zhandle_t *zh, const char *path, int code) {
    struct timespec until = deadline(), now, pause = {.tv_nsec = 20000000};
    while (zoo_exists(zh, path, 0, NULL) != code) {
        clock_gettime(CLOCK_REALTIME, &now);
        if (now.tv_sec > until.tv_sec) {
            return 0;
        }
        nanosleep(&pause, NULL);
    }
    return 1;
}

static const char *session(zhandle_t *zh) {
    want(zoo_client_id(zh)->client_id != 0);
    want(zoo_recv_timeout(zh) == SESSION_MS);
    want(zoo_state(zh) == ZOO_CONNECTED_STATE);
    zhandle_t *other = open_session(server, NULL, NULL);
    want(zoo_client_id(other)->client_id != zoo_client_id(zh)->client_id);
    gives(ZOK, zookeeper_close(other));
    return NULL;
}

static const char *stats(zhandle_t *zh) {
    struct Stat made, changed, seen;
    char path[64], buffer[16];
    int length = sizeof buffer;
    gives(ZOK, zoo_create2(zh, "/stat", "abc", 3, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path, &made));
    want(strcmp(path, "/stat") == 0);
    want(made.czxid > 0 && made.czxid == made.mzxid && made.czxid == made.pzxid);
    want(made.ctime == made.mtime && made.ctime > 1600000000000);
    want(made.version == 0 && made.cversion == 0 && made.aversion == 0);
    want(made.ephemeralOwner == 0 && made.dataLength == 3 && made.numChildren == 0);
    gives(ZOK, zoo_set2(zh, "/stat", "fours", 5, 0, &changed));
    want(changed.version == 1 && changed.dataLength == 5 && changed.czxid == made.czxid);
    want(changed.mzxid > made.mzxid && changed.pzxid == made.pzxid);
    gives(ZOK, create(zh, "/stat/a", "", 0));
    gives(ZOK, create(zh, "/stat/b", "", 0));
    gives(ZOK, zoo_delete(zh, "/stat/a", -1));
    gives(ZOK, zoo_exists(zh, "/stat", 0, &seen));
    want(seen.cversion == 3 && seen.numChildren == 1 && seen.pzxid > changed.mzxid);
    want(seen.mzxid == changed.mzxid && seen.version == 1);
    gives(ZOK, zoo_get(zh, "/stat", 0, buffer, &length, &seen));
    want(length == 5 && memcmp(buffer, "fours", 5) == 0 && seen.dataLength == 5);
    gives(ZOK, create(zh, "/stat/null", NULL, 0));
    length = sizeof buffer;
    gives(ZOK, zoo_get(zh, "/stat/null", 0, buffer, &length, &seen));
    want(length == -1 && seen.dataLength == 0);
    return NULL;
}

static const char *versions(zhandle_t *zh) {
    gives(ZOK, create(zh, "/version", "0", 0));
    gives(ZOK, put(zh, "/version", "1", 0));
    gives(ZBADVERSION, put(zh, "/version", "2", 0));
    gives(ZOK, put(zh, "/version", "2", -1));
    gives(ZBADVERSION, zoo_delete(zh, "/version", 1));
    want(holds(zh, "/version", "2"));
    gives(ZOK, zoo_delete(zh, "/version", 2));
    gives(ZNONODE, zoo_exists(zh, "/version", 0, NULL));
    return NULL;
}

static const char *ephemerals(zhandle_t *zh) {
    struct Stat stat;
    zhandle_t *other = open_session(server, NULL, NULL);
    int64_t owner = zoo_client_id(other)->client_id;
    gives(ZOK, create(other, "/mine", "", ZOO_EPHEMERAL));
    gives(ZOK, zoo_exists(zh, "/mine", 0, &stat));
    want(stat.ephemeralOwner == owner);
    gives(ZNOCHILDRENFOREPHEMERALS, create(zh, "/mine/child", "", 0));
    gives(ZNODEEXISTS, create(zh, "/mine", "", ZOO_EPHEMERAL));
    gives(ZOK, zookeeper_close(other));
    gives(ZNONODE, zoo_exists(zh, "/mine", 0, &stat));
    return NULL;
}

static const char *sequence(zhandle_t *zh) {
    const int modes[] = {ZOO_SEQUENCE, ZOO_SEQUENCE, ZOO_SEQUENCE | ZOO_EPHEMERAL};
    char path[64], expected[64];
    gives(ZOK, create(zh, "/queue", "", 0));
    for (int i = 0; i < 3; i++) {
        gives(ZOK, zoo_create(zh, "/queue/n-", "", 0, &ZOO_OPEN_ACL_UNSAFE, modes[i], path, sizeof path));
        snprintf(expected, sizeof expected, "/queue/n-%010d", i);
        want(strcmp(path, expected) == 0);
    }
    gives(ZOK, zoo_create(zh, "/queue/", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path, sizeof path));
    want(strcmp(path, "/queue/0000000003") == 0);
    return NULL;
}

static const char *errors(zhandle_t *zh) {
    gives(ZOK, create(zh, "/error", "", 0));
    gives(ZOK, create(zh, "/error/child", "", 0));
    gives(ZNODEEXISTS, create(zh, "/error", "", 0));
    gives(ZNONODE, create(zh, "/nothing/child", "", 0));
    gives(ZNOTEMPTY, zoo_delete(zh, "/error", -1));
    gives(ZNONODE, zoo_delete(zh, "/nothing", -1));
    gives(ZNONODE, put(zh, "/nothing", "", -1));
    gives(ZBADARGUMENTS, zoo_delete(zh, "/", -1));
    gives(ZBADARGUMENTS, create(zh, "/error/", "", 0));
    gives(ZBADARGUMENTS, create(zh, "/error/../x", "", 0));
    struct String_vector names;
    gives(ZNONODE, zoo_get_children(zh, "/nothing", 0, &names));
    return NULL;
}

static const char *children(zhandle_t *zh) {
    const char *expected[] = {"a", "b", "c"};
    struct String_vector names;
    struct Stat stat;
    int found = 0;
    gives(ZOK, create(zh, "/list", "", 0));
    for (int i = 0; i < 3; i++) {
        char path[16];
        snprintf(path, sizeof path, "/list/%s", expected[i]);
        gives(ZOK, create(zh, path, "", 0));
    }
    gives(ZOK, zoo_get_children2(zh, "/list", 0, &names, &stat));
    want(names.count == 3 && stat.numChildren == 3 && stat.cversion == 3);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            found += strcmp(names.data[i], expected[j]) == 0;
        }
    }
    want(found == 3);
    gives(ZOK, zoo_get_children(zh, "/list/a", 0, &names));
    want(names.count == 0);
    return NULL;
}

static const char *containers(zhandle_t *zh) {
    struct Stat stat;
    gives(ZOK, create(zh, "/container", "", ZOO_CONTAINER));
    gives(ZOK, zoo_exists(zh, "/container", 0, &stat));
    want(stat.ephemeralOwner == 0);
    gives(ZOK, create(zh, "/container/child", "", 0));
    gives(ZOK, zoo_delete(zh, "/container/child", -1));
    want(becomes(zh, "/container", ZNONODE));
    return NULL;
}

static const char *times_to_live(zhandle_t *zh) {
    struct Stat stat;
    char path[64];
    gives(ZOK, zoo_create2_ttl(zh, "/ttl", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL,
                               300, path, sizeof path, &stat));
    want(strcmp(path, "/ttl") == 0 && stat.ephemeralOwner == 0);
    gives(ZOK, zoo_create_ttl(zh, "/ttl-", "", 0, &ZOO_OPEN_ACL_UNSAFE,
                              ZOO_PERSISTENT_SEQUENTIAL_WITH_TTL, 60000, path, sizeof path));
    want(strlen(path) == strlen("/ttl-0000000000"));
    gives(ZBADARGUMENTS, zoo_create_ttl(zh, "/ttl0", "", 0, &ZOO_OPEN_ACL_UNSAFE,
                                        ZOO_PERSISTENT_WITH_TTL, 0, path, sizeof path));
    want(becomes(zh, "/ttl", ZNONODE));
    gives(ZOK, zoo_exists(zh, path, 0, &stat));
    return NULL;
}

static const char *acls(zhandle_t *zh) {
    struct ACL reader = {ZOO_PERM_READ | ZOO_PERM_ADMIN, {"world", "anyone"}};
    struct ACL nobody = {ZOO_PERM_ALL, {"nonsense", "id"}};
    struct ACL elsewhere = {ZOO_PERM_ALL, {"ip", "10.1.2.3"}};
    struct ACL_vector read_only = {1, &reader}, wrong = {1, &nobody}, far = {1, &elsewhere}, seen;
    struct Stat stat;
    gives(ZOK, create(zh, "/acl", "x", 0));
    gives(ZBADVERSION, zoo_set_acl(zh, "/acl", 7, &read_only));
    gives(ZINVALIDACL, zoo_set_acl(zh, "/acl", -1, &wrong));
    gives(ZNONODE, zoo_set_acl(zh, "/nothing", -1, &read_only));
    gives(ZOK, zoo_set_acl(zh, "/acl", 0, &read_only));
    gives(ZOK, zoo_get_acl(zh, "/acl", &seen, &stat));
    want(stat.aversion == 1 && seen.count == 1 && seen.data[0].perms == reader.perms);
    want(strcmp(seen.data[0].id.scheme, "world") == 0 && strcmp(seen.data[0].id.id, "anyone") == 0);
    want(holds(zh, "/acl", "x"));
    gives(ZNOAUTH, put(zh, "/acl", "y", -1));
    gives(ZNOAUTH, create(zh, "/acl/child", "", 0));
    gives(ZOK, zoo_set_acl(zh, "/acl", 1, &far));
    want(!holds(zh, "/acl", "x"));
    gives(ZNOAUTH, zoo_set_acl(zh, "/acl", -1, &read_only));
    return NULL;
}

static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_more = PTHREAD_COND_INITIALIZER;
static int done_count, done_code;

static void on_void(int rc, const void *data) {
    (void)data;
    pthread_mutex_lock(&done_lock);
    done_count++;
    done_code = rc;
    pthread_cond_broadcast(&done_more);
    pthread_mutex_unlock(&done_lock);
}

static int done_comes_to(int count) {
    struct timespec until = deadline();
    int reached;
    pthread_mutex_lock(&done_lock);
    while (done_count < count && pthread_cond_timedwait(&done_more, &done_lock, &until) == 0) {
    }
    reached = done_count >= count;
    pthread_mutex_unlock(&done_lock);
    return reached;
}

static const char *auth(zhandle_t *zh) {
    struct ACL_vector seen;
    zhandle_t *other = open_session(server, NULL, NULL);
    gives(ZINVALIDACL, zoo_create(zh, "/auth", "", 0, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    done_count = 0;
    gives(ZOK, zoo_add_auth(other, "digest", "user:user", 9, on_void, NULL));
    want(done_comes_to(1) && done_code == ZOK);
    gives(ZOK, zoo_create(other, "/auth", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0));
    gives(ZOK, zoo_get_acl(other, "/auth", &seen, NULL));
    want(seen.count == 1 && seen.data[0].perms == ZOO_PERM_ALL);
    want(strcmp(seen.data[0].id.scheme, "digest") == 0);
    want(strcmp(seen.data[0].id.id, "user:F46PeTVYeItL6aAyygIVQ9OaaeY=") == 0);
    want(holds(other, "/auth", "x"));
    want(!holds(zh, "/auth", "x"));
    gives(ZNOAUTH, put(zh, "/auth", "y", -1));
    gives(ZOK, zookeeper_close(other));
    /* A scheme that the server does not have. */
    struct events *states;
    other = open_session(server, NULL, &states);
    done_count = 0;
    gives(ZOK, zoo_add_auth(other, "nonsense", "x", 1, on_void, NULL));
    want(comes_to(states, ZOO_AUTH_FAILED_STATE));
    zookeeper_close(other);
    return NULL;
}

static const char *multi(zhandle_t *zh) {
    zoo_op_t ops[4];
    zoo_op_result_t results[4];
    struct Stat stat;
    char path[64];
    zoo_create_op_init(&ops[0], "/multi", "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path);
    zoo_create_op_init(&ops[1], "/multi/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
    zoo_set_op_init(&ops[2], "/multi", "yy", 2, 0, &stat);
    zoo_check_op_init(&ops[3], "/multi", 1);
    gives(ZOK, zoo_multi(zh, 4, ops, results));
    want(strcmp(path, "/multi") == 0 && stat.version == 1 && stat.dataLength == 2);
    for (int i = 0; i < 4; i++) {
        want(results[i].err == ZOK);
    }
    zoo_delete_op_init(&ops[0], "/multi/a", -1);
    zoo_check_op_init(&ops[1], "/multi", 9);
    zoo_set_op_init(&ops[2], "/multi", "z", 1, -1, NULL);
    gives(ZBADVERSION, zoo_multi(zh, 3, ops, results));
    want(results[0].err == ZOK && results[1].err == ZBADVERSION);
    want(results[2].err == ZRUNTIMEINCONSISTENCY);
    gives(ZOK, zoo_exists(zh, "/multi/a", 0, NULL));
    want(holds(zh, "/multi", "yy"));
    zoo_delete_op_init(&ops[0], "/multi/a", 0);
    zoo_delete_op_init(&ops[1], "/multi", -1);
    gives(ZOK, zoo_multi(zh, 2, ops, results));
    gives(ZNONODE, zoo_exists(zh, "/multi", 0, NULL));
    return NULL;
}

static const char *watches(zhandle_t *zh) {
    struct events *seen = events_new();
    struct String_vector names;
    char buffer[16];
    int length = sizeof buffer;
    gives(ZNONODE, zoo_wexists(zh, "/watch", on_node, seen, NULL));
    gives(ZOK, create(zh, "/watch", "", 0));
    want(next_is(seen, ZOO_CREATED_EVENT, "/watch"));
    gives(ZOK, zoo_wget(zh, "/watch", on_node, seen, buffer, &length, NULL));
    gives(ZOK, put(zh, "/watch", "1", -1));
    gives(ZOK, put(zh, "/watch", "2", -1));
    gives(ZOK, zoo_wget_children(zh, "/watch", on_node, seen, &names));
    gives(ZOK, create(zh, "/watch/child", "", 0));
    gives(ZOK, zoo_wexists(zh, "/watch/child", on_node, seen, NULL));
    gives(ZOK, zoo_delete(zh, "/watch/child", -1));
    gives(ZOK, zoo_wexists(zh, "/watch", on_node, seen, NULL));
    gives(ZOK, zoo_delete(zh, "/watch", -1));
    want(next_is(seen, ZOO_CHANGED_EVENT, "/watch"));
    want(next_is(seen, ZOO_CHILD_EVENT, "/watch"));
    want(next_is(seen, ZOO_DELETED_EVENT, "/watch/child"));
    want(next_is(seen, ZOO_DELETED_EVENT, "/watch"));
    want(seen->taken == seen->count);
    return NULL;
}

static const char *removed_watches(zhandle_t *zh) {
    struct events *seen = events_new(), *kept = events_new();
    struct String_vector names;
    gives(ZOK, create(zh, "/unwatch", "", 0));
    gives(ZOK, zoo_wexists(zh, "/unwatch", on_node, seen, NULL));
    gives(ZOK, zoo_wget_children(zh, "/unwatch", on_node, kept, &names));
    gives(ZNOWATCHER, zoo_remove_watches(zh, "/nothing", ZWATCHTYPE_DATA, on_node, seen, 0));
    gives(ZOK, zoo_remove_watches(zh, "/unwatch", ZWATCHTYPE_DATA, on_node, seen, 0));
    gives(ZNOWATCHER, zoo_remove_watches(zh, "/unwatch", ZWATCHTYPE_DATA, on_node, seen, 0));
    gives(ZOK, put(zh, "/unwatch", "x", -1));
    gives(ZOK, create(zh, "/unwatch/child", "", 0));
    want(next_is(kept, ZOO_CHILD_EVENT, "/unwatch"));
    want(seen->count == 0);
    gives(ZOK, zoo_wget_children(zh, "/unwatch", on_node, kept, &names));
    gives(ZOK, zoo_remove_all_watches(zh, "/unwatch", ZWATCHTYPE_ANY, 0));
    gives(ZOK, zoo_delete(zh, "/unwatch/child", -1));
    gives(ZOK, zoo_wexists(zh, "/unwatch", on_node, seen, NULL));
    gives(ZOK, zoo_delete(zh, "/unwatch", -1));
    want(next_is(seen, ZOO_DELETED_EVENT, "/unwatch"));
    want(kept->count == 1);
    return NULL;
}

static const char *cut_connection(zhandle_t *zh) {
    struct events *states, *seen = events_new();
    struct String_vector names;
    char buffer[16];
    int length = sizeof buffer;
    zhandle_t *through = open_session(proxy, NULL, &states);
    int64_t id = zoo_client_id(through)->client_id;
    gives(ZOK, create(through, "/cut", "", 0));
    gives(ZOK, create(through, "/cut/mine", "", ZOO_EPHEMERAL));
    gives(ZOK, zoo_wget(through, "/cut", on_node, seen, buffer, &length, NULL));
    gives(ZNONODE, zoo_wexists(through, "/cut-later", on_node, seen, NULL));
    gives(ZOK, zoo_wget_children(through, "/cut", on_node, seen, &names));
    want(order("hold"));
    want(comes_to(states, ZOO_CONNECTING_STATE));
    gives(ZOK, put(zh, "/cut", "missed", -1));
    want(order("release"));
    want(comes_to(states, ZOO_CONNECTED_STATE));
    want(next_is(seen, ZOO_CHANGED_EVENT, "/cut"));
    want(zoo_client_id(through)->client_id == id);
    gives(ZOK, zoo_exists(through, "/cut/mine", 0, NULL));
    /* The others stand as before. */
    gives(ZOK, create(zh, "/cut-later", "", 0));
    want(next_is(seen, ZOO_CREATED_EVENT, "/cut-later"));
    gives(ZOK, create(zh, "/cut/child", "", 0));
    want(next_is(seen, ZOO_CHILD_EVENT, "/cut"));
    gives(ZOK, zookeeper_close(through));
    gives(ZNONODE, zoo_exists(zh, "/cut/mine", 0, NULL));
    return NULL;
}

static const char *expiry(zhandle_t *zh) {
    struct events *states;
    zhandle_t *through = open_session(proxy, NULL, &states);
    gives(ZOK, create(through, "/expiring", "", ZOO_EPHEMERAL));
    want(order("hold"));
    gives(ZOK, zoo_exists(zh, "/expiring", 0, NULL));
    want(becomes(zh, "/expiring", ZNONODE));
    want(order("release"));
    want(comes_to(states, ZOO_EXPIRED_SESSION_STATE));
    want(is_unrecoverable(through) == ZINVALIDSTATE);
    zookeeper_close(through);
    return NULL;
}

static const char *attach(zhandle_t *zh) {
    struct events *states;
    zhandle_t *first = open_session(proxy, NULL, NULL);
    clientid_t id = *zoo_client_id(first);
    gives(ZOK, create(first, "/attached", "", ZOO_EPHEMERAL));
    want(order("hold"));
    zhandle_t *second = open_session(server, &id, NULL);
    want(zoo_client_id(second)->client_id == id.client_id);
    gives(ZOK, zoo_delete(second, "/attached", -1));
    gives(ZOK, create(second, "/attached", "", ZOO_EPHEMERAL));
    id.passwd[0] ^= 1;
    states = events_new();
    zhandle_t *stranger = zookeeper_init(server, on_session, SESSION_MS, &id, states, 0);
    want(comes_to(states, ZOO_EXPIRED_SESSION_STATE));
    zookeeper_close(stranger);
    gives(ZOK, zoo_exists(second, "/attached", 0, NULL));
    gives(ZOK, zookeeper_close(second));
    gives(ZNONODE, zoo_exists(zh, "/attached", 0, NULL));
    want(order("release"));
    zookeeper_close(first);
    return NULL;
}

static const char *unicode(zhandle_t *zh) {
    struct String_vector names;
    gives(ZOK, create(zh, "/größe", "", 0));
    gives(ZOK, create(zh, "/größe/雪-値", "naïve 値 😀", 0));
    want(holds(zh, "/größe/雪-値", "naïve 値 😀"));
    /* ZooKeeper has no names beyond the basic plane. */
    gives(ZBADARGUMENTS, create(zh, "/größe/😀", "", 0));
    gives(ZOK, zoo_get_children(zh, "/größe", 0, &names));
    want(names.count == 1 && strcmp(names.data[0], "雪-値") == 0);
    return NULL;
}

static const char *big_values(zhandle_t *zh) {
    const int size = 1000000, too_big = 1100000;
    char *data = malloc((size_t)too_big), *back = malloc((size_t)too_big);
    int length = too_big;
    struct Stat stat;
    for (int i = 0; i < too_big; i++) {
        data[i] = (char)(i * 31 % 251);
    }
    gives(ZOK, zoo_create(zh, "/big", data, size, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0));
    gives(ZOK, zoo_get(zh, "/big", 0, back, &length, &stat));
    want(length == size && stat.dataLength == size && memcmp(data, back, (size_t)size) == 0);
    zhandle_t *other = open_session(server, NULL, NULL);
    gives(ZCONNECTIONLOSS, zoo_set(other, "/big", data, too_big, -1));
    zookeeper_close(other);
    gives(ZOK, zoo_exists(zh, "/big", 0, &stat));
    want(stat.version == 0 && stat.dataLength == size);
    gives(ZOK, zoo_delete(zh, "/big", 0));
    return NULL;
}

static int burst_wrong;

static void in_burst(int rc, const struct Stat *stat, const void *data) {
    pthread_mutex_lock(&done_lock);
    /* Two completions for each number: the set's and that of the exists behind it. */
    int number = (int)(intptr_t)data;
    burst_wrong += rc != ZOK || number != done_count / 2 || stat->version != number + 1;
    done_count++;
    pthread_cond_broadcast(&done_more);
    pthread_mutex_unlock(&done_lock);
}

static const char *burst(zhandle_t *zh) {
    gives(ZOK, create(zh, "/burst", "", 0));
    done_count = burst_wrong = 0;
    for (intptr_t i = 0; i < BURST; i++) {
        gives(ZOK, zoo_aset(zh, "/burst", "x", 1, (int)i, in_burst, (void *)i));
        gives(ZOK, zoo_aexists(zh, "/burst", 0, in_burst, (void *)i));
    }
    want(done_comes_to(2 * BURST));
    want(burst_wrong == 0);
    return NULL;
}

static char synced[64];

static void on_sync(int rc, const char *value, const void *data) {
    snprintf(synced, sizeof synced, "%s", value ? value : "");
    on_void(rc, data);
}

static const char *sync_and_config(zhandle_t *zh) {
    struct Stat stat;
    char buffer[64];
    int length = sizeof buffer;
    done_count = 0;
    gives(ZOK, zoo_async(zh, "/nothing", on_sync, NULL));
    want(done_comes_to(1) && done_code == ZOK && strcmp(synced, "/nothing") == 0);
    gives(ZOK, zoo_getconfig(zh, 0, buffer, &length, &stat));
    want(length <= 0 && stat.version == 0);
    gives(ZRECONFIGDISABLED, zoo_reconfig(zh, NULL, "1", NULL, -1, buffer, &length, &stat));
    return NULL;
}

static void check(zhandle_t *zh, const char *name, const char *(*run)(zhandle_t *)) {
    const char *failed = run(zh);
    if (failed == NULL) {
        printf("ok %s\n", name);
    } else {
        printf("failed %s: %s\n", name, failed);
        order("release");
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        return 2;
    }
    server = argv[1];
    proxy = argv[2];
    control = atoi(argv[3]);
    /* Below its lowest: connections are lost on purpose. */
    zoo_set_debug_level(0);
    zhandle_t *zh = open_session(server, NULL, NULL);
    check(zh, "session", session);
    check(zh, "stats", stats);
    check(zh, "versions", versions);
    check(zh, "ephemerals", ephemerals);
    check(zh, "sequence", sequence);
    check(zh, "errors", errors);
    check(zh, "children", children);
    check(zh, "containers", containers);
    check(zh, "times to live", times_to_live);
    check(zh, "acls", acls);
    check(zh, "auth", auth);
    check(zh, "multi", multi);
    check(zh, "watches", watches);
    check(zh, "removed watches", removed_watches);
    check(zh, "cut connection", cut_connection);
    check(zh, "expiry", expiry);
    check(zh, "attach", attach);
    check(zh, "unicode", unicode);
    check(zh, "big values", big_values);
    check(zh, "burst", burst);
    check(zh, "sync and config", sync_and_config);
    return zookeeper_close(zh) != ZOK;
}
