// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.record;

/** Arrivals in one direction, and the reports on them for the sender. */
final class Arrivals {
    /** Rates are of slots of this length, ns. */
    private static final long SLOT = 100_000_000;
    /** Number of slots of the peak rate, of those of the last minute; the present rate is over a second. */
    private static final int PEAK_SLOTS = 2;
    private static final int LAST_SLOTS = 10;
    private static final int SLOTS = 600;
    /** A packet so far behind the newest is taken for a copy. */
    private static final int WINDOW = 8192;
    /** No sender reaches a number beyond this. */
    private static final long MAX_SEQ = 1L << 48;

    private final Recorded to;
    private final int ipLength;
    private final int room;
    private final Packet.Report report = new Packet.Report();
    /** By number modulo the window: the number that has come, and one. */
    private final long[] seen = new long[WINDOW];
    private final long[] slots = new long[SLOTS];
    private int filled;
    private int next;
    private long slot;
    private long inSlot;

    /** Keeps what comes in {@code to}, at most {@code room} arrivals. */
    Arrivals(Recorded to, int ipLength, int room) {
        this.to = to;
        this.ipLength = ipLength;
        this.room = room;
    }

    void add(long seq, long sent, long now) {
        if (!isNew(seq)) {
            to.copies++;
            return;
        }
        long delay = now - sent;
        report.delay = delay;
        report.least = report.received == 0 ? delay : Math.min(report.least, delay);
        report.received++;
        to.received++;
        rate(now);
        if (now < to.from || now >= to.to) {
            return;
        }
        if (to.count() < room) {
            to.add(seq, sent, now);
        } else {
            to.beyond++;
        }
    }

    private boolean isNew(long seq) {
        if (seq < 0 || seq > MAX_SEQ || seq + WINDOW <= report.below) {
            return false;
        }
        int at = (int) (seq % WINDOW);
        if (seen[at] == seq + 1) {
            return false;
        }
        seen[at] = seq + 1;
        report.below = Math.max(report.below, seq + 1);
        return true;
    }

    private void rate(long now) {
        long present = now / SLOT;
        if (report.received == 1) {
            slot = present;
        }
        if (present > slot) {
            long passed = Math.min(present - slot, SLOTS);
            for (long n = 0; n < passed; n++) {
                slots[next] = n == 0 ? inSlot : 0;
                next = (next + 1) % SLOTS;
                filled = Math.min(filled + 1, SLOTS);
            }
            slot = present;
            inSlot = 0;
            long peak = 0;
            long last = 0;
            for (int back = 1; back <= filled; back++) {
                long two = slot(back) + (back < filled ? slot(back + 1) : 0);
                peak = Math.max(peak, two);
                last += back <= LAST_SLOTS ? slot(back) : 0;
            }
            report.peak = bitsPerSecond(peak, PEAK_SLOTS);
            report.rate = bitsPerSecond(last, LAST_SLOTS);
        }
        inSlot++;
    }

    private long slot(int back) {
        return slots[(next - back + SLOTS) % SLOTS];
    }

    private long bitsPerSecond(long packets, int over) {
        long tenths = Math.max(Math.min(over, filled), 1);
        return packets * ipLength * 8 * 10 / tenths;
    }

    /** The same object each time. */
    Packet.Report report() {
        return report;
    }
}
