// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import org.alcc.cc.Fixed;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.Timeout;

/** Peers that say something wrong, or nothing: a typed exception, a closed socket, and no call that waits for ever. */
public class RudePeersTest {
    private static final byte[] PREFACE = new Preface(1 << 20, 5000, 1448, "").encode();

    @Rule public final Timeout timeout = Timeout.seconds(30);

    /** A connection, and the bare socket at its other end. */
    private static final class Ends implements AutoCloseable {
        final Socket bare;
        final Connection here;

        Ends(boolean opener, Settings settings) throws IOException {
            try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
                bare = new Socket("127.0.0.1", server.getLocalPort());
                bare.setSoTimeout(10_000);
                Socket socket = server.accept();
                here = opener ? Connection.connect(socket, settings) : Connection.accept(socket, settings);
            }
        }

        void say(byte[]... parts) throws IOException {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            for (byte[] part : parts) {
                all.write(part);
            }
            bare.getOutputStream().write(all.toByteArray());
        }

        /** All that came until the connection closed its socket. */
        byte[] heard() throws IOException {
            ByteArrayOutputStream all = new ByteArrayOutputStream();
            InputStream in = bare.getInputStream();
            try {
                for (int octet = in.read(); octet >= 0; octet = in.read()) {
                    all.write(octet);
                }
            } catch (SocketException e) {
                // Reset: closed as well.
            }
            return all.toByteArray();
        }

