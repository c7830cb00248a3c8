// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.util.Arrays;

/** Arrivals and their times, for the next acknowledgement. */
final class Arrivals {
    private static final int MAX_24 = (1 << 24) - 1;
    /** A shorter pause is not reported: the bytes after it count as evenly spread. */
    private static final long MAX_GAP = 2_000_000;

    /** Positions since the last acknowledgement, ascending; the first is its position. */
    private final long[] positions = new long[Ack.MAX_STEPS + 1];
    private final long[] times = new long[Ack.MAX_STEPS + 1];
    private int count;
    private long told;
    private long position;

    /** @return all counted frames have arrived up to here */
    long position() {
        return position;
    }

    /** @return bytes that no acknowledgement has reported */
    long untold() {
        return position - told;
    }

    /** @return true if there is no room for the times of another reading */
    boolean isFull() {
        return count + 3 > Ack.MAX_STEPS;
    }

    /** These bytes came after {@code since} and not later than {@code at}, nanoseconds. */
    void arrived(long reached, long since, long at) {
        long before = position;
        long last = count == 0 ? 0 : times[count - 1];
        long until = Math.max(at, last);
        long from = Math.min(Math.max(since, last), until);
        position = reached;
        if (count == 0 || from > last + MAX_GAP) {
            note(before, from);
        } else if (until == last && count > 1) {
            count--;
        }
        note(reached, until);
    }

    private void note(long reached, long at) {
        if (count == positions.length) {
            // The newest gives way: its bytes count as come a little later.
            count--;
        }
        positions[count] = reached;
        times[count] = at;
        count++;
    }

    private static int micros(long nanos) {
        return (int) Math.min(nanos / 1000, MAX_24);
    }

    /**
     * The acknowledgement of all that has arrived.
     *
     * @param now nanoseconds
     * @param edge position up to which the peer may send
     */
    Ack ack(long now, long edge) {
        long at = count == 0 ? now : times[count - 1];
        int window = (int) Math.min(Math.max(edge - position, 0) / 1024, MAX_24);
        int[] told = new int[2 * Math.max(count - 1, 0)];
        // What remains below the last step came at its instant, so one that takes no time says nothing.
        int length = 0;
        for (int i = 0; i < told.length; i += 2) {
            int newer = count - 1 - i / 2;
            told[i] = (int) Math.min(positions[newer] - positions[newer - 1], MAX_24);
            told[i + 1] = micros(times[newer] - times[newer - 1]);
            if (told[i + 1] > 0) {
                length = i + 2;
            }
        }
        this.told = position;
        count = 0;
        return new Ack(position, window, at / 1000 & 0xffffffffL, micros(now - at), Arrays.copyOf(told, length));
    }
}
