// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

/** Arithmetic that several algorithms share. */
final class Parts {
    private Parts() { }

    /** A window in packets as bytes: at least a segment. */
    static long windowBytes(double packets, long mss) {
        return Math.max(Math.min((long) (mss * packets), PARTS_LARGEST), mss);
    }

    /** Packets per second as bits per second. */
    static long pacingRate(double packets, long mss) {
        return (long) Math.min(Math.max(packets * mss * 8, PARTS_SLOWEST), PARTS_FASTEST);
    }

    /** Segments that a record stands for. */
    static long segments(long length, long mss) {
        return Math.min(Math.max((length + mss / 2) / mss, 1), 1 << 16);
    }

    /**
     * True if the window limited the sender. Growth is allowed only then: an untested window says nothing about the
     * path (RFC 9002, section 7.8).
     */
    static boolean isWindowUsed(AckBatch batch, long window) {
        boolean elsewhere = (batch.isLimitedByApplication() || batch.isLimitedByQuota()) && !batch.isLimitedByWindow();
        return !elsewhere && batch.inFlightBefore() * 2 >= window;
    }
}
