// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

/** Smallest or largest value over a sliding window of time, in at most 129 entries. */
final class Windowed {
    private final boolean largest;
    private final long[] times = new long[MINIMUM_BUCKETS + 1];
    private final long[] values = new long[MINIMUM_BUCKETS + 1];
    private int first;
    private int count;

    Windowed(boolean largest) {
        this.largest = largest;
    }

    private int at(int i) {
        int at = first + i;
        return at < times.length ? at : at - times.length;
    }

    /** Takes a value and drops what is older than {@code window}, nanoseconds. The newest value always stays. */
    void insert(long now, long value, long window) {
        while (count > 0 && (largest ? values[at(count - 1)] <= value : values[at(count - 1)] >= value)) {
            count--;
        }
        while (count > 0 && now - times[first] > window) {
            first = at(1);
            count--;
        }
        boolean apart = count == 0 || now - times[at(count - 1)] > window / MINIMUM_BUCKETS;
        if (apart && count < times.length) {
            times[at(count)] = now;
            values[at(count)] = value;
            count++;
        }
    }

    boolean isEmpty() {
        return count == 0;
    }

    /** 0 before the first value. */
    long get() {
        return count == 0 ? 0 : values[first];
    }

    void clear() {
        count = 0;
    }
}
