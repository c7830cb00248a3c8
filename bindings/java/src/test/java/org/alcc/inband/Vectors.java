// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertFalse;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.alcc.Json;

/** A file of vectors, and frames in its words. */
final class Vectors {
    private final Map<String, Object> vectors;

    private Vectors(String file) throws IOException {
        byte[] text = Files.readAllBytes(Paths.get(System.getProperty("root"), "alcc/inband/tests", file));
        vectors = Json.parse(new String(text, StandardCharsets.UTF_8));
    }

    static Vectors wireFormat() throws IOException {
        return new Vectors("wire-format-vectors.json");
    }

    Map<String, Object> one(String name) {
        return Json.map(vectors.get(name));
    }

    /** The vectors of this name; a name that is gone is not a passed test. */
    List<Map<String, Object>> all(String name) {
        List<Map<String, Object>> all = new ArrayList<Map<String, Object>>();
        for (Object vector : Json.list(vectors.get(name))) {
            all.add(new LinkedHashMap<String, Object>(Json.map(vector)));
        }
        assertFalse(name, all.isEmpty());
        return all;
    }

    static byte[] bytes(Object hex) {
        String digits = hex == null ? "" : (String) hex;
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    static String hex(byte[] bytes) {
        StringBuilder digits = new StringBuilder();
        for (byte b : bytes) {
            digits.append(String.format("%02x", b & 255));
        }
        return digits.toString();
    }

    /** Frames in the words of the vectors. */
    static final class Heard implements FrameSink {
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

    static List<Map<String, Object>> decode(byte[] wire, int piece) throws AlccException {
        FrameReader reader = new FrameReader();
        Heard heard = new Heard();
        for (int at = 0; at < wire.length; at += piece) {
            reader.feed(ByteBuffer.wrap(wire, at, Math.min(piece, wire.length - at)), heard);
        }
        return heard.frames;
    }
}
