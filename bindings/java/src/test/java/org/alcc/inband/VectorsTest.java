// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;
import static org.junit.Assert.fail;

import java.io.File;
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
import org.junit.BeforeClass;
import org.junit.Test;

/** docs/wire-format-vectors.json, which Rust checks as well. */
public class VectorsTest {
    private static final int[] PIECES = {1, 2, 3, 5, 7, 100_000};
    private static Map<String, Object> vectors;

    @BeforeClass
    public static void load() throws Exception {
        byte[] text = Files.readAllBytes(Paths.get(System.getProperty("vectors")));
        vectors = Json.parse(new String(text, StandardCharsets.UTF_8));
    }

    /** The vectors of this name; a name that is gone is not a passed test. */
    private static List<Map<String, Object>> all(String name) {
        List<Map<String, Object>> all = new ArrayList<Map<String, Object>>();
        for (Object vector : Json.list(vectors.get(name))) {
            all.add(new LinkedHashMap<String, Object>(Json.map(vector)));
        }
        assertFalse(name, all.isEmpty());
        return all;
    }

    private static byte[] bytes(Object hex) {
        String digits = (String) hex;
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static String hex(byte[] bytes) {
        StringBuilder digits = new StringBuilder();
        for (byte b : bytes) {
            digits.append(String.format("%02x", b & 255));
        }
        return digits.toString();
    }

    private static String error(AlccException e) {
        assertFalse(e.getMessage(), e.getMessage().contains("\n"));
        return e.kind().name().toLowerCase(Locale.ROOT);
    }

    /** Frames in the words of the vectors. */
    private static final class Heard implements FrameSink {
        final List<Map<String, Object>> frames = new ArrayList<Map<String, Object>>();

        private Map<String, Object> frame(String type) {
            Map<String, Object> frame = new LinkedHashMap<String, Object>();
            frame.put("type", type);
            frames.add(frame);
            return frame;
        }

        @Override public void data(long sequence, byte[] tag, int payload) {
            Map<String, Object> frame = frame(tag.length == 0 ? "data" : "tagged");
            frame.put("sequence", sequence);
            frame.put("payload", "");
            if (tag.length > 0) {
                frame.put("tag", hex(tag));
            }
        }

        @Override public void payload(ByteBuffer piece) {
            byte[] some = new byte[piece.remaining()];
            piece.get(some);
            Map<String, Object> frame = frames.get(frames.size() - 1);
            frame.put("payload", frame.get("payload") + hex(some));
        }

        @Override public void ack(Ack ack) {
            Map<String, Object> frame = frame("ack");
            frame.put("position", ack.position());
            frame.put("window", (long) ack.window());
            frame.put("time", ack.time());
            frame.put("hold", (long) ack.hold());
            List<Object> steps = new ArrayList<Object>();
            for (int i = 0; i < ack.steps().length; i += 2) {
                steps.add(Arrays.asList((long) ack.steps()[i], (long) ack.steps()[i + 1]));
            }
            frame.put("steps", steps);
        }

        @Override public void report(byte[] report) {
            frame("report").put("report", hex(report));
        }

        @Override public void close(long sequence, int reason, String text, int length) {
            Map<String, Object> frame = frame("close");
            frame.put("sequence", sequence);
            frame.put("reason", (long) reason);
            frame.put("text", text);
        }

        @Override public void ping(byte[] octets) {
            frame("ping").put("octets", hex(octets));
        }

        @Override public void pong(byte[] octets) {
            frame("pong").put("octets", hex(octets));
        }

        @Override public void unknown(int type) {
            frame("unknown").put("number", (long) type);
        }
    }

    private static List<Map<String, Object>> decode(byte[] wire, int piece) throws AlccException {
        FrameReader reader = new FrameReader();
        Heard heard = new Heard();
        for (int at = 0; at < wire.length; at += piece) {
            reader.feed(ByteBuffer.wrap(wire, at, Math.min(piece, wire.length - at)), heard);
        }
        return heard.frames;
    }

    private static byte[] encode(Map<String, Object> v) {
        ByteBuffer out = ByteBuffer.allocate(70_000);
        long sequence = v.containsKey("sequence") ? (Long) v.get("sequence") : 0;
        String type = (String) v.get("type");
        if (type.equals("data") || type.equals("tagged")) {
            byte[] payload = bytes(v.get("payload"));
            byte[] tag = type.equals("data") ? new byte[0] : bytes(v.get("tag"));
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
            FrameWriter.report(out, bytes(v.get("report")));
        } else if (type.equals("close")) {
            FrameWriter.close(out, sequence, ((Long) v.get("reason")).intValue(), (String) v.get("text"));
        } else {
            FrameWriter.ping(out, type.equals("pong"), bytes(v.get("octets")));
        }
        return Arrays.copyOf(out.array(), out.position());
    }

    @Test
    public void framesInBothDirectionsHoweverTheyAreCut() throws Exception {
        for (Map<String, Object> v : all("frames")) {
            String name = (String) v.remove("name");
            byte[] wire = bytes(v.remove("hex"));
            if (v.remove("decode") == null) {
                assertArrayEquals(name, wire, encode(v));
            }
            for (int piece : PIECES) {
                assertEquals(name, Arrays.asList(v), decode(wire, piece));
            }
        }
    }

    @Test
    public void prefacesInBothDirections() throws Exception {
        for (Map<String, Object> v : all("prefaces")) {
            String name = (String) v.get("name");
            byte[] wire = bytes(v.get("hex"));
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
                    decode(bytes(v.get("hex")), piece);
                    fail((String) v.get("name"));
                } catch (AlccException e) {
                    assertEquals(v.get("name").toString(), v.get("error"), error(e));
                }
            }
        }
        for (Map<String, Object> v : all("invalid_prefaces")) {
            try {
                Preface.decode(ByteBuffer.wrap(bytes(v.get("hex"))));
                fail((String) v.get("name"));
            } catch (AlccException e) {
                assertEquals(v.get("name").toString(), v.get("error"), error(e));
            }
        }
        for (Map<String, Object> v : all("incomplete")) {
            byte[] wire = bytes(v.get("hex"));
            if (v.get("of").equals("preface")) {
                assertNull(Preface.decode(ByteBuffer.wrap(wire)));
            } else {
                assertTrue(decode(wire, 1).isEmpty());
            }
        }
    }

    @Test
    public void afterAnErrorNothingMoreIsHeard() throws Exception {
        FrameReader reader = new FrameReader();
        Heard heard = new Heard();
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

    /** A lambda becomes an invokedynamic, whose constant Android 5 does not know; the signatures do not see it. */
    @Test
    public void noClassHasALambda() throws Exception {
        File[] classes = new File(System.getProperty("classes"), "org/alcc/inband").listFiles();
        assertTrue(classes.length > 5);
        for (File file : classes) {
            String content = new String(Files.readAllBytes(file.toPath()), StandardCharsets.ISO_8859_1);
            assertFalse(file.getName(), content.contains("BootstrapMethods"));
            Class<?> type = Class.forName("org.alcc.inband." + file.getName().replace(".class", ""));
            for (java.lang.reflect.Method method : type.getDeclaredMethods()) {
                assertFalse(method.toString(), method.isDefault());
            }
        }
    }
}
