// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.io.IOException;
import javax.net.ssl.SSLSocket;

/** The handshake of TLS within a time. The socket's own timeout begins anew with each byte that comes. */
final class Handshake {
    private final SSLSocket socket;
    private final long millis;
    private volatile boolean late;

    Handshake(SSLSocket socket, long nanos) {
        this.socket = socket;
        millis = Math.max(nanos / 1_000_000, 1);
    }

    void run() throws IOException {
        Thread watch = new Thread(new Runnable() {
            @Override public void run() {
                try {
                    Thread.sleep(millis);
                    late = true;
                    socket.close();
                } catch (InterruptedException e) {
                    // It came to an end in time.
                } catch (IOException e) {
                    // It is gone either way.
                }
            }
        }, "alcc-handshake");
        watch.setDaemon(true);
        watch.start();
        try {
            socket.setSoTimeout((int) Math.min(millis, Integer.MAX_VALUE));
            socket.startHandshake();
        } catch (IOException e) {
            if (late) {
                throw new AlccException(AlccException.Kind.SILENT, "no TLS within " + millis + " ms");
            }
            throw e;
        } finally {
            watch.interrupt();
        }
    }
}
