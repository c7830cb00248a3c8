// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

/**
 * MDI (Khan et al., ACM CCR 51(1), 2021): every 5 ms a change of the window is drawn from a table. The table was
 * learned from another algorithm, here Verus.
 */
public final class Mdi extends Controller {
    private final Levels levels;
    private long mss = 1448;
    private Random64 random = new Random64(1);
    private double window = MDI_START;
    /** Values of the last two epochs, the newest first: packets, and milliseconds. */
    private double window1 = MDI_START;
    private double window2 = MDI_START;
    private double delay1 = MDI_FIRST_DELAY;
    private double delay2 = MDI_FIRST_DELAY;
    private boolean slowStart = true;
    /** The largest sample of this epoch, ms; 0: none. */
    private double largest;
    private double smoothed;
    private double smallest = Double.MAX_VALUE;
    private long heard;
    private long started;
    private long nextEpoch;
    private long quota;
    private double credit;
    private long inFlight;
    private boolean unused;

    /** The algorithm with the built-in table. */
    public Mdi() {
        this(Levels.builtin());
    }

    /** @param levels the tables; they may serve many flows */
    public Mdi(Levels levels) {
        this.levels = levels;
    }

    /** @param matrix a table in its published form; one may serve many flows */
    public Mdi(Matrix matrix) {
        this(Levels.of(matrix));
    }

    @Override
    public void start(long now, int segment, long seed) {
        mss = segment;
        random = new Random64(seed);
        started = now;
        heard = now;
        nextEpoch = nextOnGrid(now);
        release();
    }

    private long nextOnGrid(long now) {
        return started + MDI_EPOCH * ((now - started) / MDI_EPOCH + 1);
    }

    private void sample(double rtt) {
        largest = Math.max(largest, rtt);
        smallest = Math.min(smallest, rtt);
        smoothed = smoothed == 0 ? rtt : smoothed + MDI_SMOOTHING * (rtt - smoothed);
    }

    /** The window after a change; the scale of small windows is that of two packets, or it would explode. */
    private static double moved(double window, double change) {
        return window * (100 + change / Math.max(Math.log10(Math.max(window, 2)), 1e-6)) / 100;
    }

    private double walk(double delay) {
        Matrix matrix = levels.at(delay1 / smallest);
        int lastDelay = matrix.delayBin(Matrix.change(delay1, delay2, MDI_MIN_SCALE));
        int lastWindow = matrix.windowBin(Matrix.change(window1, window2, MDI_MIN_SCALE));
        int next = matrix.delayBin(Matrix.change(delay, delay1, MDI_MIN_SCALE));
        return moved(window1, matrix.draw(lastDelay, lastWindow, next, random.unit()));
    }

    private void epoch(long now) {
        boolean sampled = largest > 0;
        double delay = sampled ? largest : Math.max(delay1, (now - heard) / 1e6);
        largest = 0;
        // A window that nothing tests says nothing about the path: it does not walk upwards.
        boolean idle = unused;
        unused = false;
        if (!slowStart) {
            double next = walk(delay);
            window = idle ? Math.min(next, window) : next;
        }
        window = Math.min(Math.max(window, 1), MDI_MAX_WINDOW);
        delay2 = delay1;
        delay1 = delay;
        window2 = window1;
        window1 = window;
        release();
    }

    /** Equation 5 of Verus. */
    private void release() {
        double packets = inFlight / (double) mss;
        long epochs = Math.max((long) Math.ceil(smoothed / (MDI_EPOCH / 1e6)), 1);
        double share = epochs <= 2 ? 1 : (epochs - 2) / (double) (epochs - 1);
        double exact = Math.max(window - packets * share, 0) + credit;
        double whole = Math.floor(exact);
        credit = Math.min(Math.max(exact - whole, 0), 1);
        quota = (long) (mss * whole);
    }

    @Override
    public long sent(long now, long length, long before) {
        if (before == 0) {
            heard = now;
        }
        if (nextEpoch <= now) {
            nextEpoch = nextOnGrid(now);
        }
        inFlight = before + length;
        quota = Math.max(quota - length, 0);
        return (long) window;
    }

    @Override
    public void acked(long now, AckBatch batch) {
        inFlight = batch.inFlight();
        heard = now;
        boolean idle = batch.isLimitedByApplication()
            && !Parts.isWindowUsed(batch, Parts.windowBytes(window, mss));
        unused |= idle;
        for (int i = 0; i < batch.count(); i++) {
            double rtt = batch.rtt(i) / 1e6;
            if (rtt > 0) {
                sample(Math.max(rtt, 1e-3));
            }
            if (!slowStart) {
                continue;
            }
            if (!idle) {
                window = Math.min(window + Parts.segments(batch.length(i), mss), MDI_MAX_WINDOW);
            }
            if (rtt > Math.max(MDI_EXIT * smallest, smallest + MDI_EXIT_MS)) {
                slowStart = false;
                // What is in flight has come of the queue that was just seen: half of it was too much.
                window = Math.max(window / 2, 1);
                window1 = window;
                window2 = window;
            }
        }
        if (slowStart) {
            release();
        }
    }

    @Override
    public void idle(long now, long idle) {
        heard = now;
        inFlight = 0;
        largest = 0;
        nextEpoch = nextOnGrid(now);
        release();
    }

    @Override
    public void timer(long now) {
        if (now >= nextEpoch) {
            nextEpoch = nextOnGrid(now);
            epoch(now);
        }
    }

    @Override
    public long nextTimer() {
        // Idle: the first packet starts the epochs again.
        return inFlight == 0 && quota >= mss ? NONE : nextEpoch;
    }

    @Override
    public long window() {
        return Math.max((long) (mss * (window * MDI_FLIGHT)), mss);
    }

    @Override
    public long quota() {
        return quota;
    }
}
