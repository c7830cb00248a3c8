// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.net.Socket;
import org.alcc.cc.Controller;

/**
 * What one end of a connection wants. Each setter returns this object.
 *
 * <p>Defaults: 4 MiB to receive, 10 s for the preface, 120 s of silence, acknowledgements every 5 ms and seed 1. The
 * segment is that of the stream below.
 */
public final class Settings {
    /** The segment size is not known yet. */
    static final int UNKNOWN = 0;

    final Controller controller;
    long seed = 1;
    int segment = UNKNOWN;
    int receiveBuffer = 4 << 20;
    int ackDelay = 5000;
    long handshake = 10_000_000_000L;
    long silence = 120_000_000_000L;

    /**
     * Settings for one connection.
     *
     * @param controller limits what this end sends; for this connection only
     */
    public Settings(Controller controller) {
        if (controller == null) {
            throw new IllegalArgumentException("a connection needs a controller, found null");
        }
        this.controller = controller;
    }

    /** Bytes of frames that fill a segment. */
    static int segment(Socket socket) {
        boolean loopback = socket.getInetAddress() != null && socket.getInetAddress().isLoopbackAddress();
        return loopback ? 32_768 : 1448;
    }

    private static void check(boolean right, String rule, long found) {
        if (!right) {
            throw new IllegalArgumentException(rule + ", found " + found);
        }
    }

    /**
     * @param value seed of the controller's random numbers
     * @return this
     */
    public Settings seed(long value) {
        seed = value;
        return this;
    }

    /**
     * @param bytes bytes of frames that fill a segment of the stream below, 256 to 65535
     * @return this
     */
    public Settings segment(int bytes) {
        check(bytes >= 256 && bytes <= 65_535, "a segment is 256 to 65535 bytes", bytes);
        segment = bytes;
        return this;
    }

    /**
     * @param bytes maximum of received bytes that are not read yet, 1024 to 2^30
     * @return this
     */
    public Settings receiveBuffer(int bytes) {
        check(bytes >= 1024 && bytes <= 1 << 30, "a receive buffer is 1024 to 2^30 bytes", bytes);
        receiveBuffer = bytes;
        return this;
    }

    /**
     * @param millis time for the peer to send its preface, ms, at least 1
     * @return this
     */
    public Settings handshake(int millis) {
        check(millis > 0, "a time is at least 1 ms", millis);
        handshake = millis * 1_000_000L;
        return this;
    }

    /**
     * @param millis maximum time without an answer that is due, ms, at least 1; for transfers see
     *     {@link Connection#expectProgress}
     * @return this
     */
    public Settings silence(int millis) {
        check(millis > 0, "a time is at least 1 ms", millis);
        silence = millis * 1_000_000L;
        return this;
    }

    /**
     * @param micros maximum delay of the peer's acknowledgements, microseconds, 1000 to 25000
     * @return this
     */
    public Settings ackDelay(int micros) {
        check(micros >= 1000 && micros <= 25_000, "a delay is 1000 to 25000 microseconds", micros);
        ackDelay = micros;
        return this;
    }
}
