// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import java.util.Arrays;

/** What the path delivers, packets per second: the quantile of how it comes, and its mean. An outage ages nothing. */
final class Service {
    private static final long BUCKET = 10_000_000;
    private static final int KEPT = 200;
    /** The long mean is over so much of the age, at least so many buckets: an unequal start is soon forgotten. */
    private static final long OF_AGE = 5;
    private static final long LEAST = 50;
    private static final int SAMPLES = 100;
    private static final double QUANTILE = 0.95;
    private static final float STARVED = 1.3f;
    /** A silence counts as no more than so many smallest round trips. */
    private static final long SILENCE = 4;

    private final float[] packets = new float[KEPT];
    private final float[] samples = new float[SAMPLES];
    private final float[] sorted = new float[SAMPLES];
    private int known;
    private long bucket;
    private long clock;
    private long at = -1;
    private float delivering;
    private boolean starved;
    private double high;
    private double mean;

    /** 95 % of the samples of the last second are not above it. */
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
        clock += Math.min(gap, Math.max(base, 10_000_000) * SILENCE);
        if (clock / BUCKET > bucket) {
            close(clock / BUCKET, base, rtt);
        }
        delivering += (float) count;
    }

    private void close(long next, long base, long rtt) {
        // The samples that are kept look back at so many buckets.
        long seen = next - KEPT - SAMPLES;
        if (seen > bucket) {
            // Nothing came in any of them.
            Arrays.fill(packets, 0);
            delivering = 0;
        }
        for (long i = Math.max(bucket, seen); i < next; i++) {
            packets[(int) (i % KEPT)] = delivering;
            delivering = 0;
            float rate = (float) over(i, Math.max(base, rtt / 4));
            sample((int) (i % SAMPLES), starved ? rate * STARVED : rate);
        }
        starved = false;
        bucket = next;
        high = sorted[Math.min((int) (known * QUANTILE), known - 1)];
        long buckets = Math.min(Math.max(next / OF_AGE, LEAST), KEPT);
        mean = Math.max(over(next - 1, BUCKET * buckets), over(next - 1, Math.max(rtt, 100_000_000)));
    }

    /** Takes the place of the oldest, once all places are taken. They stay in order: sorting anew costs more. */
    private void sample(int place, float rate) {
        if (known == SAMPLES) {
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
        long n = Math.min(Math.max((span + BUCKET / 2) / BUCKET, 1), KEPT);
        n = Math.min(n, last + 1);
        float sum = 0;
        for (long i = last + 1 - n; i <= last; i++) {
            sum += packets[(int) (i % KEPT)];
        }
        return sum / (BUCKET * n / 1e9);
    }
}
