// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.util.Arrays;
import org.alcc.cc.AckBatch;
import org.alcc.cc.Controller;

/** Packets in flight in one direction, and the algorithm that controls them. No I/O and no clock. */
final class Flow {
    /** A write becomes no more records than this: the algorithm looks at each. */
    private static final int RECORDS_PER_WRITE = 8;
    /** Nor is one shorter than this part of what is under way: a finer grain of round trips decides nothing. */
    private static final int RECORDS_PER_FLIGHT = 16;
    /** Mean of the bytes that arrived without a report, over this time, nanoseconds. */
    private static final double UNHEARD_OVER = 100_000_000;
    /** Maximum delay of a peer's report: a longer pause is one of this program and not its usual lateness. */
    private static final long MAX_UNHEARD = 50_000_000;
    /** Number of records from which short ones share one, so that memory is bounded. */
    private static final int MAX_RECORDS = 8192;

    private final Controller controller;
    private final long mss;
    private final AckBatch batch = new AckBatch();
    private long now;
    /** The timer has run at this instant: what belongs before it makes a new one. */
    private boolean timerRan;

    /** Records under way, a ring: where each ends, when it left, what the algorithm attached. */
    private long[] ends = new long[16];
    private long[] sentAt = new long[16];
    private long[] tags = new long[16];
    private int first;
    private int count;
    private long written;
    private long acked;
    /** Position of the oldest record. */
    private long complete;
    /** Bytes arrived last then, or a flight began. */
    private long deliveredAt;
    private long ackedAt;
    private long lastSent;
    private boolean sentSinceIdle;

    private boolean blocked;
    private boolean byWindow;
    private boolean byQuota;
    private boolean byPacer;

    private long latest;
    private long smoothed;
    private long variance;
    private long smallest;
    /** The smallest of packets whose acknowledgement has a time of its own; 0: none yet. */
    private long exactSmallest;
    private long gateClosed;

    /**
     * Mean of the bytes that had arrived and were not reported yet: the peer reported late, or this program read late.
     */
    private double unheard;
    /** Reported since then: bytes times nanoseconds. */
    private double heardLate;
    private long heardAt;

    Flow(Controller controller, long now, int mss, long seed) {
        this.controller = controller;
        this.now = now;
        this.mss = mss;
        deliveredAt = now;
        ackedAt = now;
        heardAt = now;
        controller.start(now, mss, seed);
    }

    private void advance(long to) {
        if (to > now) {
            now = to;
            timerRan = false;
        }
    }

    long written() {
        return written;
    }

    long acked() {
        return acked;
    }

    long inFlight() {
        return written - acked;
    }

    boolean isBlocked() {
        return blocked;
    }

    boolean isIdle() {
        return !blocked && written == acked;
    }

    long rate() {
        return controller.rate();
    }

    long burst() {
        return controller.burst();
    }

    long window() {
        return controller.window();
    }

    long gateClosed() {
        return gateClosed;
    }

    /** @return nanoseconds; 0: no sample yet */
    long latest() {
        return latest;
    }

    long smoothed() {
        return smoothed;
    }

    long smallest() {
        return smallest;
    }

    /**
     * Maximum of unacknowledged bytes. The algorithm's window is for the path, so bytes that have left the path without
     * being reported are not in it. Otherwise an algorithm that computes its window from the rate would take the
     * lateness of this program, or of the peer, for a slower path, and send ever less.
     */
    private long limit() {
        long window = controller.window();
        return window + Math.min((long) unheard, Long.MAX_VALUE - window);
    }

    /**
     * {@code late}: of the bytes just reported, bytes times nanoseconds that they were in neither the path nor known.
     */
    private void heard(double late) {
        heardLate += late;
        long span = now - heardAt;
        if (span > 0) {
            unheard += Math.min((double) span / UNHEARD_OVER, 1) * (heardLate / span - unheard);
            heardLate = 0;
            heardAt = now;
        }
    }

    /** Whole segments that window and quota let go. */
    private long allowed() {
        timerRan = false;
        long quota = controller.quota() / mss;
        long window = Math.max(limit() / mss, 1);
        long segments = Math.min(Math.max(window - inFlight() / mss, 0), quota);
        return segments > Long.MAX_VALUE / mss ? Long.MAX_VALUE : segments * mss;
    }

    /** Number of {@code wanted} bytes that may leave; with fewer the flow is blocked until {@link #isWritable}. */
    long room(long at, long wanted) {
        advance(at);
        if (isIdle()) {
            resume();
            runTimer();
        }
        if (inFlight() + wanted <= mss) {
            return wanted;
        }
        long room = allowed();
        if (room >= wanted) {
            return wanted;
        }
        gateClosed++;
        blocked = true;
        boolean window = limit() - inFlight() < controller.quota();
        byWindow |= window;
        byQuota |= !window;
        return room;
    }

    private void resume() {
        if (!sentSinceIdle) {
            return;
        }
        long idle = now - Math.max(lastSent, ackedAt);
        if (idle > smoothed) {
            sentSinceIdle = false;
            controller.idle(now, idle);
        }
    }

    /** The pacing rate let go less than the window. */
    void paced() {
        byPacer = true;
    }

    /** A blocked writer has room for a write that is worth its wake-up. */
    boolean isWritable() {
        if (!blocked) {
            return false;
        }
        long segments = Math.min(Math.max(controller.window() / mss / 16, 1), 4);
        segments = Math.min(segments, Math.max(controller.quota() / mss, 1));
        return allowed() >= segments * mss;
    }