        @Override public void close() throws IOException {
            here.close();
            bare.close();
        }
    }

    private static Settings settings() {
        return new Settings(new Fixed(100)).receiveBuffer(4096).handshake(800).silence(800);
    }

    private static byte[] frame(int type, int... rest) {
        byte[] frame = new byte[4 + rest.length];
        frame[0] = (byte) type;
        frame[3] = (byte) rest.length;
        for (int i = 0; i < rest.length; i++) {
            frame[4 + i] = (byte) rest[i];
        }
        return frame;
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    private static byte[] data(int sequence, int bytes) {
        ByteBuffer frame = ByteBuffer.allocate(8 + bytes);
        FrameWriter.data(frame, sequence, new byte[0], bytes);
        return frame.array();
    }

    private static byte[] close(int reason, String text) {
        ByteBuffer frame = ByteBuffer.allocate(300);
        FrameWriter.close(frame, 0, reason, text);
        return Arrays.copyOf(frame.array(), frame.position());
    }

    private static byte[] ack(long position) {
        ByteBuffer frame = ByteBuffer.allocate(20);
        FrameWriter.ack(frame, new Ack(position, 100, 0, 0, new int[0]));
        return frame.array();
    }

    /** Reading ends with an error of this kind, and so does everything after it; the socket is closed. */
    private static AlccException ends(Ends ends, AlccException.Kind kind) throws IOException {
        return ends(ends, kind, false);
    }

    /** With {@code ended} the peer has said its end before, which reading may come to. */
    private static AlccException ends(Ends ends, AlccException.Kind kind, boolean ended) throws IOException {
        AlccException first = null;
        for (int i = 0; i < 3; i++) {
            try {
                if (i < 2) {
                    while (ends.here.getInputStream().read() >= 0) {
                        assertEquals("what came before may be read", 0, i);
                    }
                    assertTrue("an end instead of an error", ended);
                    continue;
                }
                ends.here.getOutputStream().write(new byte[100_000]);
                fail("written");
            } catch (AlccException e) {
                assertEquals(e.getMessage(), kind, e.kind());
                assertFalse(e.getMessage(), e.getMessage().contains("\n"));
                first = first == null ? e : first;
            }
        }
        return first;
    }

    /** The reason of the received CLOSE; -1 if there is none. */
    private static int reason(byte[] heard) throws IOException {
        ByteBuffer in = ByteBuffer.wrap(heard);
        if (Preface.decode(in) == null) {
            return -1;
        }
        final int[] reason = {-1};
        Vectors.Heard frames = new Vectors.Heard();
        new FrameReader().feed(in, frames);
        for (java.util.Map<String, Object> frame : frames.frames) {
            if (frame.get("type").equals("close")) {
                reason[0] = ((Long) frame.get("reason")).intValue();
            }
        }
        return reason[0];
    }

    private static void rude(AlccException.Kind kind, int reason, byte[]... says) throws IOException {
        for (boolean opener : new boolean[] {true, false}) {
            try (Ends ends = new Ends(opener, settings())) {
                ends.say(says);
                ends(ends, kind);
                int said = reason(ends.heard());
                // Its socket is gone with unread bytes of the peer's: then what was said last may be lost.
                assertTrue(kind + ": " + said, said == reason || said == -1);
            }
        }
    }

    private static AlccException.Kind kind(Object word) {
        if ("module".equals(word)) {
            return AlccException.Kind.RECEIVER_MODULE;
        }
        return AlccException.Kind.valueOf(((String) word).toUpperCase(Locale.ROOT));
    }

    private static void conversation(Map<String, Object> one, boolean opener) throws IOException {
        String name = one.get("name") + ", opener: " + opener;
        try (Ends ends = new Ends(opener, settings())) {
            try {
                ends.say(Vectors.bytes(one.get("hex")));
            } catch (SocketException e) {
                // It was refused before it has said everything.
            }
            if (one.get("then").equals("leaves")) {
                ends.bare.shutdownOutput();
            }
            if (one.get("written") != null) {
                ends.here.getOutputStream().write(new byte[((Long) one.get("written")).intValue()]);
            }
            AlccException.Kind kind = kind(one.get("error"));
            try {
                ends(ends, kind, one.containsKey("ended"));
            } catch (AssertionError e) {
                throw new AssertionError(name + ": " + e.getMessage());
            }
            Object wanted = one.get(opener ? "opener_closes" : "acceptor_closes");
            int said = reason(ends.heard());
            // Its socket is gone with unread bytes of the peer's: then what was said last may be lost.
            assertTrue(name + ": " + said, said == (wanted == null ? -1 : (Long) wanted) || said == -1);
        }
    }

    /** The tests of the Rust implementation's ends. */
    @Test
    public void bothEndsEndAsThePageSays() throws Exception {
        List<Map<String, Object>> all = Vectors.wireFormat().all("rude");
        assertTrue(all.size() + "", all.size() >= 28);
        for (Map<String, Object> one : all) {
            conversation(one, true);
            conversation(one, false);
        }
    }

    @Test
    public void framesThatBreakRules() throws Exception {
        AlccException.Kind protocol = AlccException.Kind.PROTOCOL;
        rude(protocol, 2, PREFACE, frame(0x00));
        rude(protocol, 2, PREFACE, frame(0x42, 1, 2, 3));
        rude(protocol, 2, PREFACE, frame(3, 1, 2, 3));
        rude(protocol, 2, PREFACE, frame(6, 1));
        rude(protocol, 2, PREFACE, frame(5, 0));
        rude(protocol, 2, PREFACE, new byte[] {1, 127, 127, 127, 0, 0, 0, 0});
        rude(protocol, 2, PREFACE, new byte[] {(byte) 0x80, 2, 0, 0});
        rude(protocol, 2, PREFACE, data(1, 10));
        rude(protocol, 2, PREFACE, data(0, 10), data(0, 10));
        rude(protocol, 2, PREFACE, data(0, 5000));
        rude(protocol, 2, PREFACE, data(0, 4096 - 8), data(4096, 1));
        rude(protocol, 2, PREFACE, ack(1));
    }

    @Test
    public void prefacesThatBreakRules() throws Exception {
        byte[] wrong = PREFACE.clone();
        wrong[24] = 0;
        wrong[25] = 0;
        rude(AlccException.Kind.PROTOCOL, 2, wrong);
        wrong = PREFACE.clone();
        wrong[8] = 2;
        rude(AlccException.Kind.VERSION, -1, wrong);
        rude(AlccException.Kind.RECEIVER_MODULE, 3, new Preface(1000, 5000, 1448, "sprout\n").encode());
    }

    @Test
    public void noAlccAtTheOtherEnd() throws Exception {
        rude(AlccException.Kind.FOREIGN, -1, ascii("HTTP/1.1 400 Bad Request\r\n\r\n"));
        rude(AlccException.Kind.FOREIGN, -1, ascii("SSH-2.0-OpenSSH_9.2\r\n"));
        rude(AlccException.Kind.FOREIGN, -1, new byte[] {0x16, 3, 1, 0});
        byte[] noise = new byte[1 << 20];
        new Random(1).nextBytes(noise);
        noise[0] = 'A';
        noise[1] = 0;
        try (Ends ends = new Ends(false, settings())) {
            try {
                ends.say(noise);
            } catch (SocketException e) {
                // Closed before it took everything.
            }
            ends(ends, AlccException.Kind.FOREIGN);
        }
    }

    @Test
    public void aPeerThatGoes() throws Exception {
        byte[][] says = {{}, ascii("ALCC"), PREFACE, concat(PREFACE, data(0, 100)),
            Arrays.copyOf(concat(PREFACE, data(0, 100)), PREFACE.length + 50)};
        for (byte[] said : says) {
            for (boolean opener : new boolean[] {true, false}) {
                try (Ends ends = new Ends(opener, settings())) {
                    ends.say(said);
                    ends.bare.shutdownOutput();
                    ends(ends, AlccException.Kind.CUT);
                }
            }
        }
    }

    private static byte[] concat(byte[] a, byte[] b) {
        byte[] both = Arrays.copyOf(a, a.length + b.length);
        System.arraycopy(b, 0, both, a.length, b.length);
        return both;
    }

    @Test
    public void aFailureThatIsThrownAgainIsPrintedOnce() {
        for (AlccException first : new AlccException[] {AlccException.stream(new SocketException("reset")),
            AlccException.protocol("nothing")}) {
            StringWriter printed = new StringWriter();
            first.again().printStackTrace(new PrintWriter(printed));
            assertFalse(printed.toString(), printed.toString().contains("CIRCULAR"));
            assertEquals(first.getCause(), first.again().getCause());
        }
    }

    @Test
    public void aPeerThatGivesUpIsQuotedWithoutItsControlCharacters() throws Exception {
        for (int reason : new int[] {1, 2, 3, 4, 99}) {
            try (Ends ends = new Ends(true, settings())) {
                ends.say(PREFACE, data(0, 3), close(reason, "why\u001b[31m\nnot"));
                AlccException e = ends(ends, AlccException.Kind.CLOSED);
                assertEquals(reason, e.reason());
                assertTrue(e.getMessage(), e.getMessage().contains("why [31m not"));
            }
        }
    }

    @Test
    public void aPeerThatSaysNothing() throws Exception {
        for (boolean opener : new boolean[] {true, false}) {
            for (String first : new String[] {"", "ALCC"}) {
                try (Ends ends = new Ends(opener, settings())) {
                    ends.say(ascii(first));
                    long began = System.nanoTime();
                    ends(ends, AlccException.Kind.SILENT);
                    long ms = (System.nanoTime() - began) / 1_000_000;
                    assertTrue(ms + " ms", ms >= 700 && ms < 2500);
                    assertEquals(-1, reason(ends.heard()));
                }
            }
        }
    }

    /** It says its preface and reads nothing ever again. */
    @Test
    public void aPeerThatTakesNothing() throws Exception {
        Settings settings = new Settings(new Fixed(1_000_000)).silence(800);
        try (Ends ends = new Ends(true, settings)) {
            ends.say(new Preface(1L << 40, 5000, 1448, "").encode());
            byte[] block = new byte[1 << 20];
            try {
                for (int i = 0; i < 1000; i++) {
                    ends.here.getOutputStream().write(block);
                }
                fail("a gigabyte was taken");
            } catch (AlccException e) {
                assertEquals(AlccException.Kind.SILENT, e.kind());
            }
        }
    }

    /** It reads, and acknowledges nothing. */
    @Test
    public void aPeerThatAcknowledgesNothing() throws Exception {
        try (Ends ends = new Ends(true, settings())) {
            ends.say(PREFACE);
            ends.here.getOutputStream().write(new byte[1000]);
            long began = System.nanoTime();
            try {
                ends.here.finish(20_000);
                fail("nothing was acknowledged");
            } catch (AlccException e) {
                assertEquals(AlccException.Kind.SILENT, e.kind());
            }
            assertTrue(System.nanoTime() - began < 3_000_000_000L);
            assertEquals(4, reason(ends.heard()));
        }
        try (Ends ends = new Ends(true, settings().silence(60_000))) {
            ends.say(PREFACE);
            ends.here.getOutputStream().write(new byte[1000]);
            assertFalse("the time is over", ends.here.finish(100));
        }
    }

    @Test
    public void closingWakesWhoWaits() throws Exception {
        try (final Ends ends = new Ends(true, settings().silence(60_000))) {
            ends.say(PREFACE);
            Thread closer = new Thread() {
                @Override public void run() {
                    try {
                        Thread.sleep(100);
                    } catch (InterruptedException e) {
                        return;
                    }
                    ends.here.close();
                }
            };
            closer.start();
            try {
                ends.here.getInputStream().read();
                fail("no error");
            } catch (AlccException e) {
                assertEquals(AlccException.Kind.GIVEN_UP, e.kind());
            }
            closer.join();
            // Nothing was sent and the peer has not ended: it is told that this end gave up.
            assertEquals(1, reason(ends.heard()));
        }
    }
}
