// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

import java.util.Arrays;

/**
 * Delivery rate of the path, packets per second: a quantile of its variation, and its mean. It does not age in an
 * outage.
 */
final class Service {
    private final float[] packets = new float[SERVICE_KEPT];
    private final float[] samples = new float[SERVICE_SAMPLES];
    private final float[] sorted = new float[SERVICE_SAMPLES];
    private int known;
    private long bucket;
    private long clock;
    private long at = -1;
    private float delivering;
    private boolean starved;
    private double high;
    private double mean;

    /** The quantile of the samples of the last second. */
    double high() {
        return high;
    }

    /**
     * The larger of the means over two seconds (a fifth of the flow's age, at least half a second, if that is less) and
     * over a round trip, at least a tenth of a second.
     */
    double mean() {
        return mean;
    }

    /** Time passes of which nothing can be said. */
    void pass(long now) {
        at = now;
    }

    void delivered(long now, double count, long base, long rtt, boolean found) {
        starved |= found;
        long gap = at < 0 ? 0 : now - at;
        at = now;
        clock += Math.min(gap, Math.max(base, SERVICE_BUCKET) * SERVICE_SILENCE);
        if (clock / SERVICE_BUCKET > bucket) {
            close(clock / SERVICE_BUCKET, base, rtt);
        }
        delivering += (float) count;
    }

    private void close(long next, long base, long rtt) {
        // The stored samples look back this many buckets.
        long seen = next - SERVICE_KEPT - SERVICE_SAMPLES;
        if (seen > bucket) {
            // Nothing came in any of them.
            Arrays.fill(packets, 0);
            delivering = 0;
        }
        for (long i = Math.max(bucket, seen); i < next; i++) {
            packets[(int) (i % SERVICE_KEPT)] = delivering;
            delivering = 0;
            float rate = (float) over(i, Math.max(base, rtt / SERVICE_OF_TRIP));
            sample((int) (i % SERVICE_SAMPLES), starved ? rate * SERVICE_STARVED : rate);
        }
        starved = false;
        bucket = next;
        high = sorted[Math.min((int) (known * SERVICE_QUANTILE), known - 1)];
        long buckets = Math.min(Math.max(next / SERVICE_OF_AGE, SERVICE_LEAST), SERVICE_KEPT);
        mean = Math.max(over(next - 1, SERVICE_BUCKET * buckets), over(next - 1, Math.max(rtt, SERVICE_TRIP)));
    }

    /** Takes the place of the oldest, once all places are taken. They stay in order: sorting anew costs more. */
    private void sample(int place, float rate) {
        if (known == SERVICE_SAMPLES) {
            int old = Arrays.binarySearch(sorted, 0, known, samples[place]);
            known--;
            System.arraycopy(sorted, old + 1, sorted, old, known - old);
        }
        int found = Arrays.binarySearch(sorted, 0, known, rate);
        int at = found < 0 ? -found - 1 : found;
        System.arraycopy(sorted, at, sorted, at + 1, known - at);
        sorted[at] = rate;
        samples[place] = rate;
        known++;
    }

    /** The rate over the time that ended with bucket {@code last}, or what there was of it. */
    private double over(long last, long span) {
        long n = Math.min(Math.max((span + SERVICE_BUCKET / 2) / SERVICE_BUCKET, 1), SERVICE_KEPT);
        n = Math.min(n, last + 1);
        float sum = 0;
        for (long i = last + 1 - n; i <= last; i++) {
            sum += packets[(int) (i % SERVICE_KEPT)];
        }
        return sum / (SERVICE_BUCKET * n / 1e9);
    }
}
