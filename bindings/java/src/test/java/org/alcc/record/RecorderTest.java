// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.File;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.util.Random;
import org.alcc.inband.Alcc;
import org.alcc.Json;
import org.junit.Rule;
import org.junit.Test;
import org.junit.rules.TemporaryFolder;

/** Recordings over loopback with the program, and with listeners that are none. */
public class RecorderTest {
    private static final long MS = 1_000_000;

    @Rule public final TemporaryFolder folder = new TemporaryFolder();

    private Alcc listen(String... more) throws Exception {
        String[] all = {"trace", "record", "--listen", "127.0.0.1:0", "--count", "1", "--out",
            folder.getRoot().toString()};
        String[] both = java.util.Arrays.copyOf(all, all.length + more.length);
        System.arraycopy(more, 0, both, all.length, more.length);
        return new Alcc(both);
    }

    private static InetSocketAddress address(Alcc listener) throws Exception {
        String line = listener.line("listening on");
        String port = line.substring(line.indexOf("127.0.0.1:") + 10).split("[^0-9]")[0];
        return new InetSocketAddress("127.0.0.1", Integer.parseInt(port));
    }

    private File trace(String name, Recorded recorded, Plan plan) throws Exception {
        File file = new File(folder.getRoot(), name);
        StringBuilder text = new StringBuilder();
        recorded.writeTrace(text, plan.ipLength());
        Files.write(file.toPath(), text.toString().getBytes("US-ASCII"));
        return file;
    }

    /** Reads a trace with the program. */
    private static void read(File trace) throws Exception {
        try (Alcc stats = new Alcc("trace", "stats", trace.toString())) {
            assertEquals(stats.all(), 0, stats.end());
            assertTrue(stats.all(), stats.all().contains("Mbit/s"));
        }
    }

    @Test
    public void bothDirectionsAtConstantRatesWithTheProgram() throws Exception {
        Plan plan = new Plan(Plan.Mode.CONSTANT, 1472, 28, 1500 * MS, 300 * MS, 2 * MS, 4 * MS, 0);
        try (Alcc listener = listen()) {
            Recorder recorder = new Recorder(address(listener), plan, "phone 1");
            Recording result = recorder.record();
            assertEquals(listener.all(), 0, listener.end());
            assertTrue("" + result.end, result.isComplete());
            assertEquals(1, recorder.progress(), 0);
            // A busy machine may hold either end up at the edges of the time that counts, by 50 ms each.
            assertEquals(750, result.down.count() + result.up.skipped, 50);
            assertEquals(375, result.up.count() + result.down.skipped + result.up.overrun, 25);
            assertEquals(result.down.sent, result.up.received + result.up.overrun, 5);
            assertEquals(0, result.down.beyond);
            // Both ends say the same of this direction.
            File up = trace("up.trace", result.up, plan);
            File there = new File(folder.getRoot(), "phone_1/up.trace");
            assertEquals(new String(Files.readAllBytes(there.toPath()), "US-ASCII"),
                new String(Files.readAllBytes(up.toPath()), "US-ASCII"));
            read(up);
            read(trace("down.trace", result.down, plan));
            String summary =
                new String(Files.readAllBytes(new File(folder.getRoot(), "phone_1/summary.json").toPath()), "UTF-8");
            assertTrue(summary, summary.contains("" + result.up.count()));
        }
    }

    @Test
    public void bothDirectionsSaturatedWithTheProgram() throws Exception {
        Plan plan = new Plan(Plan.Mode.SATURATE, 1472, 28, 1500 * MS, 1500 * MS, Plan.AS_MUCH_AS_FITS,
            Plan.AS_MUCH_AS_FITS, 20_000_000);
        try (Alcc listener = listen()) {
            Recording result = new Recorder(address(listener), plan, "phone").record();
            assertEquals(listener.all(), 0, listener.end());
            assertTrue("" + result.end, result.isComplete());
            // Loopback carries more than the limit, 2,500 packets in this time.
            for (Recorded each : new Recorded[] {result.down, result.up}) {
                assertTrue("" + each.count(), each.count() > 1000 && each.count() < 3500);
            }
            read(trace("up.trace", result.up, plan));
            read(trace("down.trace", result.down, plan));
        }
    }

    @Test
    public void aStopKeepsWhatCame() throws Exception {
        Plan plan = new Plan(Plan.Mode.PROBE, 472, 28, 60_000 * MS, 0, 4 * MS, Plan.NOTHING, 0);
        try (Alcc listener = listen()) {
            final Recorder recorder = new Recorder(address(listener), plan, "phone");
            Thread stopper = new Thread() {
                @Override public void run() {
                    while (recorder.rate() == 0) {
                        Thread.yield();
                    }
                    recorder.stop();
                }
            };
            stopper.start();
            Recording result = recorder.record();
            stopper.join();
            assertEquals(Recording.End.STOPPED, result.end);
            assertTrue(result.down.count() > 10);
            assertNull(result.up);
            listener.end();
        }
    }

    private static RecordException.Kind failure(Recorder recorder, String words) {
        try {
            recorder.record();
        } catch (RecordException e) {
            assertTrue(e.getMessage(), e.getMessage().contains(words));
            assertEquals(-1, e.getMessage().indexOf('\n'));
            return e.kind();
        }
        fail("it recorded");
        return null;
    }

