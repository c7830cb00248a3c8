// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import org.alcc.cc.Controller;

/** Counters and estimates of a connection at one instant. */
public final class Stats {
    private final long[] values;

    Stats(long... values) {
        this.values = values;
    }

    /** @return payload bytes sent */
    public long sent() {
        return values[0];
    }

    /** @return payload bytes received */
    public long received() {
        return values[1];
    }

    /** @return bytes of preface and frames sent */
    public long bytesOut() {
        return values[2];
    }

    /** @return bytes of preface and frames received */
    public long bytesIn() {
        return values[3];
    }

    /** @return bytes of frames in flight */
    public long inFlight() {
        return values[4];
    }

    /** @return bytes that the algorithm allows in flight; {@link Controller#NONE}: no window */
    public long window() {
        return values[5];
    }

    /** @return bits per second at which the algorithm paces; 0: not paced */
    public long rate() {
        return values[6];
    }

    /** @return newest round-trip time, nanoseconds; 0: none yet */
    public long latestRtt() {
        return values[7];
    }

    /** @return smoothed round-trip time (RFC 6298), nanoseconds; 0: none yet */
    public long smoothedRtt() {
        return values[8];
    }

    /** @return smallest round-trip time, nanoseconds; 0: none yet */
    public long smallestRtt() {
        return values[9];
    }

    /** @return number of times that the algorithm blocked sending */
    public long timesHeldBack() {
        return values[10];
    }

    /** @return all values with their names */
    @Override
    public String toString() {
        return "Stats[sent=" + sent() + ", received=" + received() + ", bytesOut=" + bytesOut()
                + ", bytesIn=" + bytesIn() + ", inFlight=" + inFlight() + ", window=" + window()
                + ", rate=" + rate() + ", latestRtt=" + latestRtt() + ", smoothedRtt=" + smoothedRtt()
                + ", smallestRtt=" + smallestRtt() + ", timesHeldBack=" + timesHeldBack() + "]";
    }
}
