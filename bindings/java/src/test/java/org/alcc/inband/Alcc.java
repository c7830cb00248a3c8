// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import static org.junit.Assert.assertTrue;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.Assume;

/** The program, started for a test and ended with it. The app's tests use it, too. */
public final class Alcc implements AutoCloseable {
    private final Process process;
    private final List<String> said = new ArrayList<String>();
    private final Thread listener;

    /** Left out without the program. */
    public Alcc(String... arguments) throws IOException {
        // The laboratory's program stands beside it.
        String program = System.getProperty("alcc") + (arguments[0].equals("trace") ? "-lab" : "");
        boolean there = new File(program).canExecute();
        if (!there) {
            System.out.println("skipped: needs " + program + " (cargo build)");
        }
        Assume.assumeTrue("needs the program", there);
        List<String> command = new ArrayList<String>(Arrays.asList(arguments));
        command.add(0, program);
        process = new ProcessBuilder(command).redirectErrorStream(true).start();
        listener = new Thread() {
            @Override public void run() {
                try (BufferedReader lines = new BufferedReader(new InputStreamReader(process.getInputStream()))) {
                    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                        synchronized (said) {
                            said.add(line);
                            said.notifyAll();
                        }
                    }
                } catch (IOException e) {
                    // It has ended.
                }
            }
        };
        listener.setDaemon(true);
        listener.start();
    }

    /** The first line with these words. */
    public String line(String words) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        synchronized (said) {
            while (System.nanoTime() < until) {
                for (String line : said) {
                    if (line.contains(words)) {
                        return line;
                    }
                }
                said.wait(100);
            }
        }
        throw new AssertionError("no '" + words + "' in " + said);
    }

    /** Its exit status. */
    public int end() throws InterruptedException {
        assertTrue("it does not end: " + all(), process.waitFor(60, TimeUnit.SECONDS));
        listener.join(1000);
        return process.exitValue();
    }

    public List<String> lines() {
        synchronized (said) {
            return new ArrayList<String>(said);
        }
    }

    /** The program's output. */
    public String all() {
        synchronized (said) {
            return said.toString();
        }
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
