// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.io.IOException;
import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.alcc.Json;
import org.junit.Test;

/** alcc/flow/tests/controller_vectors/vectors.json: inputs and outputs of Rust's algorithms. */
public class ControllerVectorsTest {
    /** The logarithms of two languages may differ in the last bit; bytes and bits per second are rounded down. */
    private static final double TOLERANCE = 1e-9;
    private static final long ROUNDING = 1;

    private static Controller controller(String name) {
        switch (name) {
            case "fixed":
                return new Fixed(20);
            case "fixed:window=12":
                return new Fixed(12);
            case "mdi":
                return new Mdi();
            case "copa":
                return new Copa();
            case "copa:delta=0.5":
                return new Copa(0.5);
            case "budget":
                return new Budget();
            case "budget:delay=100ms":
                return new Budget(100);
            default:
                throw new AssertionError("no such algorithm here: " + name);
        }
    }

    private static long number(List<Object> event, int i) {
        return (Long) event.get(i);
    }

    /** One flow. */
    private static final class Replay {
        final Controller cc;
        final String name;
        final long start;
        final AckBatch batch = new AckBatch();
        long now;
        int answers;

        Replay(String name, long start) {
            cc = controller(name);
            this.name = name;
            this.start = start;
            now = start;
        }

        void event(List<Object> event, String where) {
            String kind = (String) event.get(0);
            if (!kind.equals("is")) {
                now += number(event, 1);
            }
            switch (kind) {
                case "start":
                    cc.start(now, (int) number(event, 2), number(event, 3));
                    break;
                case "sent":
                    for (long i = 0; i < number(event, 2); i++) {
                        long before = number(event, 4) + i * number(event, 3);
                        assertEquals(where, number(event, 5), cc.sent(now, number(event, 3), before));
                    }
                    break;
                case "ack":
                    acked(event);
                    break;
                case "idle":
                    cc.idle(now, number(event, 2));
                    break;
                case "timer":
                    assertTrue(where, cc.nextTimer() <= now);
                    cc.timer(now);
                    break;
                case "is":
                    is(event, where);
                    break;
                default:
                    throw new AssertionError(where + ": " + kind);
            }
        }

        private void acked(List<Object> event) {
            batch.begin(number(event, 2));
            for (int i = 6; i < event.size(); i += 3) {
                batch.add(number(event, i), now - number(event, i + 1), 0, number(event, i + 2));
            }
            long by = number(event, 4);
            batch.limited((by & 1) != 0, (by & 2) != 0, (by & 4) != 0, (by & 8) != 0);
            batch.end(number(event, 3), number(event, 5));
            cc.acked(now, batch);
        }

        private void is(List<Object> event, String where) {
            answers++;
            long timer = cc.nextTimer() == Controller.NONE ? -1 : cc.nextTimer() - start;
            near(where + " window", number(event, 1), cc.window());
            near(where + " quota", number(event, 2), cc.quota() == Controller.NONE ? -1 : cc.quota());
            near(where + " rate", number(event, 3), cc.rate());
            // Not paced, not asked for.
            near(where + " burst", number(event, 3) == 0 ? 0 : number(event, 4), cc.rate() == 0 ? 0 : cc.burst());
            assertEquals(where + " timer", number(event, 5), timer);
        }

        private static void near(String where, long want, long found) {
            assertTrue(where + " is " + found + ", not " + want,
                Math.abs(want - found) <= ROUNDING + TOLERANCE * Math.abs(want));
        }
    }

    @Test
    public void algorithmsAnswerAsInRust() throws Exception {
        byte[] text = Files.readAllBytes(Paths.get(System.getProperty("root"), "alcc/flow/tests/controller_vectors/vectors.json"));
        Map<String, Object> vectors = Json.parse(new String(text, StandardCharsets.UTF_8));
        Map<String, Integer> answers = new LinkedHashMap<String, Integer>();
        int packets = 0;
        for (Object each : Json.list(vectors.get("cases"))) {
            Map<String, Object> v = Json.map(each);
            if (v.get("host").equals("packets")) {
                // A controller here stands over TCP and hears of no loss.
                packets++;
                continue;
            }
            assertEquals("stream", v.get("host"));
            Replay replay = new Replay((String) v.get("algorithm"), (Long) v.get("start"));
            int i = 0;
            for (Object event : Json.list(v.get("events"))) {
                replay.event(Json.list(event), replay.name + " event " + i++);
            }
            Integer before = answers.get(replay.name);
            answers.put(replay.name, replay.answers + (before == null ? 0 : before));
        }
        assertTrue(packets + " of packets", packets > 10);
        assertEquals(7, answers.size());
        assertTrue(answers.toString(), answers.get("mdi") > 1000 && answers.get("budget") > 50);
    }