    @Test
    public void whatGoesWrongIsTyped() throws Exception {
        Plan plan = Plan.saturate(10_000, 1000);
        try (Alcc listener = listen("--max-duration", "5s")) {
            assertEquals(RecordException.Kind.REFUSED,
                failure(new Recorder(address(listener), plan, "phone"), "5s"));
        }
        InetSocketAddress here;
        try (DatagramSocket silent = new DatagramSocket(0, InetAddress.getByName("127.0.0.1"))) {
            here = new InetSocketAddress("127.0.0.1", silent.getLocalPort());
            assertEquals(RecordException.Kind.NO_ANSWER,
                failure(new Recorder(here, plan, "", 10, 600), "no answer for 600 ms"));
        }
        assertEquals(RecordException.Kind.NOBODY_LISTENS,
            failure(new Recorder(here, plan, "", 10, 600), "connection refused"));
        assertEquals(RecordException.Kind.UNKNOWN_HOST,
            failure(new Recorder(InetSocketAddress.createUnresolved("nowhere.invalid", 1), plan, ""), "no address"));
        Recorder stopped = new Recorder(here, plan, "");
        stopped.stop();
        assertEquals(RecordException.Kind.STOPPED, failure(stopped, "stopped"));
        for (Plan bad : new Plan[] {Plan.saturate(50, 0), Plan.saturate(3_600_001, 0), Plan.saturate(1000, 60_001),
            new Plan(Plan.Mode.PROBE, 127, 28, 1000 * MS, 0, 2000, 2000, 0),
            new Plan(Plan.Mode.PROBE, 472, 28, 1000 * MS, 0, 1999, 2000, 0),
            new Plan(Plan.Mode.PROBE, 472, 28, 1000 * MS, 0, 0, 0, 0),
            new Plan(Plan.Mode.SATURATE, 472, 28, 1000 * MS, 0, -1, 0, 99_999)}) {
            try {
                new Recorder(here, bad, "");
                fail("it was taken");
            } catch (IllegalArgumentException e) {
                assertTrue(e.getMessage(), e.getMessage().contains(" "));
            }
        }
    }

    /** A listener that says yes and then anything at all, until it leaves. */
    @Test
    public void aHostileListenerEndsNothingButItself() throws Exception {
        final DatagramSocket socket = new DatagramSocket(0, InetAddress.getByName("127.0.0.1"));
        final InetSocketAddress here = new InetSocketAddress("127.0.0.1", socket.getLocalPort());
        final Throwable[] wrong = {null};
        Thread hostile = new Thread() {
            @Override public void run() {
                try {
                    hostile(socket);
                } catch (Exception e) {
                    wrong[0] = e;
                }
            }
        };
        hostile.start();
        Recording result = new Recorder(here, Plan.saturate(1000, 0), "phone").record();
        hostile.join();
        socket.close();
        assertNull(wrong[0]);
        assertEquals(Recording.End.LEFT, result.end);
        assertNull(result.up);
    }

    private static void hostile(DatagramSocket socket) throws Exception {
        byte[] buffer = new byte[Plan.MAX_SIZE];
        DatagramPacket got = new DatagramPacket(buffer, buffer.length);
        socket.receive(got);
        Packet hello = Packet.decode(ByteBuffer.wrap(buffer, 0, got.getLength()));
        assertEquals(1472, got.getLength());
        Packet challenge = new Packet(Packet.CHALLENGE, hello.id);
        challenge.cookie = new byte[24];
        send(socket, challenge, got);
        Packet start;
        do {
            got.setLength(buffer.length);
            socket.receive(got);
            start = Packet.decode(ByteBuffer.wrap(buffer, 0, got.getLength()));
        } while (start.type != Packet.START);
        assertEquals("phone", start.text);
        Packet ready = new Packet(Packet.READY, hello.id);
        ready.session = 1;
        send(socket, ready, got);
        Random random = new Random(7);
        for (int round = 0; round < 40; round++) {
            for (Object each : RecordVectorsTest.vectors("packets")) {
                // The vectors' session is 1. The last fields are anything.
                byte[] wire = RecordVectorsTest.bytes(Json.map(each).get("hex"));
                for (int n = 0; n < 4 && wire.length > 14 && round > 0; n++) {
                    wire[14 + random.nextInt(wire.length - 14)] = (byte) random.nextInt();
                }
                if (wire.length < 6 || wire[5] != Packet.BYE) {
                    int length = round % 3 == 0 ? wire.length : random.nextInt(wire.length + 1);
                    socket.send(new DatagramPacket(wire, length, got.getSocketAddress()));
                }
            }
            Thread.sleep(2);
        }
        for (int n = 0; n < 50; n++) {
            send(socket, new Packet(Packet.BYE, 1), got);
            Thread.sleep(1);
        }
    }

    private static void send(DatagramSocket socket, Packet packet, DatagramPacket to) throws Exception {
        ByteBuffer out = ByteBuffer.allocate(200);
        packet.encode(out, 0);
        socket.send(new DatagramPacket(out.array(), out.position(), to.getSocketAddress()));
    }
}
