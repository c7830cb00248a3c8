// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Reader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * MDI's table: how likely each change of the window is. It depends on the last changes of delay and of window, and on
 * the new change of delay. It does not change, so flows and threads may share it.
 */
public final class Matrix {
    private final int windows;
    private final int windowMin;
    private final int windowStep;
    private final int delays;
    private final int delayMin;
    private final int delayStep;
    /** By state and bin of the new change of delay: bins, and sums of probabilities. An empty one was never seen. */
    private final int[][] bins;
    private final double[][] sums;
    /** For each of them the one to draw from. */
    private final int[] instead;

    Matrix(int[] header, double[][] probabilities) {
        windows = header[0];
        windowMin = header[1];
        windowStep = header[3];
        delays = header[4];
        delayMin = header[5];
        delayStep = header[7];
        int seen = probabilities.length;
        bins = new int[seen + delays][];
        sums = new double[seen + delays][];
        for (int i = 0; i < seen; i++) {
            set(i, probabilities[i]);
        }
        for (int next = 0; next < delays; next++) {
            set(seen + next, anywhere(next, seen));
        }
        instead = new int[seen];
        for (int i = 0; i < seen; i++) {
            instead[i] = nearest(i, seen);
        }
    }

    private void set(int block, double[] probabilities) {
        int n = 0;
        for (int i = 0; probabilities != null && i < windows; i++) {
            n += probabilities[i] > 0 ? 1 : 0;
        }
        bins[block] = new int[n];
        sums[block] = new double[n];
        double sum = 0;
        int at = 0;
        for (int i = 0; at < n; i++) {
            if (probabilities[i] > 0) {
                sum += probabilities[i];
                bins[block][at] = i;
                sums[block][at++] = sum;
            }
        }
        if (n > 0) {
            // Whatever is drawn below one is found.
            sums[block][n - 1] = Math.max(sum, 1);
        }
    }

    /** Observations of this change of delay after any earlier change; without any, hold. */
    private double[] anywhere(int next, int seen) {
        double[] mean = new double[windows];
        int count = 0;
        for (int i = next; i < seen; i += delays) {
            count += bins[i].length > 0 ? 1 : 0;
        }
        for (int i = next; i < seen; i += delays) {
            double before = 0;
            for (int k = 0; k < bins[i].length; k++) {
                mean[bins[i][k]] += (sums[i][k] - before) / count;
                before = sums[i][k];
            }
        }
        if (count == 0) {
            mean[windowBin(0)] = 1;
        }
        return mean;
    }

    private int nearest(int block, int seen) {
        int next = block % delays;
        int state = block / delays;
        int window = state % windows;
        int row = state - window;
        for (int far = 0; far < windows; far++) {
            for (int w = window - far; w <= window + far; w += Math.max(2 * far, 1)) {
                if (w >= 0 && w < windows && bins[(row + w) * delays + next].length > 0) {
                    return (row + w) * delays + next;
                }
            }
        }
        return seen + next;
    }

    /**
     * Reads a table in its published form. It has eight whole numbers: bins, first, last and step of window and delay.
     * Then comes a line per state, with a probability per next state.
     *
     * @param from read to its end; not closed
     * @return the table
     * @throws IOException what reading said, or which line is wrong and what it should be
     */
    public static Matrix parse(Reader from) throws IOException {
        Lines lines = new Lines(from);
        int[] header = lines.header(lines.next());
        Matrix matrix = read(lines, header);
        lines.end(header[0] * header[4]);
        return matrix;
    }

    /** A line per state. */
    static Matrix read(Lines lines, int[] header) throws IOException {
        int states = header[0] * header[4];
        double[][] blocks = new double[states * header[4]][];
        for (int state = 0; state < states; state++) {
            String line = lines.next();
            if (line == null) {
                throw lines.wrong("the end after " + state + " states", states + " lines of states");
            }
            String[] cells = line.split(",", -1);
            if (cells.length != states) {
                throw lines.wrong(cells.length + " numbers", states + ", one for each state");
            }
            for (int d = 0; d < header[4]; d++) {
                blocks[state * header[4] + d] = lines.block(cells, d * header[0], header[0]);
            }
        }
        return new Matrix(header, blocks);
    }