    void unblock() {
        if (isWritable()) {
            blocked = false;
        }
    }

    void wrote(long at, long bytes) {
        advance(at);
        lastSent = now;
        sentSinceIdle = true;
        long segments = (bytes + mss - 1) / mss;
        long parts = Math.max((segments + RECORDS_PER_WRITE - 1) / RECORDS_PER_WRITE,
            inFlight() / (RECORDS_PER_FLIGHT * mss));
        long step = Math.max(parts, 1) * mss;
        for (long remaining = bytes; remaining > 0; remaining -= Math.min(remaining, step)) {
            long length = Math.min(remaining, step);
            long before = inFlight();
            long tag = controller.sent(now, length, before);
            if (before == 0) {
                deliveredAt = now;
                heardAt = now;
            }
            written += length;
            record(length, tag);
        }
    }

    private void record(long length, long tag) {
        if (count >= MAX_RECORDS) {
            int last = at(count - 1);
            if (ends[last] - ends[at(count - 2)] < 4 * inFlight() / MAX_RECORDS) {
                ends[last] = written;
                tags[last] = tag;
                return;
            }
        }
        if (count == ends.length) {
            ends = unrolled(ends);
            sentAt = unrolled(sentAt);
            tags = unrolled(tags);
            first = 0;
        }
        int next = at(count);
        ends[next] = written;
        sentAt[next] = now;
        tags[next] = tag;
        count++;
    }

    private int at(int i) {
        return (first + i) & (ends.length - 1);
    }

    private long[] unrolled(long[] ring) {
        long[] larger = Arrays.copyOfRange(ring, first, first + 2 * ring.length);
        System.arraycopy(ring, 0, larger, ring.length - first, first);
        return larger;
    }

    /**
     * The peer acknowledges up to {@code positions[n - 1]}; each position was reached at its time, both ascending.
     * What lies between two came evenly between their times. {@code known}: the times say something.
     */
    void acknowledged(long at, long[] positions, long[] times, int n, boolean known) {
        advance(at);
        if (timerRan) {
            advance(now + 1);
        }
        long since = deliveredAt;
        long before = inFlight();
        long error = 0;
        double late = 0;
        boolean app = !blocked && !byWindow && !byQuota && !byPacer;
        batch.begin(before);
        for (int i = 0; i < n; i++) {
            int had = batch.count();
            long then = Math.min(Math.max(times[i], since), now);
            if (known && positions[i] > acked) {
                late += (positions[i] - acked) * (double) Math.min(now - then + (then - since) / 2, MAX_UNHEARD);
            }
            cover(since, then, positions[i], known);
            boolean exact = batch.count() == had + 1 && complete == positions[i];
            if (batch.count() > had && !exact) {
                error = Math.max(error, then - since);
            }
            since = then;
        }
        heard(late);
        int packets = batch.count();
        if (packets > 0) {
            if (known && complete == positions[n - 1]) {
                long rtt = Math.max(times[n - 1] - batch.sentAt(packets - 1), 1);
                exactSmallest = exactSmallest == 0 ? rtt : Math.min(exactSmallest, rtt);
            }
            for (int i = 0; i < packets; i++) {
                sample(batch.rtt(i));
            }
            batch.end(inFlight(), error);
            batch.limited(byWindow, byQuota, byPacer, app);
            byWindow = false;
            byQuota = false;
            byPacer = false;
            controller.acked(now, batch);
        }
        runTimer();
    }

    private void cover(long since, long at, long position, boolean known) {
        if (position <= acked) {
            return;
        }
        // Nothing is acknowledged sooner than the smallest round trip after it left. While that is not known, all came
        // at the end: a sample may be too long, but a minimum is never too short.
        long oldest = at;
        if (exactSmallest > 0) {
            oldest = count == 0 ? since : sentAt[first] + exactSmallest;
        }
        long from = Math.min(Math.max(since, oldest), at);
        double bytes = position - acked;
        while (count > 0 && ends[first] <= position) {
            double share = (ends[first] - acked) / bytes;
            long arrived = from + (long) ((at - from) * share);
            long rtt = Math.max(Math.max(arrived - sentAt[first], exactSmallest), 1);
            batch.add(ends[first] - complete, sentAt[first], tags[first], known ? rtt : 0);
            complete = ends[first];
            first = at(1);
            count--;
        }
        acked = position;
        ackedAt = at;
        deliveredAt = at;
    }

    /** RFC 6298, section 2. */
    private void sample(long rtt) {
        if (rtt == 0) {
            return;
        }
        latest = rtt;
        if (smoothed == 0) {
            smoothed = rtt;
            variance = rtt / 2;
            smallest = rtt;
            return;
        }
        variance = variance / 4 * 3 + Math.abs(smoothed - rtt) / 4;
        // Rounded like this it is never below the smallest.
        smoothed += (rtt - smoothed) / 8;
        smallest = Math.min(smallest, rtt);
    }

    void timer(long at) {
        advance(at);
        runTimer();
    }

    private void runTimer() {
        if (controller.nextTimer() <= now) {
            timerRan = true;
            controller.timer(now);
        }
    }

    long nextTimer() {
        return isIdle() ? Controller.NONE : controller.nextTimer();
    }
}
