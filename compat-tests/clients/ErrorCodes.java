// Prints every error code that Apache ZooKeeper's client knows, with the name of its constant.
import org.apache.zookeeper.KeeperException;

public class ErrorCodes {
    public static void main(String[] arguments) {
        for (KeeperException.Code code : KeeperException.Code.values()) {
            System.out.println(code.intValue() + " " + code);
        }
    }
}
