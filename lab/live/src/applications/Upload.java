// SPDX-License-Identifier: Apache-2.0 OR MIT
import java.io.File;
import java.io.FileInputStream;
import java.io.InputStream;
import java.net.Socket;
import org.alcc.cc.Budget;
import org.alcc.cc.Controller;
import org.alcc.cc.Copa;
import org.alcc.cc.Mdi;
import org.alcc.inband.Connection;
import org.alcc.inband.Settings;
import org.alcc.transfer.Transfer;

/** Sends a file to {@code alcc recv} by the Java library: HOST PORT FILE ALGORITHM. */
public final class Upload {
    private Upload() { }

    public static void main(String[] arguments) throws Exception {
        File file = new File(arguments[2]);
        Settings settings = new Settings(controller(arguments[3]));
        try (Socket socket = new Socket(arguments[0], Integer.parseInt(arguments[1]));
             InputStream content = new FileInputStream(file);
             Connection connection = Connection.connect(socket, settings)) {
            Transfer.send(connection, content, file.length());
        }
    }

    private static Controller controller(String name) {
        switch (name) {
            case "budget": return new Budget();
            case "copa": return new Copa();
            case "mdi": return new Mdi();
            default: throw new IllegalArgumentException("want budget, copa or mdi, found " + name);
        }
    }
}
