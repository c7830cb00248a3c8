// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import org.alcc.Json;
import org.junit.Test;

/** lab/record/tests/recording-format-vectors.json, which Rust checks as well. */
public class RecordVectorsTest {
    static List<Object> vectors(String name) throws Exception {
        byte[] text = Files.readAllBytes(Paths.get(System.getProperty("root"), "lab/record/tests/recording-format-vectors.json"));
        return Json.list(Json.parse(new String(text, StandardCharsets.UTF_8)).get(name));
    }

    static byte[] bytes(Object hex) {
        byte[] bytes = new byte[((String) hex).length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(((String) hex).substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static String hex(byte[] bytes) {
        StringBuilder hex = new StringBuilder();
        for (byte b : bytes) {
            hex.append(String.format("%02x", b));
        }
        return hex.toString();
    }

    /** As the vectors have it: beyond 2^53 as text. */
    private static Object number(long n) {
        return n < 0 || n > 1L << 53 ? (Object) Long.toUnsignedString(n) : (Object) n;
    }

    private static void load(Map<String, Object> to, String name, long load) {
        if (load == Plan.NOTHING || load == Plan.AS_MUCH_AS_FITS) {
            to.put(name, load == Plan.NOTHING ? "nothing" : "saturate");
        } else {
            to.put(name + "_interval_ns", load);
        }
    }

    private static Map<String, Object> plan(Plan plan) {
        Map<String, Object> to = new LinkedHashMap<>();
        to.put("mode", plan.mode.name().toLowerCase(Locale.ROOT));
        to.put("size", (long) plan.size);
        to.put("overhead", (long) plan.overhead);
        to.put("duration_ns", plan.duration);
        to.put("warm_up_ns", plan.warmUp);
        load(to, "down", plan.down);
        load(to, "up", plan.up);
        to.put("limit_bps", plan.limit);
        return to;
    }

    private static Map<String, Object> fields(Packet p) {
        Map<String, Object> to = new LinkedHashMap<>();
        Map<Integer, String> names = new LinkedHashMap<>();
        for (java.lang.reflect.Field field : Packet.class.getFields()) {
            if (field.getType() == int.class && java.lang.reflect.Modifier.isStatic(field.getModifiers())) {
                try {
                    names.put(field.getInt(null), field.getName().toLowerCase(Locale.ROOT));
                } catch (IllegalAccessException e) {
                    throw new AssertionError(e);
                }
            }
        }
        to.put("type", names.get(p.type));
        if (p.type < Packet.PING) {
            to.put("nonce", p.id);
        } else {
            to.put("session", number(p.id));
            to.put("sent", number(p.sent));
            to.put("echo_sent", number(p.echoSent));
            to.put("echo_received", number(p.echoReceived));
        }
        if (p.cookie != null) {
            to.put("cookie", hex(p.cookie));
        }
        if (p.type == Packet.START) {
            to.put("plan", plan(p.plan));
            to.put("label", p.text);
        } else if (p.type == Packet.READY) {
            to.put("session", p.session);
        } else if (p.type == Packet.REFUSED) {
            to.put("why", p.text);
        } else if (p.type == Packet.PING) {
            to.put("synced", p.synced);
        } else if (p.type == Packet.PONG) {
            to.put("start_at", p.startAt);
        } else if (p.type == Packet.DATA) {
            to.put("seq", p.seq);
        } else if (p.type == Packet.GET || p.type == Packet.PART) {
            to.put("part", (long) p.part);
        }
        if (p.type == Packet.PART) {
            to.put("parts", (long) p.parts);
            to.put("bytes", hex(p.bytes));
        }
        if (p.report != null) {
            Map<String, Object> report = new LinkedHashMap<>();
            report.put("below", p.report.below);
            report.put("received", p.report.received);
            report.put("delay_ns", p.report.delay);
            report.put("least_ns", p.report.least);
            report.put("peak_bps", p.report.peak);
            report.put("rate_bps", p.report.rate);
            to.put("report", report);
        }
        return to;
    }

    @Test
    public void packetsAreWrittenAndReadAsThePageSays() throws Exception {
        int right = 0;
        List<Object> all = vectors("packets");
        assertTrue(all.size() >= 29);
        for (Object each : all) {
            Map<String, Object> v = Json.map(each);
            String name = v.get("name").toString();
            byte[] wire = bytes(v.get("hex"));
            Packet read = Packet.decode(ByteBuffer.wrap(wire));
            if (v.get("packet") == null) {
                assertNull(name, read);
                continue;
            }
            assertEquals(name, v.get("packet"), fields(read));
            ByteBuffer written = ByteBuffer.allocate(wire.length);
            read.encode(written, wire.length);
            assertArrayEquals(name, wire, written.array());
            right++;
        }
        assertTrue(right >= 15);
    }

    @Test
    public void recordingsAreWrittenAndReadAsThePageSays() throws Exception {
        int right = 0;
        List<Object> all = vectors("recordings");
        assertTrue(all.size() >= 10);
        for (Object each : all) {
            Map<String, Object> v = Json.map(each);
            String name = v.get("name").toString();
            byte[] wire = bytes(v.get("hex"));
            Recorded r = Recorded.decode(wire);
            if (v.get("recorded") == null) {
                assertNull(name, r);
                continue;
            }
            Map<String, Object> to = new LinkedHashMap<>();
            to.put("from_ns", r.from);
            to.put("to_ns", r.to);
            to.put("sent", r.sent);
            to.put("skipped", r.skipped);
            to.put("received", r.received);
            to.put("copies", r.copies);
            to.put("beyond", r.beyond);
            to.put("overrun", r.overrun);
            to.put("late_p50_ns", r.late[0]);
            to.put("late_p99_ns", r.late[1]);
            to.put("late_max_ns", r.late[2]);
            List<Object> arrivals = new ArrayList<>();
            for (int i = 0; i < r.count(); i++) {
                arrivals.add(Arrays.asList(number(r.seq(i)), number(r.sentAt(i)), number(r.came(i))));
            }
            to.put("arrivals", arrivals);
            assertEquals(name, v.get("recorded"), to);
            assertArrayEquals(name, wire, r.encode());
            right++;
        }
        assertTrue(right >= 3);
    }

    /** Bytes that a stranger sends are a packet or nothing, and never an exception. */
    @Test
    public void cutAndChangedPacketsAreReadOrIgnored() throws Exception {
        Random random = new Random(16);
        for (Object each : vectors("packets")) {
            byte[] wire = bytes(Json.map(each).get("hex"));
            for (int length = 0; length <= wire.length; length++) {
                Packet.decode(ByteBuffer.wrap(wire, 0, length));
            }
            for (int n = 0; n < 300 && wire.length > 0; n++) {
                byte[] other = wire.clone();
                other[random.nextInt(other.length)] = (byte) random.nextInt();
                other[random.nextInt(other.length)] = (byte) random.nextInt();
                Packet read = Packet.decode(ByteBuffer.wrap(other));
                if (read != null) {
                    // What was read can be written, and reads as the same again.
                    ByteBuffer again = ByteBuffer.allocate(other.length);
                    read.encode(again, 0);
                    again.flip();
                    assertEquals(fields(read), fields(Packet.decode(again)));
                }
            }
        }
        for (Object each : vectors("recordings")) {
            byte[] wire = bytes(Json.map(each).get("hex"));
            for (int n = 0; n < 2000; n++) {
                byte[] other = wire.clone();
                other[random.nextInt(other.length)] = (byte) random.nextInt();
                Recorded read = Recorded.decode(other);
                assertTrue(read == null || read.count() <= other.length / 3);
            }
        }
    }

    @Test
    public void aTraceGathersSmallPackets() throws Exception {
        Recorded r = new Recorded();
        r.from = 1_000_000_000;
        for (int i = 0; i < 7; i++) {
            r.add(i, 0, r.from + i * 1_500_000L);
        }
        StringBuilder trace = new StringBuilder();
        // Packets complete 1500 bytes with the third and the sixth.
        r.writeTrace(trace, 500);
        assertEquals("3\n7\n", trace.toString());
    }
}
