import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.zookeeper.ZooKeeperMain;
import org.apache.zookeeper.util.ServiceUtils;

/**
 * Each line of the input is a command line for zkCli, which ends with an exit code: the code is
 * printed instead of ending the JVM, so that a hundred runs need one start. A run's standard output
 * is printed ahead of its standard error, whose lines are marked. Argument: HOST:PORT.
 */
public class ZkCliOneShot {
    public static void main(String[] arguments) throws Exception {
        PrintStream console = System.out;
        // zkCli keeps both from its first use on.
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, "UTF-8"));
        System.setErr(new PrintStream(err, true, "UTF-8"));
        int[] exit = new int[1];
        ServiceUtils.setSystemExitProcedure(code -> exit[0] = code);
        console.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("quit")) {
                break;
            }
            if (line.equals("fence")) {
                console.println("fence");
                continue;
            }
            List<String> words = new ArrayList<>(Arrays.asList("-server", arguments[0]));
            words.addAll(Arrays.asList(line.split(" ")));
            ZooKeeperMain.main(words.toArray(new String[0]));
            taken(out).forEach(console::println);
            taken(err).forEach(text -> console.println("stderr: " + text));
            console.println("exit " + exit[0]);
        }
        Runtime.getRuntime().halt(0);
    }

    /** What was written since the last time, line by line. */
    private static List<String> taken(ByteArrayOutputStream written) throws Exception {
        synchronized (written) {
            List<String> lines = written.toString("UTF-8").lines().toList();
            written.reset();
            return lines;
        }
    }
}
