// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertNotNull;
import static org.junit.Assert.assertNull;
import static org.junit.Assert.assertTrue;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.junit.Test;

/** The client against a listener made of this test, in virtual time. */
public class SessionTest {
    private static final long MS = 1_000_000;
    private static final long ID = 7;
    /** The listener's clock is behind by this. */
    private static final long BEHIND = 123_456_789_000L;
    private static final long ONE_WAY = 5 * MS;

    private final Plan plan = new Plan(Plan.Mode.CONSTANT, 200, 28, 1000 * MS, 100 * MS, 10 * MS, 4 * MS, 0);
    private long now = 1_000_000 * MS;
    private Session session = new Session(ID, plan, 1000, now);
    private long startAt;
    private byte[] recording = new byte[0];
    private int pings;
    private int data;
    private int byes;
    /** Every {@code lost}th answer is lost; 0: none. */
    private int lost;
    private int answers;
    /** The listener answers no request. */
    private boolean silent;

    private Packet answer(int type, Packet to) {
        Packet packet = new Packet(type, ID);
        packet.sent = now + ONE_WAY - BEHIND;
        packet.echoSent = to == null ? 0 : to.sent;
        packet.echoReceived = now + ONE_WAY - BEHIND;
        return packet;
    }

    private void deliver(Packet packet) {
        answers++;
        if (lost == 0 || answers % lost != 0) {
            session.handle(now + 2 * ONE_WAY, packet);
        }
    }

    /** Runs until a phase, or for this time. */
    private void run(Session.Phase until, long ms) {
        ByteBuffer out = ByteBuffer.allocate(Plan.MAX_SIZE);
        for (long end = now + ms * MS; now < end && session.phase() != until; now += MS) {
            for (out.clear(); session.poll(now, out); out.clear()) {
                out.flip();
                Packet packet = Packet.decode(out);
                assertNotNull(packet);
                if (packet.type == Packet.PING) {
                    pings++;
                    if (packet.synced && startAt == 0) {
                        startAt = now - BEHIND + 500 * MS;
                    }
                    Packet pong = answer(Packet.PONG, packet);
                    pong.startAt = startAt;
                    deliver(pong);
                } else if (packet.type == Packet.DATA) {
                    assertEquals(data++, packet.seq);
                    assertEquals(plan.size, out.limit());
                } else if (packet.type == Packet.GET && !silent) {
                    part(packet.part, packet);
                } else if (packet.type == Packet.BYE) {
                    byes++;
                }
            }
        }
    }

    private int parts() {
        return (recording.length + 151) / 152;
    }

    private void part(int n, Packet get) {
        Packet part = answer(Packet.PART, get);
        part.part = n;
        part.parts = parts();
        int from = n * 152;
        part.bytes = java.util.Arrays.copyOfRange(recording, from, Math.min(from + 152, recording.length));
        deliver(part);
    }

    private static byte[] recording(int arrivals) {
        Recorded all = new Recorded();
        all.to = 1000 * MS;
        all.sent = 110;
        for (int i = 0; i < arrivals; i++) {
            all.add(i, i * 4 * MS, i * 4 * MS);
        }
        return all.encode();
    }

    @Test
    public void aRecordingFromTheFirstPingToTheLastBye() {
        lost = 7;
        recording = recording(250);
        run(Session.Phase.RECORDING, 5000);
        assertEquals(Session.Phase.RECORDING, session.phase());
        assertTrue("" + pings, pings >= 25);
        Packet load = answer(Packet.DATA, null);
        load.report = new Packet.Report();
        run(Session.Phase.DRAINING, 800);
        load.sent = now - ONE_WAY - BEHIND;
        for (long seq : new long[] {4, 6, 5, 6, Long.MIN_VALUE, 1L << 60}) {
            load.seq = seq;
            session.handle(now, load);
        }
        run(Session.Phase.DONE, 10_000);
        run(null, 100);
        assertEquals(3, byes);
        Recording result = session.recording();
        assertTrue(result.isComplete());
        assertEquals(250, result.up.count());
        assertEquals(249 * 4 * MS, result.up.came(249));
        assertEquals(3, result.down.count());
        assertEquals(3, result.down.copies);
        assertEquals(ONE_WAY + BEHIND, result.down.came(0) - result.down.sentAt(0));
        // Warm-up and duration, a packet each 4 ms.
        assertEquals(275, result.down.sent);
        assertEquals(275, data);
        // Both ends begin at one moment.
        assertEquals(startAt + BEHIND + plan.warmUp, result.down.from, 0.5 * MS);
    }

