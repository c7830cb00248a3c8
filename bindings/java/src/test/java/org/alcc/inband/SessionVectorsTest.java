// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertArrayEquals;
import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.alcc.Json;
import org.alcc.cc.Fixed;
import org.junit.Test;

/** The conversations of alcc/inband/tests/wire-format-vectors.json, by whole sessions in virtual time. */
public class SessionVectorsTest {
    private static final byte[] NONE = new byte[0];

    private static Settings settings() {
        return new Settings(new Fixed(100)).segment(1448);
    }

    private static void hear(Session end, long now, byte[] wire, int piece) {
        for (int at = 0; at < wire.length; at += piece) {
            end.received(now, now, now, ByteBuffer.wrap(wire, at, Math.min(piece, wire.length - at)));
        }
    }

    private static byte[] say(Session end, long now, byte[] data) {
        ByteBuffer out = ByteBuffer.allocate(70_000);
        assertEquals(data.length, end.output(now, data, 0, data.length, out));
        return Arrays.copyOf(out.array(), out.position());
    }

    private static byte[] read(Session end, long now) {
        byte[] into = new byte[8192];
        return Arrays.copyOf(into, end.read(now, into, 0, into.length));
    }

    private static void contexts(int piece) throws Exception {
        for (Map<String, Object> v : Vectors.wireFormat().all("contexts")) {
            String name = v.get("name") + " by " + piece;
            Session end = new Session(false, 0, settings().receiveBuffer(((Long) v.get("buffer")).intValue()));
            hear(end, 1_000_000, new Preface(1 << 20, 5000, 1448, "").encode(), 1000);
            say(end, 2_000_000, new byte[((Long) v.get("sent")).intValue()]);
            long now = 50_000_000;
            hear(end, now, Vectors.bytes(v.get("hex")), piece);
            AlccException error = end.error();
            if (v.get("error") == null) {
                assertNull(name, error);
            } else {
                assertEquals(name, v.get("error"), error.kind().name().toLowerCase(java.util.Locale.ROOT));
                if (v.get("reason") != null) {
                    assertEquals(name, v.get("reason"), (long) error.reason());
                }
            }
            assertEquals(name, v.get("received"), Vectors.hex(read(end, now)));
            // If cut into bytes, an event may be reported at the first of them.
            Object close = null;
            Object told = 0L;
            for (Map<String, Object> frame : Vectors.decode(say(end, now + 30_000_000, NONE), 1000)) {
                if (frame.get("type").equals("close")) {
                    close = frame.get("reason");
                } else if (frame.get("type").equals("ack")) {
                    told = frame.get("position");
                }
            }
            assertEquals(name, v.get("close"), close);
            if (v.get("position") != null) {
                assertEquals(name, v.get("position"), told);
            }
        }
    }

    @Test
    public void framesInContext() throws Exception {
        contexts(10_000);
    }

    @Test
    public void framesInContextOneByteAtATime() throws Exception {
        contexts(1);
    }

    private static final class Flying {
        long due;
        int to;
        byte[] wire;
    }

    @Test
    public void theExchange() throws Exception {
        Map<String, Object> exchange = Vectors.wireFormat().one("exchange");
        Session[] ends = {new Session(true, 0, settings()), new Session(false, 0, settings())};
        ByteArrayOutputStream[] received = {new ByteArrayOutputStream(), new ByteArrayOutputStream()};
        List<Flying> flying = new ArrayList<Flying>();
        for (Object each : Json.list(exchange.get("steps"))) {
            Map<String, Object> step = Json.map(each);
            String does = (String) step.get("does");
            long us = (Long) step.get("at_us");
            int who = step.get("from").equals("opener") ? 0 : 1;
            for (Flying f : new ArrayList<Flying>(flying)) {
                if (f.due <= us) {
                    hear(ends[f.to], us * 1000, f.wire, 1);
                    assertNull(does, ends[f.to].error());
                    flying.remove(f);
                }
            }
            ends[who].timer(us * 1000);
            if (step.get("read") != null) {
                byte[] some = read(ends[who], us * 1000);
                assertEquals(does, step.get("read"), (long) some.length);
                received[who].write(some, 0, some.length);
            }
            if (Boolean.TRUE.equals(step.get("close"))) {
                ends[who].end();
            }
            Flying next = new Flying();
            next.due = us + (Long) exchange.get("one_way_us");
            next.to = 1 - who;
            next.wire = say(ends[who], us * 1000, Vectors.bytes(step.get("write")));
            assertEquals(does, step.get("hex"), Vectors.hex(next.wire));
            flying.add(next);
        }
        for (Flying f : flying) {
            hear(ends[f.to], f.due * 1000, f.wire, 10_000);
        }
        Map<String, Object> afterwards = Json.map(exchange.get("afterwards"));
        for (int i = 0; i < 2; i++) {
            Map<String, Object> then = Json.map(afterwards.get(i == 0 ? "opener" : "acceptor"));
            byte[] rest = read(ends[i], 1_000_000_000L);
            received[i].write(rest, 0, rest.length);
            assertArrayEquals(Vectors.bytes(then.get("received")), received[i].toByteArray());
            assertEquals(then.get("finished"), ends[i].isFinished());
            assertTrue(ends[i].isAtEnd());
            assertEquals(((Long) then.get("rtt_us")) * 1000, ends[i].stats().latestRtt());
        }
    }
}
