// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.file.Files;
import java.util.Random;
import org.alcc.cc.Fixed;
import org.alcc.transfer.Resuming;
import org.alcc.transfer.TransferException;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;
import org.junit.rules.Timeout;

/** A file over connections that are cut, to the program. */
public class ResumingTest {
    private static final String HERE = "127.0.0.1";
    private static final byte[] SESSION = "sixteen bytes... ".substring(0, 16).getBytes();

    @Rule public final TemporaryFolder folder = new TemporaryFolder();
    @Rule public final Timeout timeout = Timeout.seconds(120);

    private static Resuming resuming(final int port, final byte[] content, boolean known) {
        return new Resuming(new Resuming.Opener() {
            @Override public Connection open() throws IOException {
                return Connection.connect(new Socket(HERE, port), new Settings(new Fixed(100)));
            }
        }, new Resuming.Source() {
            @Override public InputStream open() {
                return new ByteArrayInputStream(content);
            }
        }, content.length, SESSION, known);
    }

    private static byte[] content() {
        byte[] content = new byte[3_000_001];
        new Random(7).nextBytes(content);
        return content;
    }

    @Test
    public void aFileSurvivesCuts() throws Exception {
        byte[] content = content();
        File file = new File(folder.getRoot(), "received");
        int port = Relay.freePort();
        try (Alcc recv = new Alcc("recv", "--transport", "in-band", "--port", "" + port, "--bind", HERE, "--once",
                "--resume", "--out", file.getPath())) {
            recv.line("" + port);
            try (Relay relay = new Relay(port, 1_000_000, 30, 500_000, 1_000_000, 700_000)) {
                resuming(relay.port(), content, false).send(20_000);
                assertTrue(relay.connections() >= 6);
            }
            assertEquals(recv.all(), 0, recv.end());
        }
        assertArrayEquals(content, Files.readAllBytes(file.toPath()));
    }

    /** It is an interrupt by its type, and by nothing else. */
    @Test
    public void aServerThatDoesNotAnswerInTimeIsTriedAgain() throws Exception {
        final byte[] content = content();
        File file = new File(folder.getRoot(), "received");
        final int port = Relay.freePort();
        final int[] tries = new int[1];
        try (Alcc recv = new Alcc("recv", "--transport", "in-band", "--port", "" + port, "--bind", HERE, "--once",
                "--resume", "--out", file.getPath())) {
            recv.line("" + port);
            new Resuming(new Resuming.Opener() {
                @Override public Connection open() throws IOException {
                    if (tries[0]++ == 0) {
                        throw new SocketTimeoutException("connect timed out");
                    }
                    return Connection.connect(new Socket(HERE, port), new Settings(new Fixed(100)));
                }
            }, new Resuming.Source() {
                @Override public InputStream open() {
                    return new ByteArrayInputStream(content);
                }
            }, content.length, SESSION, false).send(20_000);
            assertEquals(recv.all(), 0, recv.end());
        }
        assertArrayEquals(content, Files.readAllBytes(file.toPath()));
        assertEquals(3, tries[0]);
    }

    /** As when the program is ended and started again. */
    @Test
    public void theSameSessionGoesOnLater() throws Exception {
        byte[] content = content();
        int port = Relay.freePort();
        try (Alcc recv = new Alcc("recv", "--transport", "in-band", "--port", "" + port, "--bind", HERE, "--resume",
                "--out", folder.getRoot().getPath())) {
            recv.line("" + port);
            try (Relay relay = new Relay(port, 1_000_000, 10)) {
                try {
                    resuming(relay.port(), content, false).send(0);
                    fail("it was cut");
                } catch (IOException e) {
                    assertTrue(relay.connections() <= 2);
                }
            }
            recv.line("waiting for the sender to resume");
            resuming(port, content, true).send(5_000);
            recv.line("received-1");
            // And once more: the receiver says that it is there.
            resuming(port, content, true).send(5_000);
            byte[] other = content.clone();
            other[5]++;
            try {
                resuming(port, other, true).send(5_000);
                fail("other content");
            } catch (TransferException e) {
                assertEquals(TransferException.Kind.DAMAGED, e.kind());
            }
        }
        assertArrayEquals(content, Files.readAllBytes(new File(folder.getRoot(), "received-1").toPath()));
        assertEquals(1, folder.getRoot().list().length);
    }

    @Test
    public void aReceiverThatDoesNotResumeIsNotAskedForEver() throws Exception {
        int port = Relay.freePort();
        try (Alcc recv = new Alcc("recv", "--transport", "in-band", "--port", "" + port, "--bind", HERE)) {
            recv.line("" + port);
            try {
                resuming(port, content(), false).send(20_000);
                fail("refused");
            } catch (TransferException e) {
                assertEquals(TransferException.Kind.NOT_KEPT, e.kind());
            }
        }
    }
}
