import java.util.concurrent.CompletionService;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** The threads of one check: what fails in one of them fails the check. */
final class Crowd implements AutoCloseable {
    interface Work {
        void run() throws Exception;
    }

    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final CompletionService<Void> done = new ExecutorCompletionService<>(threads);
    private int running;

    void start(Work work) {
        running++;
        done.submit(() -> {
            work.run();
            return null;
        });
    }

    /** Waits until all have ended: work of many steps, each of which may wait for a connection. */
    void join() throws Exception {
        long deadline = System.currentTimeMillis() + 4 * Claim.DEADLINE_MS;
        for (; running > 0; running--) {
            long left = Math.max(0, deadline - System.currentTimeMillis());
            Future<Void> ended = done.poll(left, TimeUnit.MILLISECONDS);
            Claim.holds(ended != null, "in time: the end of " + running + " threads");
            try {
                ended.get();
            } catch (ExecutionException failure) {
                throw new AssertionError(failure.getCause().toString(), failure.getCause());
            }
        }
    }

    @Override
    public void close() {
        threads.shutdownNow();
    }
}
