// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

/** Arithmetic that several algorithms share. */
final class Parts {
    /** Largest window, bytes: more than any path holds. */
    private static final long MAX_WINDOW = 1L << 40;
    private static final double MIN_RATE = 8e3;
    private static final double MAX_RATE = 1e12;

    private Parts() { }

    /** A window in packets as bytes: at least a segment. */
    static long windowBytes(double packets, long mss) {
        return Math.max(Math.min((long) (mss * packets), MAX_WINDOW), mss);
    }

    /** Packets per second as bits per second. */
    static long pacingRate(double packets, long mss) {
        return (long) Math.min(Math.max(packets * mss * 8, MIN_RATE), MAX_RATE);
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
