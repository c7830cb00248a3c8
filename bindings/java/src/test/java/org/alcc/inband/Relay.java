// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicInteger;

/** A relay that cuts each connection after the next number of bytes in its list. The app's tests use it, too. */
public final class Relay implements AutoCloseable {
    private static final String HERE = "127.0.0.1";

    private final ServerSocket server = new ServerSocket(0, 9, InetAddress.getByName(HERE));
    private final AtomicInteger connections = new AtomicInteger();
    private final int pause;

    public Relay(int to, int... cuts) throws IOException {
        this(0, to, cuts);
    }

    private Relay(int pause, final int to, final int... cuts) throws IOException {
        this.pause = pause;
        start(new Runnable() {
            @Override public void run() {
                try {
                    while (true) {
                        Socket client = server.accept();
                        Socket peer = new Socket(HERE, to);
                        int number = connections.getAndIncrement();
                        copy(peer, client, Integer.MAX_VALUE);
                        copy(client, peer, number < cuts.length ? cuts[number] : Integer.MAX_VALUE);
                    }
                } catch (IOException e) {
                    // It is closed.
                }
            }
        });
    }

    /** One that lets some 8 MB/s through, so that a test can do something meanwhile. */
    public static Relay slow(int to, int... cuts) throws IOException {
        return new Relay(2, to, cuts);
    }

    public static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(HERE))) {
            return socket.getLocalPort();
        }
    }

    public int port() {
        return server.getLocalPort();
    }

    /** The number of connections so far. */
    public int connections() {
        return connections.get();
    }

    private static void start(Runnable what) {
        Thread thread = new Thread(what);
        thread.setDaemon(true);
        thread.start();
    }

    private void copy(final Socket from, final Socket to, final int most) {
        start(new Runnable() {
            @Override public void run() {
                byte[] piece = new byte[16_384];
                try {
                    InputStream in = from.getInputStream();
                    OutputStream out = to.getOutputStream();
                    int remaining = most;
                    while (remaining > 0) {
                        int n = in.read(piece, 0, Math.min(remaining, piece.length));
                        if (n < 0) {
                            to.shutdownOutput();
                            return;
                        }
                        out.write(piece, 0, n);
                        remaining -= n;
                        Thread.sleep(pause);
                    }
                    from.close();
                    to.close();
                } catch (IOException e) {
                    // The other direction was cut.
                } catch (InterruptedException e) {
                    // Nobody interrupts it.
                }
            }
        });
    }

    @Override
    public void close() throws IOException {
        server.close();
    }
}