    @Test
    public void theNumbersOfSplitMix64() {
        // The first of seed 1234567, as the authors publish them.
        Random64 random = new Random64(1234567);
        assertEquals(6457827717110365317L, random.next());
        assertEquals(3203168211198807973L, random.next());
    }

    private static String wrong(String table) {
        try {
            Matrix.parse(new StringReader(table));
            return "";
        } catch (IOException e) {
            assertFalse(e.getMessage(), e.getMessage().contains("\n"));
            return e.getMessage();
        }
    }

    @Test
    public void aTableInItsPublishedFormIsReadAndAWrongOneIsRefusedWithItsLine() throws Exception {
        String header = "2,0,10,10,1,0,0,1\n";
        Matrix matrix = Matrix.parse(new StringReader(header + "0.25,0.75\n0,0\n"));
        assertEquals(0.0, matrix.draw(0, 0, 0, 0.2499), 0);
        assertEquals(10.0, matrix.draw(0, 0, 0, 0.25), 0);
        // Never seen: as the nearest change of the window that was.
        assertEquals(10.0, matrix.draw(0, 1, 0, 0.9), 0);
        assertTrue(wrong("").startsWith("line 1: ''"));
        assertTrue(wrong("2,0,10,5,1,0,0,1\n").startsWith("line 1: '2,0,10,5"));
        assertTrue(wrong("4000,0,3999,1,1,0,0,1\n").contains("at most 2048 states"));
        assertTrue(wrong(header + "0.25,0.75\n").contains("the end after 1 states"));
        assertTrue(wrong(header + "0.25,0.75,0\n0,0\n").startsWith("line 2: 3 numbers"));
        assertTrue(wrong(header + "0.25,0.7\n0,0\n").startsWith("line 2: 2 probabilities"));
        assertTrue(wrong(header + "0.25,x\n0,0\n").startsWith("line 2: 'x'"));
        assertTrue(wrong(header + "0.25,NaN\n0,0\n").startsWith("line 2: 'NaN'"));
        assertTrue(wrong(header + "0.25,0.75\n0,0\n0,0\n").startsWith("line 4: one more line"));
    }

    private static String wrongLevels(String table) {
        try {
            Levels.parse(new StringReader(table));
            return "";
        } catch (IOException e) {
            assertFalse(e.getMessage(), e.getMessage().contains("\n"));
            return e.getMessage();
        }
    }

    @Test
    public void eachLevelHasATableOfItsOwnAndOneTableIsOneLevel() throws Exception {
        String header = "2,0,10,10,1,0,0,1\n";
        String low = "1,0\n1,0\n";
        String high = "0,1\n0,1\n";
        Levels levels = Levels.parse(new StringReader("levels,1.5,3\n" + header + low + high + low));
        double[] ratios = {1, 1.5, 1.6, 3, 3.1};
        double[] want = {0, 0, 10, 10, 0};
        for (int i = 0; i < ratios.length; i++) {
            assertEquals(want[i], levels.at(ratios[i]).draw(0, 0, 0, 0.5), 0);
        }
        assertEquals(10.0, Levels.parse(new StringReader(header + high)).at(99).draw(0, 0, 0, 0.5), 0);
        for (String bad : new String[] {"", "1", "2,2", "3,2", "x", "NaN", "2,"}) {
            assertTrue(bad, wrongLevels("levels," + bad + "\n" + header).startsWith("line 1: 'levels," + bad + "'"));
        }
        assertTrue(wrongLevels("levels,2\n" + header + low).startsWith("line 5: the end after 0 states"));
        assertTrue(wrongLevels("levels,2\n" + header + low + high + low).startsWith("line 7: one more line"));
        assertTrue(wrongLevels("levels,2,3\n1000,0,999,1,1,0,0,1\n").contains("at most 2048 together"));
    }

    /** The target is a microsecond; a loaded machine is no reason to fail. */
    @Test
    public void aDecisionOfMdiIsShort() {
        Mdi mdi = new Mdi();
        mdi.start(0, 1448, 1);
        AckBatch batch = new AckBatch();
        double best = Double.MAX_VALUE;
        long now = 0;
        for (int round = 0; round < 30; round++) {
            long began = System.nanoTime();
            for (int i = 0; i < 2000; i++) {
                now += 5_000_000;
                mdi.sent(now, 1448, 14480);
                batch.begin(14480);
                batch.add(1448, now - 40_000_000, 0, 40_000_000 + i % 7 * 3_000_000);
                batch.limited(true, false, false, false);
                batch.end(13032, 0);
                mdi.acked(now, batch);
                mdi.timer(now);
            }
            best = Math.min(best, (System.nanoTime() - began) / 2000.0);
        }
        assertTrue(best + " ns", best < 10_000);
        System.out.println("an event, a packet and a decision of MDI: " + Math.round(best) + " ns");
    }
}