    /** Lines that are neither empty nor a remark, with their numbers. */
    static final class Lines {
        private final BufferedReader reader;
        private int number;

        Lines(Reader from) {
            reader = new BufferedReader(from);
        }

        String next() throws IOException {
            while (true) {
                String line = reader.readLine();
                number++;
                if (line == null) {
                    return null;
                }
                line = line.trim();
                if (!line.isEmpty() && line.charAt(0) != '#') {
                    return line;
                }
            }
        }

        IOException wrong(String found, String want) {
            return new IOException("line " + number + ": " + found + ": expected " + want);
        }

        void end(int states) throws IOException {
            if (next() != null) {
                throw wrong("one more line", states + " lines of states");
            }
        }

        int[] header(String line) throws IOException {
            List<Integer> numbers = new ArrayList<Integer>();
            for (String word : line == null ? new String[0] : line.split(",", -1)) {
                try {
                    numbers.add(Integer.valueOf(word.trim()));
                } catch (NumberFormatException e) {
                    break;
                }
            }
            boolean right = numbers.size() == 8;
            for (int i = 0; right && i < 8; i += 4) {
                long last = numbers.get(i + 1) + (long) numbers.get(i + 3) * (numbers.get(i) - 1L);
                right = numbers.get(i) > 0 && numbers.get(i + 3) > 0 && last == numbers.get(i + 2);
            }
            if (!right || (long) numbers.get(0) * numbers.get(4) > MDI_MAX_STATES) {
                String found = line == null ? "" : line.substring(0, Math.min(line.length(), 60));
                throw wrong("'" + found + "'", "bins,first,last,step of the window and of the delay, and at most "
                    + MDI_MAX_STATES + " states");
            }
            int[] header = new int[8];
            for (int i = 0; i < 8; i++) {
                header[i] = numbers.get(i);
            }
            return header;
        }

        double[] block(String[] cells, int from, int n) throws IOException {
            double[] block = new double[n];
            double sum = 0;
            for (int i = 0; i < n; i++) {
                String cell = cells[from + i].trim();
                try {
                    block[i] = Double.parseDouble(cell);
                } catch (NumberFormatException e) {
                    block[i] = -1;
                }
                if (!(block[i] >= 0 && block[i] <= 1)) {
                    throw wrong("'" + cell + "'", "a probability from 0 to 1");
                }
                sum += block[i];
            }
            if (sum != 0 && Math.abs(sum - 1) > MDI_TOLERANCE) {
                throw wrong(n + " probabilities that sum up to " + sum, "1, or all 0");
            }
            return block;
        }
    }

    /** Change of a value: per cent, times the decimal logarithm of the old value; at least {@code least}. */
    static double change(double now, double old, double least) {
        return (100 * now / old - 100) * Math.log10(Math.max(old, least));
    }

    int windowBin(double value) {
        return bin(value, windowMin, windowStep, windows);
    }

    int delayBin(double value) {
        return bin(value, delayMin, delayStep, delays);
    }

    /** The nearest, half away from zero; the first or last beyond them. */
    private static int bin(double value, int min, int step, int count) {
        double exact = value / step;
        double whole = exact < 0 ? Math.ceil(exact) : Math.floor(exact);
        if (Math.abs(exact - whole) >= 0.5) {
            whole += exact < 0 ? -1 : 1;
        }
        return (int) Math.min(Math.max(whole - min / (double) step, 0), count - 1);
    }

    /** The change of the window that is drawn by {@code r}, from 0 up to 1. */
    double draw(int lastDelay, int lastWindow, int nextDelay, double r) {
        int block = instead[(lastDelay * windows + lastWindow) * delays + nextDelay];
        int at = Arrays.binarySearch(sums[block], r);
        // The first sum above r.
        at = at < 0 ? -at - 1 : at + 1;
        int bin = bins[block][Math.min(at, bins[block].length - 1)];
        return windowMin + windowStep * (double) bin;
    }
}
