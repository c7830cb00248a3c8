// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import java.util.Arrays;

/** Acknowledged packets, the oldest first. A host fills one again and again; a controller only reads it. */
public final class AckBatch {
    private long[] lengths = new long[16];
    private long[] sentAt = new long[16];
    private long[] tags = new long[16];
    private long[] rtts = new long[16];
    private int count;
    private long inFlightBefore;
    private long inFlight;
    private boolean limitedByWindow;
    private boolean limitedByQuota;
    private boolean limitedByPacer;
    private boolean limitedByApplication;
    private long rttError;

    /** An empty one. */
    public AckBatch() { }

    /**
     * For hosts: begins another batch.
     *
     * @param before bytes in flight before it
     */
    public void begin(long before) {
        count = 0;
        inFlightBefore = before;
    }

    /**
     * For hosts: all packets are in it.
     *
     * @param after bytes in flight after it
     * @param error bound on the error of the round-trip times, nanoseconds
     */
    public void end(long after, long error) {
        inFlight = after;
        rttError = error;
    }

    /**
     * For hosts: what limited the sender since the last batch.
     *
     * @param byWindow the controller's window
     * @param byQuota its quota
     * @param byPacer its rate
     * @param byApplication the application had no more data
     */
    public void limited(boolean byWindow, boolean byQuota, boolean byPacer, boolean byApplication) {
        limitedByWindow = byWindow;
        limitedByQuota = byQuota;
        limitedByPacer = byPacer;
        limitedByApplication = byApplication;
    }

    /**
     * For hosts: one packet more.
     *
     * @param length bytes
     * @param at when it was sent, nanoseconds
     * @param tag what the controller attached to it
     * @param rtt nanoseconds from sending to acknowledgement, at least 1; 0: not known
     */
    public void add(long length, long at, long tag, long rtt) {
        if (count == lengths.length) {
            lengths = Arrays.copyOf(lengths, 2 * count);
            sentAt = Arrays.copyOf(sentAt, 2 * count);
            tags = Arrays.copyOf(tags, 2 * count);
            rtts = Arrays.copyOf(rtts, 2 * count);
        }
        lengths[count] = length;
        sentAt[count] = at;
        tags[count] = tag;
        rtts[count] = rtt;
        count++;
    }

    /** @return packets */
    public int count() {
        return count;
    }

    /**
     * @param i which packet
     * @return its bytes
     */
    public long length(int i) {
        return lengths[i];
    }

    /**
     * @param i which packet
     * @return nanoseconds at which it was sent
     */
    public long sentAt(int i) {
        return sentAt[i];
    }

    /**
     * @param i which packet
     * @return what the controller attached to it
     */
    public long tag(int i) {
        return tags[i];
    }

    /**
     * @param i which packet
     * @return nanoseconds from sending to acknowledgement; 0: not known
     */
    public long rtt(int i) {
        return rtts[i];
    }

    /** @return bytes in flight before the batch */
    public long inFlightBefore() {
        return inFlightBefore;
    }

    /** @return bytes in flight after the batch */
    public long inFlight() {
        return inFlight;
    }

    /** @return bound on the error of the round-trip times, nanoseconds */
    public long rttError() {
        return rttError;
    }

    /** @return true if the window limited the sender since the last batch */
    public boolean isLimitedByWindow() {
        return limitedByWindow;
    }

    /** @return true if the quota limited the sender since the last batch */
    public boolean isLimitedByQuota() {
        return limitedByQuota;
    }

    /** @return true if pacing limited the sender since the last batch */
    public boolean isLimitedByPacer() {
        return limitedByPacer;
    }

    /** @return true if the application had no more data */
    public boolean isLimitedByApplication() {
        return limitedByApplication;
    }
}
