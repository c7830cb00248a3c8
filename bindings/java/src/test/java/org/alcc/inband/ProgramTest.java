// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.util.Random;
import org.alcc.cc.Fixed;
import org.alcc.transfer.Transfer;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.rules.Timeout;

/** Against the program of this project, over real sockets. */
public class ProgramTest {
    private static final String HERE = "127.0.0.1";

    @Rule public final TemporaryFolder folder = new TemporaryFolder();
    @Rule public final Timeout timeout = Timeout.seconds(60);

    private static byte[] content(int bytes) {
        byte[] content = new byte[bytes];
        new Random(7).nextBytes(content);
        return content;
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getByName(HERE))) {
            return socket.getLocalPort();
        }
    }

    private static Settings settings() {
        return new Settings(new Fixed(100));
    }

    /** Starts a receiver, uploads to it and gives what it kept. */
    private byte[] upload(byte[] content, long size) throws Exception {
        int port = freePort();
        File file = new File(folder.getRoot(), "received");
        try (Alcc recv = new Alcc("recv", "--transport", "in-band", "--port", "" + port, "--bind", HERE, "--once",
                "--out", file.getPath(), "--overwrite")) {
            recv.line("" + port);
            try (Connection c = Connection.connect(new Socket(HERE, port), settings())) {
                assertEquals(content.length, Transfer.send(c, new ByteArrayInputStream(content), size));
                Stats stats = c.stats();
                assertTrue(stats.sent() > content.length);
                assertEquals(0, stats.inFlight());
                assertTrue(stats.smallestRtt() > 0 && stats.smallestRtt() <= stats.smoothedRtt());
            }
            assertEquals(recv.all(), 0, recv.end());
        }
        return Files.readAllBytes(file.toPath());
    }

    @Test
    public void uploads() throws Exception {
        byte[] content = content(8 << 20);
        assertArrayEquals(content, upload(content, content.length));
        assertArrayEquals(new byte[0], upload(new byte[0], 0));
        assertArrayEquals(content(1), upload(content(1), Transfer.UNKNOWN));
    }

    private static byte[] download(ServerSocket server, Alcc send, int buffer) throws Exception {
        ByteArrayOutputStream got = new ByteArrayOutputStream();
        try (Connection c = Connection.accept(server.accept(), settings().receiveBuffer(buffer))) {
            long n = Transfer.receive(c, got, 1L << 30);
            assertEquals(got.size(), n);
        }
        assertEquals(send.all(), 0, send.end());
        return got.toByteArray();
    }

    @Test
    public void downloadsUnderSeveralAlgorithms() throws Exception {
        byte[] content = content(5_000_001);
        File file = folder.newFile("to-send");
        Files.write(file.toPath(), content);
        for (String algorithm : new String[] {"fixed", "copa", "verus", "budget"}) {
            try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(HERE));
                    Alcc send = new Alcc("send", "--transport", "in-band", "--cc", algorithm, "--file", file.getPath(),
                        HERE + ":" + server.getLocalPort())) {
                assertArrayEquals(algorithm, content, download(server, send, 4 << 20));
            }
        }
    }

    /** On loopback the program's segments have 32 KiB. */
    @Test
    public void downloadsThroughABufferOfLessThanASegment() throws Exception {
        byte[] content = content(300_000);
        File file = folder.newFile("to-send");
        Files.write(file.toPath(), content);
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(HERE));
                Alcc send = new Alcc("send", "--transport", "in-band", "--cc", "copa", "--file", file.getPath(),
                    HERE + ":" + server.getLocalPort())) {
            assertArrayEquals(content, download(server, send, 4096));
        }
    }

    @Test
    public void anAlgorithmWithAReceiverModuleIsRefusedInWords() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(HERE));
                Alcc send = new Alcc("send", "--transport", "in-band", "--cc", "sprout", "--size", "1000000",
                    HERE + ":" + server.getLocalPort())) {
            try (Connection c = Connection.accept(server.accept(), settings())) {
                c.getInputStream().read();
                fail("no error");
            } catch (AlccException e) {
                assertEquals(AlccException.Kind.RECEIVER_MODULE, e.kind());
            }
            assertEquals(1, send.end());
            assertTrue(send.all(), send.all().contains("receiver module"));
        }
    }

    private static String pin(Alcc recv) throws Exception {
        String line = recv.line("--pin ");
        return line.substring(line.indexOf("--pin ") + 6).trim().split("[ ,;)']")[0];
    }

    private static Alcc receiverWithTls(int port, File file) throws Exception {
        return new Alcc("recv", "--transport", "in-band", "--carrier", "tls", "--port", "" + port, "--bind", HERE,
            "--out", file.getPath(), "--overwrite");
    }

    @Test
    public void overTlsWithAPinnedCertificate() throws Exception {
        int port = freePort();
        byte[] content = content(2 << 20);
        File file = new File(folder.getRoot(), "received");
        try (Alcc recv = receiverWithTls(port, file)) {
            try (Connection c = Connection.connect(Pin.sha256(pin(recv)).getSocketFactory().createSocket(HERE, port),
                    settings())) {
                Transfer.send(c, new ByteArrayInputStream(content), content.length);
            }
            recv.end();
            assertArrayEquals(content, Files.readAllBytes(file.toPath()));
        }
        try (Alcc recv = receiverWithTls(port, file)) {
            char[] other = pin(recv).replace(":", "").toCharArray();
            other[0] = other[0] == '0' ? '1' : '0';
            Socket socket = Pin.sha256(new String(other)).getSocketFactory().createSocket(HERE, port);
            try (Connection c = Connection.connect(socket, settings())) {
                fail("another certificate");
            } catch (AlccException e) {
                assertEquals(AlccException.Kind.STREAM, e.kind());
                assertTrue(e.getMessage(), e.getMessage().contains("certificate"));
            }
        }
    }

    /** A receiver that takes a second for each megabyte: the sender waits, and nothing is lost. */
    @Test
    public void aSlowReaderHoldsTheSenderBack() throws Exception {
        byte[] content = content(3_000_000);
        File file = folder.newFile("to-send");
        Files.write(file.toPath(), content);
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(HERE));
                Alcc send = new Alcc("send", "--transport", "in-band", "--cc", "fixed:window=1000", "--file",
                    file.getPath(), HERE + ":" + server.getLocalPort());
                Connection c = Connection.accept(server.accept(), settings().receiveBuffer(65_536))) {
            byte[] block = new byte[100_000];
            long began = System.nanoTime();
            int got = 0;
            while (got < 1_000_000) {
                Thread.sleep(20);
                assertTrue(c.getInputStream().available() <= 65_536);
                int n = c.getInputStream().read(block, 0, 20_000);
                assertTrue(n > 0);
                got += n;
            }
            assertTrue(System.nanoTime() - began > 900_000_000L);
            // Let go in the middle: the sender hears that, and ends.
            c.close();
            assertEquals(1, send.end());
            assertTrue(send.all(), send.all().contains("ended") || send.all().contains("gave up"));
        }
    }
}
