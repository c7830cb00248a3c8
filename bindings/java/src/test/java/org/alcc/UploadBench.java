// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.FileReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.ServerSocket;
import java.net.Socket;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.Locale;
import java.util.Random;
import org.alcc.cc.Budget;
import org.alcc.cc.Controller;
import org.alcc.cc.Copa;
import org.alcc.cc.Mdi;
import org.alcc.inband.Connection;
import org.alcc.inband.Settings;

/**
 * The CPU that an upload takes beside a plain copy to a socket, in turns. Started by bindings/java/bench, which makes
 * the link: {@code sink PORT} at one end, {@code HOST PORT PAIRS SECONDS ALGORITHM HASH} at the other.
 */
public final class UploadBench {
    private static final int WARM_SECONDS = 4;

    private UploadBench() { }

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("sink")) {
            int port = Integer.parseInt(arguments[1]);
            sink(port, false);
            sink(port + 1, true);
            System.out.println("ready");
            Thread.sleep(Long.MAX_VALUE);
        }
        if (arguments[0].equals("upload")) {
            upload(arguments[1], Integer.parseInt(arguments[2]), arguments[3], new File(arguments[4]));
            return;
        }
        String host = arguments[0];
        int port = Integer.parseInt(arguments[1]);
        int pairs = Integer.parseInt(arguments[2]);
        int seconds = Integer.parseInt(arguments[3]);
        String algorithm = arguments[4];
        boolean hash = Boolean.parseBoolean(arguments[5]);
        if (System.getenv("WHOLE") != null) {
            whole(host, port, pairs, algorithm, Integer.parseInt(System.getenv("WHOLE")));
            return;
        }
        warm(algorithm);
        run(host, port, null, hash, WARM_SECONDS);
        run(host, port + 1, algorithm, hash, 2 * WARM_SECONDS);
        double[] ratios = new double[pairs];
        for (int i = 0; i < pairs; i++) {
            double[] plain = run(host, port, null, hash, seconds);
            double[] inband = run(host, port + 1, algorithm, hash, seconds);
            ratios[i] = inband[1] / plain[1];
            System.out.printf(Locale.ROOT, "plain %s, %s %s: per byte %.2f%n", told(plain), algorithm, told(inband),
                ratios[i]);
        }
        conclude(algorithm, ratios);
    }

    private static void conclude(String algorithm, double[] ratios) {
        Arrays.sort(ratios);
        System.out.printf(Locale.ROOT, "%s beside a plain copy, CPU per byte: median %.2f (%.2f to %.2f)%n", algorithm,
            ratios[ratios.length / 2], ratios[0], ratios[ratios.length - 1]);
    }

    /**
     * A file of this many megabytes in separate programs, including the JVM's start and compiler, as a user runs them.
     */
    private static void whole(String host, int port, int pairs, String algorithm, int megabytes) throws Exception {
        File file = File.createTempFile("upload", null);
        try {
            byte[] million = new byte[1_000_000];
            new Random(1).nextBytes(million);
            try (OutputStream out = new FileOutputStream(file)) {
                for (int i = 0; i < megabytes; i++) {
                    out.write(million);
                }
            }
            double[] ratios = new double[pairs];
            for (int i = 0; i < pairs; i++) {
                double[] plain = program(host, port, "plain", file);
                double[] inband = program(host, port + 1, algorithm, file);
                ratios[i] = inband[0] / plain[0];
                System.out.printf(Locale.ROOT, "plain %.2f CPU s %.1f Mbit/s, %s %.2f CPU s %.1f Mbit/s: %.2f%n",
                    plain[0], plain[1], algorithm, inband[0], inband[1], ratios[i]);
            }
            conclude(algorithm, ratios);
        } finally {
            file.delete();
        }
    }

    /** CPU seconds of a program that uploads; Mbit/s by its whole time. */
    private static double[] program(String host, int port, String how, File file) throws Exception {
        double before = ofChildren();
        long from = System.nanoTime();
        int status = new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-XX:+UseSerialGC", "-cp",
            System.getProperty("java.class.path"), UploadBench.class.getName(), "upload", host, "" + port, how,
            file.getPath()).inheritIO().start().waitFor();
        if (status != 0) {
            throw new IOException("the upload by " + how + " failed");
        }
        return new double[] {ofChildren() - before, file.length() * 8e3 / (System.nanoTime() - from)};
    }

    /** User and system time of the programs that have ended, in hundredths of a second. */
    private static double ofChildren() throws IOException {
        String stat = first(new File("/proc/self"), "stat");
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(fields[13]) + Long.parseLong(fields[14])) / 100.0;
    }

    /** A file with its SHA-256, in blocks of 16 KiB. */
    private static void upload(String host, int port, String how, File file) throws Exception {
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        byte[] block = new byte[16_384];
        try (InputStream in = new FileInputStream(file); Socket socket = new Socket(host, port)) {
            Connection connection = how.equals("plain") ? null
                : Connection.connect(socket, new Settings(controller(how)));
            OutputStream out = connection == null ? socket.getOutputStream() : connection.getOutputStream();
            for (int n = in.read(block); n > 0; n = in.read(block)) {
                sha.update(block, 0, n);
                out.write(block, 0, n);
            }
            out.write(sha.digest());
            if (connection == null) {
                socket.shutdownOutput();
                socket.getInputStream().read();
            } else if (!connection.finish(30_000)) {
                throw new IOException("not acknowledged within 30 s");
            }
        }
    }

    /** At full speed within this program, or the compiler has not done with it after a minute of the link's speed. */
    private static void warm(String algorithm) throws Exception {
        sink(9990, false);
        sink(9991, true);
        for (int i = 0; i < 3; i++) {
            run("127.0.0.1", 9990, null, true, WARM_SECONDS / 2);
            run("127.0.0.1", 9991, algorithm, true, WARM_SECONDS);
        }
    }

    private static Controller controller(String algorithm) {
        switch (algorithm) {
            case "budget": return new Budget();
            case "copa": return new Copa();
            case "mdi": return new Mdi();
            default: throw new IllegalArgumentException("budget, copa or mdi, found " + algorithm);
        }
    }

    private static String told(double[] run) {
        return String.format(Locale.ROOT, "%.1f Mbit/s %.2f %% of a core (compiler %.2f) %.0f wake-ups/s", run[0],
            run[2], run[3], run[4]);
    }

    /**
     * Of all threads that live: nanoseconds without the compiler's, those of the compiler, and how often they went to
     * sleep. The JVM itself tells no more than hundredths of a second. The compiler works on for minutes, as much is
     * called only some hundred times a second.
     */
    private static long[] cpu() throws IOException {
        long[] sum = new long[3];
        for (File thread : new File("/proc/self/task").listFiles()) {
            try {
                boolean compiler = first(thread, "comm").contains("Compiler");
                sum[compiler ? 1 : 0] += Long.parseLong(first(thread, "schedstat").split(" ")[0]);
                sum[2] += voluntary(thread);
            } catch (FileNotFoundException e) {
                // It has ended.
            }
        }
        return sum;
    }

    private static String first(File thread, String name) throws IOException {
        try (BufferedReader file = new BufferedReader(new FileReader(new File(thread, name)))) {
            return file.readLine();
        }
    }

    private static long voluntary(File thread) throws IOException {
        try (BufferedReader file = new BufferedReader(new FileReader(new File(thread, "status")))) {
            for (String line = file.readLine(); line != null; line = file.readLine()) {
                if (line.startsWith("voluntary_ctxt_switches:")) {
                    return Long.parseLong(line.substring(line.indexOf(':') + 1).trim());
                }
            }
            return 0;
        }
    }

    /** Mbit/s; CPU nanoseconds per byte; % of a core; that of the compiler; wake-ups per second. */
    private static double[] run(String host, int port, String algorithm, boolean hash, int seconds) throws Exception {
        byte[] block = new byte[65_536];
        new Random(1).nextBytes(block);
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        try (Socket socket = new Socket(host, port)) {
            Connection connection = algorithm == null ? null
                : Connection.connect(socket, new Settings(controller(algorithm)));
            OutputStream out = connection == null ? socket.getOutputStream() : connection.getOutputStream();
            // The start of a connection is its own.
            long from = System.nanoTime() + 1_000_000_000L;
            while (System.nanoTime() < from) {
                out.write(block);
            }
            from = System.nanoTime();
            long[] cpu = cpu();
            long bytes = 0;
            while (System.nanoTime() - from < seconds * 1_000_000_000L) {
                if (hash) {
                    sha.update(block);
                }
                out.write(block);
                bytes += block.length;
            }
            double took = System.nanoTime() - from;
            long[] now = cpu();
            double used = now[0] - cpu[0];
            double compiled = now[1] - cpu[1];
            double woken = now[2] - cpu[2];
            if (connection != null) {
                connection.close();
            }
            return new double[] {bytes * 8e3 / took, used / bytes, 100 * used / took, 100 * compiled / took,
                woken / took * 1e9};
        }
    }

    private static void sink(int port, final boolean inband) throws IOException {
        final ServerSocket server = new ServerSocket(port);
        Thread thread = new Thread() {
            @Override public void run() {
                byte[] bytes = new byte[65_536];
                while (true) {
                    try (Socket socket = server.accept()) {
                        Connection connection = inband ? Connection.accept(socket, new Settings(new Budget())) : null;
                        InputStream in = inband ? connection.getInputStream() : socket.getInputStream();
                        while (in.read(bytes) >= 0) {
                            continue;
                        }
                    } catch (IOException e) {
                        // The next one.
                    }
                }
            }
        };
        thread.setDaemon(true);
        thread.start();
    }
}
