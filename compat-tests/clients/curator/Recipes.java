/**
 * Curator's recipes, several clients in competition, with cut connections and ended sessions.
 * Argument: HOST:PORT of a server with the extended types, whose reaper looks at its containers
 * every second, or of several with commas.
 */
final class Recipes {
    private static final int AT_A_TIME = 6;

    interface Recipe {
        void run(Clients clients) throws Exception;
    }

    private final String server;
    private final Checks checks = new Checks(AT_A_TIME);

    private Recipes(String server) {
        this.server = server;
    }

    public static void main(String[] arguments) throws Exception {
        Recipes recipes = new Recipes(arguments[0]);
        recipes.add();
        recipes.checks.finish();
    }

    private void add(String name, Recipe recipe) {
        checks.add(name, () -> {
            try (Clients clients = new Clients(server)) {
                recipe.run(clients);
            }
        });
    }

    private void add() {
        add("persistent-ttl-node", Nodes::persistentTtlNode);
        add("mutex", Locks::mutex);
        add("mutex-with-cut-connections", Locks::mutexWithCutConnections);
        add("mutex-with-killed-sessions", Locks::mutexWithKilledSessions);
        add("revocable-mutex", Locks::revocableMutex);
        add("waiters", Locks::waiters);
        add("semaphore-mutex", Locks::semaphoreMutex);
        add("read-write-lock", Locks::readWriteLock);
        add("semaphore", Locks::semaphore);
        add("semaphore-of-shared-count", Locks::semaphoreOfSharedCount);
        add("multi-lock", Locks::multiLock);
        add("latch", Leaders::latch);
        add("latch-with-killed-sessions", Leaders::latchWithKilledSessions);
        add("selector", Leaders::selector);
        add("cache", Caches::curatorCache);
        add("path-children-cache", Caches::pathChildrenCache);
        add("tree-cache", Caches::treeCache);
        add("node-cache", Caches::nodeCache);
        add("persistent-node", Nodes::persistentNode);
        add("persistent-watcher", Nodes::persistentWatcher);
        add("group-member", Nodes::groupMember);
        add("namespaces", Nodes::namespaces);
        add("transactions", Transactions::transactions);
        add("transactions-in-competition", Transactions::inCompetition);
        add("queue", Queues::queue);
        add("queue-in-competition", Queues::queueInCompetition);
        add("queue-with-killed-session", Queues::queueWithKilledSession);
        add("priority-queue", Queues::priorityQueue);
        add("delay-queue", Queues::delayQueue);
        add("simple-queue", Queues::simpleQueue);
        add("barrier", Barriers::barrier);
        add("double-barrier", Barriers::doubleBarrier);
        add("atomic-long", Counters::atomicLong);
        add("shared-count", Counters::sharedCount);
    }
}
