// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.alcc.Json;
import org.junit.BeforeClass;
import org.junit.Test;

/** alcc/inband/tests/wire-format-vectors.json, which Rust checks as well. */
public class VectorsTest {
    private static final int[] PIECES = {1, 2, 3, 5, 7, 100_000};
    private static Vectors vectors;

    @BeforeClass
    public static void load() throws Exception {
        vectors = Vectors.wireFormat();
    }

    private static List<Map<String, Object>> all(String name) {
        return vectors.all(name);
    }

    private static String error(AlccException e) {
        assertFalse(e.getMessage(), e.getMessage().contains("\n"));
        return e.kind().name().toLowerCase(Locale.ROOT);
    }

    private static byte[] encode(Map<String, Object> v) {
        ByteBuffer out = ByteBuffer.allocate(70_000);
        long sequence = v.containsKey("sequence") ? (Long) v.get("sequence") : 0;
        String type = (String) v.get("type");
        if (type.equals("data") || type.equals("tagged")) {
            byte[] payload = Vectors.bytes(v.get("payload"));
            byte[] tag = type.equals("data") ? new byte[0] : Vectors.bytes(v.get("tag"));
            FrameWriter.data(out, sequence, tag, payload.length);
            out.put(payload);
        } else if (type.equals("ack")) {
            List<Object> pairs = Json.list(v.get("steps"));
            int[] steps = new int[2 * pairs.size()];
            for (int i = 0; i < steps.length; i++) {
                steps[i] = ((Long) Json.list(pairs.get(i / 2)).get(i % 2)).intValue();
            }
            FrameWriter.ack(out, new Ack((Long) v.get("position"), ((Long) v.get("window")).intValue(),
                (Long) v.get("time"), ((Long) v.get("hold")).intValue(), steps));
        } else if (type.equals("report")) {
            FrameWriter.report(out, Vectors.bytes(v.get("report")));
        } else if (type.equals("close")) {
            FrameWriter.close(out, sequence, ((Long) v.get("reason")).intValue(), (String) v.get("text"));
        } else {
            FrameWriter.ping(out, type.equals("pong"), Vectors.bytes(v.get("octets")));
        }
        return Arrays.copyOf(out.array(), out.position());
    }

    @Test
    public void framesInBothDirectionsHoweverTheyAreCut() throws Exception {
        for (Map<String, Object> v : all("frames")) {
            String name = (String) v.remove("name");
            byte[] wire = Vectors.bytes(v.remove("hex"));
            if (v.remove("decode") == null) {
                assertArrayEquals(name, wire, encode(v));
            }
            for (int piece : PIECES) {
                assertEquals(name, Arrays.asList(v), Vectors.decode(wire, piece));
            }
        }
    }

    @Test
    public void prefacesInBothDirections() throws Exception {
        for (Map<String, Object> v : all("prefaces")) {
            String name = (String) v.get("name");
            byte[] wire = Vectors.bytes(v.get("hex"));
            for (int n = 0; n < wire.length; n++) {
                assertNull(name, Preface.decode(ByteBuffer.wrap(wire, 0, n)));
            }
            ByteBuffer in = ByteBuffer.wrap(Arrays.copyOf(wire, wire.length + 5));
            Preface preface = Preface.decode(in);
            assertEquals(name, 5, in.remaining());
            assertEquals(name, v.get("credit"), preface.credit());
            assertEquals(name, v.get("ack_delay"), preface.ackDelay());
            assertEquals(name, v.get("segment"), (long) preface.segment());
            assertEquals(name, v.get("algorithm"), preface.algorithm());
            if (v.get("decode") == null) {
                assertArrayEquals(name, wire, preface.encode());
            }
        }
    }

    @Test
    public void whatIsWrongIsFound() throws Exception {
        for (Map<String, Object> v : all("invalid_frames")) {
            for (int piece : PIECES) {
                try {
                    Vectors.decode(Vectors.bytes(v.get("hex")), piece);
                    fail((String) v.get("name"));
                } catch (AlccException e) {
                    assertEquals(v.get("name").toString(), v.get("error"), error(e));
                }
            }
        }
        for (Map<String, Object> v : all("invalid_prefaces")) {
            try {
                Preface.decode(ByteBuffer.wrap(Vectors.bytes(v.get("hex"))));
                fail((String) v.get("name"));
            } catch (AlccException e) {
                assertEquals(v.get("name").toString(), v.get("error"), error(e));
            }
        }
        for (Map<String, Object> v : all("incomplete")) {
            byte[] wire = Vectors.bytes(v.get("hex"));
            if (v.get("of").equals("preface")) {
                assertNull(Preface.decode(ByteBuffer.wrap(wire)));
            } else {
                assertTrue(Vectors.decode(wire, 1).isEmpty());
            }
        }
    }

    @Test
    public void afterAnErrorNothingMoreIsHeard() throws Exception {
        FrameReader reader = new FrameReader();
        Vectors.Heard heard = new Vectors.Heard();
        for (byte[] wire : new byte[][] {{0, 0, 0, 0}, {1, 0, 0, 4, 0, 0, 0, 0}}) {
            try {
                reader.feed(ByteBuffer.wrap(wire), heard);
                fail("no error");
            } catch (AlccException e) {
                assertEquals(AlccException.Kind.PROTOCOL, e.kind());
            }
        }
        assertTrue(heard.frames.isEmpty());
    }
}
