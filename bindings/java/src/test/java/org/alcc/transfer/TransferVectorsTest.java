// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.transfer;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.alcc.Json;
import org.junit.Test;

/** alcc/transfer/tests/transfer-format-vectors.json, which Rust checks as well. */
public class TransferVectorsTest {
    private static List<Object> vectors(String name) throws Exception {
        byte[] text = Files.readAllBytes(Paths.get(System.getProperty("root"), "alcc/transfer/tests/transfer-format-vectors.json"));
        return Json.list(Json.parse(new String(text, StandardCharsets.UTF_8)).get(name));
    }

    private static byte[] bytes(Object hex) {
        byte[] bytes = new byte[((String) hex).length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(((String) hex).substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    /** Gives its bytes one at a time. */
    private static final class Slow extends InputStream {
        private final InputStream all;

        Slow(byte[] bytes) {
            all = new ByteArrayInputStream(bytes);
        }

        @Override public int read() throws java.io.IOException {
            return all.read();
        }

        @Override public int read(byte[] into, int at, int n) throws java.io.IOException {
            return all.read(into, at, Math.min(n, 1));
        }
    }

    @Test
    public void streamsWholeAndByTheByte() throws Exception {
        int right = 0;
        for (Object each : vectors("streams")) {
            Map<String, Object> v = Json.map(each);
            for (boolean slow : new boolean[] {false, true}) {
                byte[] wire = bytes(v.get("hex"));
                ByteArrayOutputStream content = new ByteArrayOutputStream();
                Object error = null;
                MessageDigest hash = MessageDigest.getInstance("SHA-256");
                long[] bytes = {0};
                if (v.get("earlier") != null) {
                    byte[] earlier = bytes(v.get("earlier"));
                    hash.update(earlier);
                    bytes[0] = earlier.length;
                }
                try {
                    Transfer.read(slow ? new Slow(wire) : new ByteArrayInputStream(wire), content, 1 << 20, hash, bytes,
                        true);
                } catch (TransferException e) {
                    error = e.kind().name().toLowerCase(Locale.ROOT).replace('_', '-');
                }
                String name = v.get("name") + ", slow " + slow;
                assertEquals(name, v.get("error"), error);
                String hex = content.size() == 0 ? "" : new BigInteger(1, content.toByteArray()).toString(16);
                assertEquals(name, v.get("content"), hex);
                right += error == null ? 1 : 0;
            }
        }
        assertTrue(right >= 8);
    }

    @Test
    public void answers() throws Exception {
        for (Object each : vectors("answers")) {
            Map<String, Object> v = Json.map(each);
            String found = "good";
            try {
                Transfer.Answer answer = Transfer.answer(new Slow(bytes(v.get("hex"))));
                found = answer.part ? "part" : found;
                assertEquals(v.get("name").toString(), ((Number) v.get("bytes")).longValue(), answer.bytes);
            } catch (TransferException e) {
                found = e.kind().name().toLowerCase(Locale.ROOT).replace('_', '-');
            }
            Object want = v.get("verdict") == null ? "answer" : v.get("verdict");
            assertEquals(v.get("name").toString(), want, found);
        }
    }
}
