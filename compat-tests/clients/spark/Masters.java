import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.apache.spark.launcher.JavaModuleOptions;
import org.apache.spark.sql.SparkSession;

/**
 * Two Spark masters that elect the active one and keep what they know in ZooKeeper, a worker, and
 * an application whose driver is this process. Prints "ok NAME" for each check that holds, or
 * "failed NAME: why". Arguments: HOST:PORT of a server, SPARK_HOME.
 */
public class Masters {
    static final long DEADLINE_MS = 120_000;
    /** Start-up counts, throughput does not. */
    static final String SHORT_RUN = "-XX:TieredStopAtLevel=1";
    static final List<String> CHECKS = new ArrayList<>(List.of(
        "one-active", "application-runs", "standby-takes-over", "worker-comes-back",
        "application-is-kept", "killed-one-stands-by", "second-failover", "new-application"));

    static String server;
    static Path home;
    static Path folder;

    public static void main(String[] arguments) throws Exception {
        server = arguments[0];
        home = Path.of(arguments[1]);
        folder = Files.createTempDirectory("spark.");
        int[] ports = freePorts(4);
        List<Master> masters =
            List.of(new Master("first", ports[0], ports[1]), new Master("second", ports[2], ports[3]));
        Daemon worker = new Daemon("worker", Master.url(masters));
        try {
            run(masters, worker);
        } catch (Throwable error) {
            for (Daemon daemon : List.of(masters.get(0), masters.get(1), worker)) {
                daemon.showLog();
            }
            System.out.println("failed " + CHECKS.get(0) + ": " + oneLine(error));
        } finally {
            // Nothing of a session that an exception left behind may keep this process.
            worker.kill();
            masters.forEach(Daemon::kill);
            try (Stream<Path> paths = Files.walk(folder)) {
                paths.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
            }
            System.out.flush();
            Runtime.getRuntime().halt(0);
        }
    }

    static void run(List<Master> masters, Daemon worker) throws Exception {
        Master first = masters.get(0);
        Master second = masters.get(1);
        first.start();
        until("the first master is active", () -> first.status().equals("ALIVE"));
        second.start();
        until("the second stands by", () -> second.status().equals("STANDBY"));
        worker.start();
        String workerId = until("the worker is registered", first::liveWorker);
        check("one-active");

        SparkSession session = session(masters);
        String application = session.sparkContext().applicationId();
        expect(sum(session), 499_500L);
        expect(first.applications(), List.of(application));
        check("application-runs");

        first.kill();
        until("the standby is active", () -> second.status().equals("ALIVE"));
        check("standby-takes-over");
        expect(until("the worker is back", second::liveWorker), workerId);
        check("worker-comes-back");
        until("the application is back", () -> second.applications().equals(List.of(application)));
        expect(sum(session), 499_500L);
        check("application-is-kept");

        first.start();
        until("the killed master stands by", () -> first.status().equals("STANDBY"));
        expect(second.status(), "ALIVE");
        check("killed-one-stands-by");

        second.kill();
        until("the first master is active again", () -> first.status().equals("ALIVE"));
        expect(until("the worker is back", first::liveWorker), workerId);
        until("the application is back", () -> first.applications().equals(List.of(application)));
        check("second-failover");

        session.stop();
        until("the application has ended", () -> first.applications().isEmpty());
        session = session(masters);
        expect(sum(session), 499_500L);
        expect(first.applications(), List.of(session.sparkContext().applicationId()));
        session.stop();
        check("new-application");
    }

    /** No class of this file goes to the executors: they could not load it. */
    static long sum(SparkSession session) {
        return session.range(1000).selectExpr("sum(id)").collectAsList().get(0).getLong(0);
    }

