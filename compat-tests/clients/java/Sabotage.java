import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.zookeeper.ZooKeeper;

/** What happens to a client's connection and session from outside. */
final class Sabotage {
    private static final int CLOSE_SESSION = -11;
    private static final Pattern REMOTE = Pattern.compile("remoteserver:[^ ]*/([0-9.]+:[0-9]+)");

    private Sabotage() {}

    /** Ends the client's connection from the server's side: another one takes its session. */
    static void cutConnection(String server, ZooKeeper client) throws IOException {
        attach(server, client, false);
    }

    /** Ends the client's session behind its back. */
    static void killSession(String server, ZooKeeper client) throws IOException {
        attach(server, client, true);
    }

    private static void attach(String server, ZooKeeper client, boolean close) throws IOException {
        // Where the client is, if it is anywhere, among several.
        Matcher there = REMOTE.matcher(client.toString());
        String address = there.find() ? there.group(1) : server.split(",")[0];
        int colon = address.lastIndexOf(':');
        int port = Integer.parseInt(address.substring(colon + 1));
        try (Socket socket = new Socket(address.substring(0, colon), port)) {
            socket.setSoTimeout((int) Claim.DEADLINE_MS);
            byte[] password = client.getSessionPasswd();
            ByteArrayOutputStream frames = new ByteArrayOutputStream();
            DataOutputStream out = new DataOutputStream(frames);
            out.writeInt(4 + 8 + 4 + 8 + 4 + password.length + 1);
            out.writeInt(0);
            out.writeLong(0);
            out.writeInt(client.getSessionTimeout());
            out.writeLong(client.getSessionId());
            out.writeInt(password.length);
            out.write(password);
            out.writeByte(0);
            // In the same segment: the client cannot come back in between.
            if (close) {
                out.writeInt(4 + 4);
                out.writeInt(1);
                out.writeInt(CLOSE_SESSION);
            }
            socket.getOutputStream().write(frames.toByteArray());

            DataInputStream in = new DataInputStream(socket.getInputStream());
            in.skipNBytes(4 + 4);
            Claim.holds(in.readInt() > 0, "the session can be taken over");
            if (close) {
                in.skipNBytes(8 + 4 + 16 + 1);
                in.skipNBytes(4 + 4 + 8);
                Claim.equal(in.readInt(), 0, "the error of closeSession");
            }
        }
    }
}