    @Test
    public void partsThatCannotBeAreIgnored() {
        recording = recording(250);
        silent = true;
        run(Session.Phase.FETCHING, 60_000);
        // The first request goes out in the moment in which the phase begins.
        assertEquals(Session.Phase.FETCHING, session.phase());
        silent = false;
        List<Packet> wrong = new ArrayList<Packet>();
        int[][] numbers = {{0, 0}, {0, -1}, {-1, 5}, {5, 5}, {0, Integer.MAX_VALUE}, {0, 1 << 20}};
        for (int[] each : numbers) {
            Packet part = answer(Packet.PART, null);
            part.part = each[0];
            part.parts = each[1];
            part.bytes = new byte[152];
            wrong.add(part);
        }
        for (int length : new int[] {0, 151, 153, 60_000}) {
            Packet part = answer(Packet.PART, null);
            part.parts = 2;
            part.bytes = new byte[length];
            wrong.add(part);
        }
        for (Packet part : wrong) {
            session.handle(now, part);
        }
        run(Session.Phase.DONE, 10_000);
        assertTrue(session.recording().isComplete());
    }

    @Test
    public void aRecordingThatIsNoneIsNotComplete() {
        recording = new byte[] {-1, -1, -1};
        run(Session.Phase.DONE, 60_000);
        assertEquals(Session.Phase.DONE, session.phase());
        assertNull(session.recording().up);
        assertFalse(session.recording().isComplete());
    }

    @Test
    public void aStartBeyondReasonIsIgnored() {
        for (long start : new long[] {1, -1, Long.MIN_VALUE, Long.MAX_VALUE, 5_000_000 * MS}) {
            startAt = start;
            run(Session.Phase.RECORDING, 200);
            assertEquals("" + start, Session.Phase.SYNC, session.phase());
        }
    }

    @Test
    public void memoryHasItsBound() {
        session = new Session(ID, plan, 10, now);
        run(Session.Phase.RECORDING, 5000);
        run(Session.Phase.DRAINING, 800);
        Packet load = answer(Packet.DATA, null);
        load.report = new Packet.Report();
        for (int i = 0; i < 1000; i++) {
            load.seq = i;
            session.handle(now, load);
        }
        session.stop();
        Recording result = session.recording();
        assertEquals(Recording.End.STOPPED, result.end);
        assertEquals(10, result.down.count());
        assertEquals(990, result.down.beyond);
        assertEquals(990, result.missed());
    }

    @Test
    public void silenceEndsIt() {
        lost = 1;
        run(Session.Phase.DONE, 25_000);
        assertEquals(Recording.End.SILENT, session.recording().end);
        assertEquals(1_000_000 * MS + 20_000 * MS, now, 2 * MS);
    }

    /** Reports of a stranger, or of a broken end: the rate stays between 1 Mbit/s and the limit. */
    @Test
    public void whateverIsReportedTheRateHasItsBounds() {
        long[] numbers = {0, 1, -1, Long.MIN_VALUE, Long.MAX_VALUE, 1_000_000};
        Plan saturate = Plan.saturate(3_600_000, 0);
        for (long n : numbers) {
            for (long m : numbers) {
                Source source = new Source(saturate, Plan.AS_MUCH_AS_FITS, 0, 3600_000 * MS);
                Packet.Report report = new Packet.Report();
                report.received = 1;
                report.delay = n;
                report.least = m;
                report.peak = n;
                report.rate = m;
                source.take(0);
                source.report(0, Math.max(n, 0), report);
                source.take(source.next());
                long before = source.next();
                source.take(before);
                long interval = source.next() - before;
                // 12,000 bits at 1 Gbit/s, and a packet each 50 ms.
                assertTrue(n + " " + m + ": " + interval, interval >= 12_000 && interval <= 50 * MS);
            }
        }
    }
}
