// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.nio.ByteBuffer;
import org.alcc.cc.Controller;

/** The sending direction of a session. */
final class Sending {
    private static final int OVERHEAD = 8;
    /** A frame at most: it holds back the answers behind it. */
    private static final int MAX_FRAME = 16 * 1024;
    /** Interval of paced bursts, nanoseconds: a wake-up for each packet would cost more. */
    private static final long PACING_INTERVAL = 5_000_000;
    /** Maximum time that acknowledgements wait to be read together, nanoseconds, and its part of a round trip. */
    private static final long MAX_READ_INTERVAL = 5_000_000;
    private static final int READS_PER_ROUND = 4;
    /** With less under way acknowledgements are few. */
    private static final int BULK = 32 * 1024;
    private static final byte[] NO_TAG = new byte[0];
    private static final long MAX_48 = (1L << 48) - 1;
    private static final int MAX_24 = (1 << 24) - 1;
    /** State of CLOSE: not requested; requested; sent. */
    private static final int OPEN = 0;
    private static final int WANTED = 1;
    private static final int SENT = 2;

    private final Settings settings;
    private final int segment;
    private Flow flow;
    private long credit;
    private int ending = OPEN;
    private long dataEnd;
    private long busySince;
    /** The pacer's, bytes; the first burst is free. */
    private double tokens = Double.MAX_VALUE;
    private long tokensAt;
    private long pacedUntil = Controller.NONE;
    /** The last output left data behind. */
    private boolean backlogged;
    private long sent;
    private final PeerClock clock = new PeerClock();
    private final long[] positions = new long[Ack.MAX_STEPS + 2];
    private final long[] times = new long[Ack.MAX_STEPS + 2];

    Sending(int segment, Settings settings, long now) {
        this.segment = segment;
        this.settings = settings;
        tokensAt = now;
        busySince = now;
    }

    void open(long now, long peersCredit) {
        credit = peersCredit < 0 ? MAX_48 : Math.min(peersCredit, MAX_48);
        flow = new Flow(settings.controller, now, segment, settings.seed);
    }

    /** Null before the peer's preface. */
    Flow flow() {
        return flow;
    }

    int segment() {
        return segment;
    }

    long position() {
        return flow == null ? 0 : flow.written();
    }

    long sent() {
        return sent;
    }

    long busySince() {
        return busySince;
    }

    boolean isWaiting() {
        return flow != null && !flow.isIdle();
    }

    boolean isBlocked() {
        return flow == null || flow.isBlocked() || pacedUntil != Controller.NONE;
    }

    void end() {
        if (ending == OPEN) {
            ending = WANTED;
        }
    }

    boolean isEnding() {
        return ending != OPEN;
    }

    boolean isEndAcknowledged() {
        return ending == SENT && flow.inFlight() == 0;
    }

    boolean isDataAcknowledged() {
        return ending == SENT ? flow.acked() >= dataEnd : ending == OPEN && flow.inFlight() == 0;
    }

    void timer(long now) {
        flow.timer(now);
        flow.unblock();
        if (pacedUntil <= now) {
            pacedUntil = Controller.NONE;
        }
    }

    long nextTimer() {
        return flow == null ? pacedUntil : Math.min(pacedUntil, flow.nextTimer());
    }

    /** The error in the acknowledgement; null if there is none. */
    String acknowledged(long since, long at, long now, Ack ack) {
        if (flow == null) {
            return "an acknowledgement before the preface";
        }
        long before = flow.acked();
        if (ack.position() > flow.written()) {
            return "it acknowledges " + ack.position() + ", but only " + flow.written() + " was sent";
        }
        if (ack.position() < before) {
            return "an acknowledgement that goes back";
        }
        credit = Math.max(credit, ack.position() + ack.window() * 1024L);
        // The peer's times in our clock: from its last instant to our hearing of it the frame was under way, or held.
        int[] steps = ack.steps();
        int first = positions.length - 1;
        long time = Math.max(clock.arrival(since, at, ack) - ack.hold() * 1000L, 0);
        long position = ack.position();
        positions[first] = position;
        times[first] = time;
        for (int i = 0; i < steps.length; i += 2) {
            time = Math.max(time - steps[i + 1] * 1000L, 0);
            position = Math.max(position - steps[i], before);
            first--;
            positions[first] = position;
            times[first] = time;
        }
        // What came before the oldest instant came at that instant.
        first--;
        positions[first] = before;
        times[first] = time;
        int n = positions.length - first;
        System.arraycopy(positions, first, positions, 0, n);
        System.arraycopy(times, first, times, 0, n);
        flow.acknowledged(now, positions, times, n, ack.hold() < MAX_24);
        flow.unblock();
        return null;
    }

