import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.zookeeper.ZooKeeperMain;
import org.apache.zookeeper.util.ServiceUtils;

/**
 * Each line of the input is a command line for zkCli, which ends with an exit code: the code is
 * printed instead of ending the JVM, so that a hundred runs need one start. Argument: HOST:PORT.
 */
public class ZkCliOneShot {
    public static void main(String[] arguments) throws Exception {
        System.setErr(System.out);
        ServiceUtils.setSystemExitProcedure(code -> System.out.println("exit " + code));
        System.out.println("ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (line.equals("quit")) {
                break;
            }
            if (line.equals("fence")) {
                System.out.println("fence");
                continue;
            }
            List<String> words = new ArrayList<>(Arrays.asList("-server", arguments[0]));
            words.addAll(Arrays.asList(line.split(" ")));
            ZooKeeperMain.main(words.toArray(new String[0]));
        }
        Runtime.getRuntime().halt(0);
    }
}
