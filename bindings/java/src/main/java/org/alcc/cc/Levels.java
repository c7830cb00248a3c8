// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

import static org.alcc.cc.Constants.*;

import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.Charset;

/**
 * A table of MDI for each level of the delay, so that the walk knows where it stands. It does not change, so flows and
 * threads may share it.
 */
public final class Levels {
    private static final String WORD = "levels,";
    private static Levels builtin;

    /** Bounds between the levels, in smallest delays. */
    private final double[] bounds;
    private final Matrix[] tables;

    private Levels(double[] bounds, Matrix[] tables) {
        this.bounds = bounds;
        this.tables = tables;
    }

    /**
     * One table whatever the delay is.
     *
     * @param table as its authors write it
     * @return one level
     */
    public static Levels of(Matrix table) {
        return new Levels(new double[0], new Matrix[] {table});
    }

    /**
     * The tables that the project learned from its Verus.
     *
     * @return always the same
     * @throws IllegalStateException if the library was packed without them
     */
    public static synchronized Levels builtin() {
        if (builtin == null) {
            InputStream in = Levels.class.getResourceAsStream("levels.txt");
            if (in == null) {
                throw new IllegalStateException("the library has no levels.txt beside Levels.class: pack it again");
            }
            try {
                builtin = expand(new InputStreamReader(in, Charset.forName("UTF-8")));
            } catch (IOException e) {
                throw new IllegalStateException("the built-in table: " + e.getMessage(), e);
            } finally {
                try {
                    in.close();
                } catch (IOException e) {
                    // It has been read.
                }
            }
        }
        return builtin;
    }

    /**
     * Reads a table in its published form, or one with levels: a line {@code levels,1.5,3,6}. Then come eight whole
     * numbers, and the lines of states of each level, the lowest first.
     *
     * @param from read to its end; not closed
     * @return the tables
     * @throws IOException what reading said, or which line is wrong and what it should be
     */
    public static Levels parse(Reader from) throws IOException {
        Matrix.Lines lines = new Matrix.Lines(from);
        String line = lines.next();
        double[] bounds = bounds(lines, line);
        int[] header = header(lines, bounds, line);
        Matrix[] tables = new Matrix[bounds.length + 1];
        for (int i = 0; i < tables.length; i++) {
            tables[i] = Matrix.read(lines, header);
        }
        lines.end(header[0] * header[4] * tables.length);
        return new Levels(bounds, tables);
    }

    private static double[] bounds(Matrix.Lines lines, String line) throws IOException {
        if (line == null || !line.startsWith(WORD)) {
            return new double[0];
        }
        String[] words = line.substring(WORD.length()).split(",", -1);
        double[] bounds = new double[words.length];
        double before = 1;
        for (int i = 0; i < words.length; i++) {
            try {
                bounds[i] = Double.parseDouble(words[i]);
            } catch (NumberFormatException e) {
                bounds[i] = 0;
            }
            if (!(bounds[i] > before) || Double.isInfinite(bounds[i]) || words.length > MDI_MOST) {
                throw lines.wrong("'" + line + "'",
                    "at most " + MDI_MOST + " ascending multiples of the smallest delay above 1, such as " + WORD + "1.5,3,6");
            }
            before = bounds[i];
        }
        return bounds;
    }

    private static int[] header(Matrix.Lines lines, double[] bounds, String first) throws IOException {
        int[] header = lines.header(bounds.length == 0 ? first : lines.next());
        if (header[0] * header[4] * (bounds.length + 1) > MDI_MAX_STATES) {
            throw lines.wrong(bounds.length + 1 + " levels of " + header[0] * header[4] + " states",
                "at most " + MDI_MAX_STATES + " together");
        }
        return header;
    }

    /** Reads the built-in form: a line per block that was seen, its bins with their thousandths. */
    private static Levels expand(Reader from) throws IOException {
        Matrix.Lines lines = new Matrix.Lines(from);
        String line = lines.next();
        double[] bounds = bounds(lines, line);
        int[] header = header(lines, bounds, line);
        int each = header[0] * header[4] * header[4];
        double[][][] blocks = new double[bounds.length + 1][each][];
        for (line = lines.next(); line != null; line = lines.next()) {
            String[] words = line.split("[ :]");
            double[] block = new double[header[0]];
            double all = 0;
            for (int i = 2; i < words.length; i += 2) {
                block[Integer.parseInt(words[i - 1])] = Integer.parseInt(words[i]);
                all += Integer.parseInt(words[i]);
            }
            for (int i = 0; i < block.length; i++) {
                block[i] /= Math.max(all, 1);
            }
            int number = Integer.parseInt(words[0]);
            blocks[number / each][number % each] = block;
        }
        Matrix[] tables = new Matrix[blocks.length];
        for (int i = 0; i < tables.length; i++) {
            tables[i] = new Matrix(header, blocks[i]);
        }
        return new Levels(bounds, tables);
    }

    /** The table of a delay of {@code ratio} times the smallest. */
    Matrix at(double ratio) {
        int level = 0;
        while (level < bounds.length && bounds[level] < ratio) {
            level++;
        }
        return tables[level];
    }
}