    boolean isBulk() {
        return flow != null && flow.inFlight() >= BULK;
    }

    long readInterval() {
        return Math.min(flow.smoothed() / READS_PER_ROUND, MAX_READ_INTERVAL);
    }

    /** Bytes that the pacer permits now. */
    private long pace(long now) {
        long rate = flow.rate();
        if (rate <= 0) {
            return Long.MAX_VALUE;
        }
        double perNano = rate / 8e9;
        double gained = (now - tokensAt) * perNano;
        double burst = Math.max(flow.burst(), perNano * PACING_INTERVAL);
        // Who had more to send and comes late, as it waited for a processor, sends what its pace was meanwhile.
        tokens = Math.min(tokens + gained, backlogged ? Math.max(burst, gained) : burst);
        tokensAt = now;
        if (tokens >= segment) {
            return (long) tokens;
        }
        // Not for one segment alone, if the rate is for more.
        double missing = Math.max(perNano * PACING_INTERVAL / 2, segment) - tokens;
        pacedUntil = now + Math.max((long) Math.ceil(missing / perNano), 50_000);
        return 0;
    }

    int output(long now, byte[] from, int at, int n, ByteBuffer out, int begin) {
        int taken = 0;
        if (n > 0 && ending != SENT) {
            taken = frames(now, from, at, n, out, begin);
            backlogged = taken < n;
        }
        if (ending == WANTED && taken == n && out.remaining() > OVERHEAD) {
            int before = out.position();
            FrameWriter.close(out, flow.written(), 0, "");
            wrote(now, out.position() - before);
            dataEnd = flow.written() - (out.position() - before);
            ending = SENT;
        }
        return taken;
    }

    private void wrote(long now, long bytes) {
        if (flow.inFlight() == 0) {
            busySince = now;
        }
        flow.wrote(now, bytes);
    }

    private int frames(long now, byte[] from, int at, int n, ByteBuffer out, int begin) {
        long paced = pace(now);
        if (flow.isBlocked()) {
            return 0;
        }
        int most = MAX_FRAME - OVERHEAD;
        if (flow.inFlight() == 0) {
            busySince = now;
        }
        long wanted = n + (n + most - 1L) / most * OVERHEAD;
        long allowed = flow.room(now, wanted);
        if (paced < Math.min(wanted, allowed)) {
            flow.paced();
        }
        long mayUse = Math.max(credit - flow.written(), 0);
        long room = Math.min(Math.min(allowed, paced), Math.min(mayUse, out.remaining() - 16));
        // With nothing under way no acknowledgement will bring more credit: less than a segment is all there is.
        boolean last = room < segment && room == mayUse && flow.inFlight() == 0;
        if (room < wanted && !last) {
            // Whole segments, with what precedes them in the same write.
            room -= room % segment;
            int ahead = (out.position() - begin) % segment;
            room = Math.max(room - (room > segment ? ahead : 0), 0);
        }
        int taken = 0;
        long framed = 0;
        while (taken < n && room > OVERHEAD) {
            int payload = (int) Math.min(Math.min(n - taken, most), room - OVERHEAD);
            FrameWriter.data(out, flow.written() + framed, NO_TAG, payload);
            out.put(from, at + taken, payload);
            taken += payload;
            framed += payload + OVERHEAD;
            room -= payload + OVERHEAD;
        }
        if (framed > 0) {
            wrote(now, framed);
            tokens -= framed;
            sent += taken;
        }
        return taken;
    }
}
