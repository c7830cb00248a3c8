// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.app;

import java.io.IOException;
import java.net.InetSocketAddress;
import org.alcc.record.Plan;
import org.alcc.record.Recorded;
import org.alcc.record.Recorder;
import org.alcc.record.Recording;

/** One recording of the channel to a server. Knows nothing of Android. Safe for several threads; no call waits. */
final class ChannelRecording {
    enum State { RECORDING, DONE, FAILED }

    private final Job job;
    private final Plan plan;
    private final String label;
    private State state = State.RECORDING;
    private String problem = "";
    private Recorder recorder;
    private Recording result;
    private boolean stopped;

    /** Begins at once. */
    ChannelRecording(Job job, Plan plan, String label) {
        this.job = job;
        this.plan = plan;
        this.label = label;
        Thread thread = new Thread("alcc-record") {
            @Override public void run() {
                work();
            }
        };
        thread.setDaemon(true);
        thread.start();
    }

    private void work() {
        try {
            // Finding the address may take long.
            Recorder mine = new Recorder(new InetSocketAddress(job.host, job.port), plan, label);
            synchronized (this) {
                recorder = mine;
                if (stopped) {
                    mine.stop();
                }
            }
            Recording got = mine.record();
            synchronized (this) {
                result = got;
                state = State.DONE;
            }
        } catch (IOException | RuntimeException | OutOfMemoryError e) {
            // A thread's exception would end the app: it is shown instead.
            synchronized (this) {
                problem = String.valueOf(e.getMessage());
                state = State.FAILED;
            }
        }
    }

    /** Stops; received data is kept. */
    synchronized void stop() {
        stopped = true;
        if (recorder != null) {
            recorder.stop();
        }
    }

    synchronized State state() {
        return state;
    }

    synchronized boolean isBusy() {
        return state == State.RECORDING;
    }

    synchronized String problem() {
        return problem;
    }

    Job job() {
        return job;
    }

    /** The recording; null if there is none yet. */
    synchronized Recording result() {
        return result;
    }

    synchronized double progress() {
        return recorder == null ? 0 : recorder.progress();
    }

    /** Mbit/s with headers, towards this phone, in the last second. */
    synchronized double rate() {
        return recorder == null ? 0 : recorder.rate() / 1e6;
    }

    /** Mbit/s with headers, over all that counts. */
    static double mean(Recording of, Recorded direction) {
        return direction.count() * 8e3 * of.plan.ipLength() / of.plan.duration;
    }

    /** A Mahimahi trace. */
    static byte[] trace(Recording of, Recorded direction) throws IOException {
        StringBuilder text = new StringBuilder();
        direction.writeTrace(text, of.plan.ipLength());
        return text.toString().getBytes("US-ASCII");
    }
}