    static SparkSession session(List<Master> masters) {
        return SparkSession.builder()
            .master(Master.url(masters))
            .appName("sums")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.executor.memory", "512m")
            .config("spark.executor.extraJavaOptions", SHORT_RUN)
            .config("spark.cores.max", "1")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.local.dir", folder.toString())
            .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString())
            .getOrCreate();
    }

    static void check(String name) {
        if (!CHECKS.remove(0).equals(name)) {
            throw new AssertionError(name + " is out of turn");
        }
        System.out.println("ok " + name);
    }

    static void expect(Object found, Object expected) {
        if (!found.equals(expected)) {
            throw new AssertionError("found " + found + ", not " + expected);
        }
    }

    /** Waits for a value that is neither null nor false, and says when it has come. */
    static <T> T until(String what, Callable<T> condition) throws Exception {
        long start = System.nanoTime();
        String last = "";
        while (true) {
            try {
                T value = condition.call();
                if (value != null && !value.equals(false)) {
                    System.out.println(what);
                    return value;
                }
            } catch (IOException error) {
                last = " (" + oneLine(error) + ")";
            }
            if (System.nanoTime() - start > TimeUnit.MILLISECONDS.toNanos(DEADLINE_MS)) {
                throw new AssertionError("not within " + DEADLINE_MS + " ms: " + what + last);
            }
            Thread.sleep(100);
        }
    }

    static String oneLine(Throwable error) {
        return error.toString().replaceAll("\\s+", " ");
    }

    static int[] freePorts(int count) throws IOException {
        List<ServerSocket> sockets = new ArrayList<>();
        try {
            for (int i = 0; i < count; i++) {
                sockets.add(new ServerSocket(0));
            }
            return sockets.stream().mapToInt(ServerSocket::getLocalPort).toArray();
        } finally {
            for (ServerSocket socket : sockets) {
                socket.close();
            }
        }
    }

    /** A process of Spark's, with a log beside its folder. */
    static class Daemon {
        final String name;
        final List<String> arguments;
        Process process;

        Daemon(String name, String masters) {
            this(name, "org.apache.spark.deploy.worker.Worker", List.of(
                "--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g",
                "--work-dir", folder.resolve(name).toString(), masters));
        }

        Daemon(String name, String type, List<String> arguments) {
            this.name = name;
            this.arguments = new ArrayList<>(List.of(type));
            this.arguments.addAll(arguments);
        }

        Path log() {
            return folder.resolve(name + ".log");
        }

        void start() throws IOException {
            List<String> words = new ArrayList<>(List.of("java", "-Xmx512m", "-XX:+UseSerialGC", SHORT_RUN));
            words.addAll(Arrays.asList(JavaModuleOptions.defaultModuleOptionArray()));
            words.addAll(List.of(
                "-Dspark.deploy.recoveryMode=ZOOKEEPER",
                "-Dspark.deploy.zookeeper.url=" + server,
                "-Dspark.deploy.zookeeper.dir=/spark",
                "-cp", home.resolve("jars") + "/*"));
            words.addAll(arguments);
            ProcessBuilder builder = new ProcessBuilder(words);
            builder.environment().put("SPARK_HOME", home.toString());
            // Without it a launcher looks for the build folders of a source tree.
            builder.environment().put("SPARK_SCALA_VERSION", "2.13");
            builder.environment().put("SPARK_LOCAL_IP", "127.0.0.1");
            builder.environment().put("SPARK_LOCAL_DIRS", folder.toString());
            builder.directory(folder.toFile());
            builder.redirectErrorStream(true);
            builder.redirectOutput(ProcessBuilder.Redirect.appendTo(log().toFile()));
            process = builder.start();
        }

        /** SIGKILL to it and to the executors that it has started. */
        void kill() {
            if (process == null) {
                return;
            }
            List<ProcessHandle> children = process.descendants().toList();
            process.destroyForcibly();
            children.forEach(ProcessHandle::destroyForcibly);
            process.onExit().join();
            children.forEach(child -> child.onExit().join());
            process = null;
        }

        void showLog() throws IOException {
            System.out.println("--- log of " + name + ":");
            if (Files.exists(log())) {
                List<String> lines =
                    new String(Files.readAllBytes(log()), StandardCharsets.UTF_8).lines().toList();
                lines.subList(Math.max(0, lines.size() - 30), lines.size())
                    .forEach(System.out::println);
            }
        }
    }

    static class Master extends Daemon {
        final int port;
        final int webPort;

        Master(String name, int port, int webPort) {
            super(name, "org.apache.spark.deploy.master.Master", List.of(
                "--host", "127.0.0.1", "--port", "" + port, "--webui-port", "" + webPort));
            this.port = port;
            this.webPort = webPort;
        }

        static String url(List<Master> masters) {
            List<String> addresses =
                masters.stream().map(master -> "127.0.0.1:" + master.port).toList();
            return "spark://" + String.join(",", addresses);
        }

        JsonNode state() throws IOException {
            String page = "http://127.0.0.1:" + webPort + "/json/";
            try (InputStream in = URI.create(page).toURL().openStream()) {
                return new ObjectMapper().readTree(in);
            }
        }

        String status() throws IOException {
            return state().path("status").asText();
        }

        /** The id of the one worker, null as long as it is not alive. */
        String liveWorker() throws IOException {
            JsonNode workers = state().path("workers");
            boolean one = workers.size() == 1;
            return one && workers.get(0).path("state").asText().equals("ALIVE")
                ? workers.get(0).path("id").asText() : null;
        }

        List<String> applications() throws IOException {
            List<String> ids = new ArrayList<>();
            state().path("activeapps").forEach(each -> ids.add(each.path("id").asText()));
            return ids;
        }
    }
}
