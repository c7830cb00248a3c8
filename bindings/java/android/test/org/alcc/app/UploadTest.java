// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.util.Random;
import org.alcc.inband.Alcc;
import org.alcc.inband.Relay;
import org.alcc.transfer.Resuming;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.rules.Timeout;

/** The model, without Android, against the program. */
public class UploadTest {
    private static final String HERE = "127.0.0.1";

    @Rule public final TemporaryFolder folder = new TemporaryFolder();
    @Rule public final Timeout timeout = Timeout.seconds(120);

    static byte[] content(int bytes) {
        byte[] content = new byte[bytes];
        new Random(7).nextBytes(content);
        return content;
    }

    static Alcc receiver(int port, File file) throws Exception {
        Alcc recv = new Alcc("recv", "--transport", "in-band", "--port", "" + port, "--bind", HERE, "--once",
            "--resume", "--out", file.getPath());
        recv.line("" + port);
        return recv;
    }

    private static Upload upload(int port, final byte[] content) {
        byte[] session = new byte[16];
        new Random(content.length).nextBytes(session);
        return new Upload(Job.of(HERE + ":" + port, "fixed:200"), new Resuming.Source() {
            @Override public InputStream open() {
                return new ByteArrayInputStream(content);
            }
        }, content.length, session, false);
    }

    static void await(Upload upload, Upload.State state) throws InterruptedException {
        for (int i = 0; i < 6000 && upload.state() != state; i++) {
            Thread.sleep(10);
        }
        assertEquals(upload.problem(), state, upload.state());
    }

    static void awaitBytes(Upload upload, long bytes) throws InterruptedException {
        for (int i = 0; i < 6000 && upload.acknowledged() < bytes; i++) {
            Thread.sleep(5);
        }
        assertTrue(upload.problem() + upload.acknowledged(), upload.acknowledged() >= bytes);
    }

    private static void done(Upload upload, Alcc recv, File file, byte[] content) throws Exception {
        await(upload, Upload.State.DONE);
        assertEquals(content.length, upload.acknowledged());
        assertEquals(recv.all(), 0, recv.end());
        assertArrayEquals(content, Files.readAllBytes(file.toPath()));
    }

    @Test
    public void aFileArrives() throws Exception {
        byte[] content = content(3_000_001);
        File file = new File(folder.getRoot(), "received");
        int port = Relay.freePort();
        try (Alcc recv = receiver(port, file); Relay relay = Relay.slow(port)) {
            Upload upload = upload(relay.port(), content);
            assertEquals(Upload.State.READY, upload.state());
            upload.start();
            done(upload, recv, file, content);
            // The last sample may be under way.
            Thread.sleep(600);
            Curve curve = upload.curve();
            assertTrue("" + curve.count(), curve.count() >= 2);
            String[] rows = curve.csv().split("\n");
            assertTrue(rows[rows.length - 1], rows[rows.length - 1].contains(",3000001,"));
            assertEquals(1, upload.connections());
            // It is over: nothing begins again.
            upload.pause();
            upload.start();
            upload.networkChanged();
            assertEquals(Upload.State.DONE, upload.state());
        }
    }

    @Test
    public void aPauseKeepsWhatIsThere() throws Exception {
        byte[] content = content(8_000_000);
        File file = new File(folder.getRoot(), "received");
        int port = Relay.freePort();
        try (Alcc recv = receiver(port, file); Relay relay = Relay.slow(port)) {
            Upload upload = upload(relay.port(), content);
            upload.start();
            awaitBytes(upload, 1_000_000);
            upload.pause();
            assertEquals(Upload.State.PAUSED, upload.state());
            recv.line("waiting for the sender to resume");
            long had = upload.acknowledged();
            Thread.sleep(300);
            assertEquals(had, upload.acknowledged());
            assertEquals(Upload.State.PAUSED, upload.state());
            upload.start();
            done(upload, recv, file, content);
            // The first, a question, the rest: not everything again.
            assertEquals(3, upload.connections());
        }
    }

    @Test
    public void anotherNetworkAndLostConnections() throws Exception {
        byte[] content = content(8_000_000);
        File file = new File(folder.getRoot(), "received");
        int port = Relay.freePort();
        try (Alcc recv = receiver(port, file); Relay relay = Relay.slow(port, 2_000_000)) {
            Upload upload = upload(relay.port(), content);
            upload.start();
            awaitBytes(upload, 500_000);
            upload.networkChanged();
            awaitBytes(upload, 4_000_000);
            upload.networkChanged();
            upload.networkChanged();
            done(upload, recv, file, content);
            assertTrue("" + upload.connections(), upload.connections() >= 5);
        }
    }

    @Test
    public void withoutAServerItWaitsAndCanBePaused() throws Exception {
        Upload upload = upload(Relay.freePort(), content(1000));
        upload.start();
        for (int i = 0; i < 1000 && upload.problem().isEmpty(); i++) {
            Thread.sleep(5);
        }
        assertEquals(Upload.State.WAITING, upload.state());
        assertTrue(upload.problem(), upload.problem().contains("refused"));
        upload.pause();
        assertEquals(Upload.State.PAUSED, upload.state());
    }

    @Test
    public void aPeerThatIsNoAlccIsAFailure() throws Exception {
        try (final ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(HERE))) {
            Thread web = new Thread() {
                @Override public void run() {
                    try (Socket socket = server.accept()) {
                        socket.getOutputStream().write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes());
                        socket.getInputStream().read(new byte[1000]);
                        Thread.sleep(500);
                    } catch (IOException e) {
                        // It has gone.
                    } catch (InterruptedException e) {
                        // Nobody interrupts it.
                    }
                }
            };
            web.start();
            Upload upload = upload(server.getLocalPort(), content(1000));
            upload.start();
            await(upload, Upload.State.FAILED);
            assertTrue(upload.problem(), upload.problem().contains("ALCC"));
            web.join();
        }
    }

    @Test
    public void aFileThatCannotBeReadIsAFailure() throws Exception {
        for (final Exception why : new Exception[] {new FileNotFoundException("gone"), new SecurityException("taken")}) {
            Upload upload = new Upload(Job.of(HERE + ":9", "budget"), new Resuming.Source() {
                @Override public InputStream open() throws IOException {
                    if (why instanceof IOException) {
                        throw (IOException) why;
                    }
                    throw (RuntimeException) why;
                }
            }, 5, new byte[16], false);
            upload.start();
            await(upload, Upload.State.FAILED);
            assertTrue(upload.problem(), upload.problem().contains(why.getMessage()));
        }
    }
}
