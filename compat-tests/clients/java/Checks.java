import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/** Runs checks side by side and prints "ok NAME" for each that holds, or "failed NAME: why". */
final class Checks {
    interface Check {
        void run() throws Exception;
    }

    private final ExecutorService threads;

    Checks(int atATime) {
        threads = Executors.newFixedThreadPool(atATime);
    }

    void add(String name, Check check) {
        threads.submit(() -> {
            Throwable failure = null;
            try {
                check.run();
            } catch (Throwable thrown) {
                failure = thrown;
            }
            report(name, failure);
        });
    }

    private static synchronized void report(String name, Throwable failure) {
        if (failure == null) {
            System.out.println("ok " + name);
        } else {
            System.out.println("failed " + name + ": " + failure);
            failure.printStackTrace(System.out);
        }
        System.out.flush();
    }

    /** Ends the program behind the last check: the clients' own threads do not all end. */
    void finish() throws InterruptedException {
        threads.shutdown();
        threads.awaitTermination(1, TimeUnit.HOURS);
        System.exit(0);
    }
}
