// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.transfer;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.util.Arrays;
import org.alcc.inband.AlccException;
import org.alcc.inband.Connection;
import org.alcc.transfer.TransferException.Kind;

/**
 * A resumable transfer of a file to {@code alcc recv --resume}, over as many connections as necessary: version 2 of the
 * transfer format. A lost connection, another network or a pause costs only the data in flight.
 *
 * <p>After a pause or an end of the program, {@link #send} resumes the same session, if the receiver still keeps its
 * data. Use it from one thread at a time.
 */
public final class Resuming {
    private static final long FIRST_WAIT = 250;
    private static final long LONGEST_WAIT = 8_000;

    /** Opens connections to the receiver. */
    public interface Opener {
        /**
         * Opens a connection.
         *
         * @return the open connection, which the caller closes
         * @throws IOException if there is none now; it is tried again
         */
        Connection open() throws IOException;
    }

    /** Content to send. It must not change while it is sent. */
    public interface Source {
        /**
         * The content from its beginning.
         *
         * @return the caller closes it
         * @throws IOException that it cannot be read: not tried again
         */
        InputStream open() throws IOException;
    }

    /** An error of the source: another connection does not help. */
    private static final class Unread extends IOException {
        private static final long serialVersionUID = 1L;
        final IOException why;

        Unread(IOException why) {
            super(why);
            this.why = why;
        }
    }

    /** Reads the source, and distinguishes its errors from those of the connection. */
    private static final class Reading extends InputStream {
        private final InputStream inner;

        Reading(InputStream inner) {
            this.inner = inner;
        }

        @Override public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 255;
        }

        @Override public int read(byte[] into, int at, int n) throws IOException {
            try {
                return inner.read(into, at, n);
            } catch (IOException e) {
                throw new Unread(e);
            }
        }

        @Override public void close() throws IOException {
            inner.close();
        }
    }

    private final Opener opener;
    private final Source source;
    private final long size;
    private final byte[] session;
    /** Bytes at the receiver; negative if they must be queried. */
    private long have;
    /** Last known bytes at the receiver. */
    private volatile long known;

    /**
     * A transfer of a file.
     *
     * @param opener opens connections to one receiver
     * @param source returns the content from its beginning, once for each connection
     * @param size its bytes, at least 0
     * @param session 16 random bytes that cannot be guessed; the same value resumes from the receiver's data
     * @param known whether this session may have sent something before
     */
    public Resuming(Opener opener, Source source, long size, byte[] session, boolean known) {
        if (session.length != 16 || size < 0) {
            throw new IllegalArgumentException("a session of 16 bytes and a size of at least 0");
        }
        this.opener = opener;
        this.source = source;
        this.size = size;
        this.session = session.clone();
        this.have = known ? -1 : 0;
    }

    /**
     * Sends until the receiver has everything. Interrupt the thread to pause; a later call resumes.
     *
     * @param patienceMs time without progress at the receiver after which it fails, ms
     * @throws IOException a {@link TransferException} if the receiver refuses, {@link InterruptedIOException} after an
     *     interrupt, the error of the source, or the last error of a connection when patience has ended
     */
    public void send(long patienceMs) throws IOException {
        long most = have;
        long moved = System.nanoTime();
        long wait = FIRST_WAIT;
        while (true) {
            try {
                if (have < 0 ? ask() : rest()) {
                    return;
                }
                if (have > most) {
                    most = have;
                    moved = System.nanoTime();
                    wait = FIRST_WAIT;
                }
                continue;
            } catch (Unread e) {
                have = -1;
                throw e.why;
            } catch (IOException e) {
                have = -1;
                boolean late = System.nanoTime() - moved > patienceMs * 1_000_000;
                // A time-out is an interrupt only by its type.
                boolean interrupted = e instanceof InterruptedIOException && !(e instanceof SocketTimeoutException);
                if (late || interrupted || !isCut(e)) {
                    throw e;
                }
            }
            try {
                Thread.sleep(wait);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new InterruptedIOException("interrupted between two connections");
            }
            wait = Math.min(2 * wait, LONGEST_WAIT);
        }
    }

    /** @return bytes at the receiver as last reported; 0 before any report. May be called from any thread */
    public long has() {
        return known;
    }

    /** Errors after which another connection may succeed. */
    private static boolean isCut(IOException why) {
        if (why instanceof TransferException) {
            Kind kind = ((TransferException) why).kind();
            return kind == Kind.CUT_SHORT || kind == Kind.POSITION;
        }
        if (why instanceof AlccException) {
            AlccException.Kind kind = ((AlccException) why).kind();
            return kind != AlccException.Kind.FOREIGN && kind != AlccException.Kind.VERSION
                && kind != AlccException.Kind.PROTOCOL && kind != AlccException.Kind.RECEIVER_MODULE;
        }
        return true;
    }

    private ByteBuffer header(int kind, long offset) {
        ByteBuffer header = ByteBuffer.allocate(Transfer.HEADER + Transfer.PREFIX + Transfer.MAX_BLOCK);
        header.put(Transfer.SEND).put((byte) Transfer.RESUMING).put((byte) kind).putShort((short) 0).putShort((short) 1);
        header.position(16);
        header.putLong(size).put(session);
        header.position(56);
        header.putLong(offset);
        return header;
    }

    /** @return true if the receiver has everything */
    private boolean ask() throws IOException {
        Transfer.Answer answer;
        try (Connection connection = opener.open()) {
            connection.expectProgress();
            connection.getOutputStream().write(header(Transfer.ASK, 0).array(), 0, Transfer.HEADER);
            connection.finish(0);
            answer = Transfer.answer(connection.getInputStream());
        }
        if (answer.part) {
            if (answer.bytes < 0 || answer.bytes > size) {
                throw new TransferException(Kind.ANSWER, "the receiver says that it has " + answer.bytes + " of " + size
                    + " bytes");
            }
            have = answer.bytes;
            known = have;
            return false;
        }
        MessageDigest hash = Transfer.sha256();
        try (InputStream content = content()) {
            skip(content, size, hash);
        }
        if (answer.bytes != size || !Arrays.equals(answer.hash, hash.digest())) {
            throw new TransferException(Kind.DAMAGED, "the receiver has other content than is to be sent");
        }
        return true;
    }

    /** Sends the content after the first {@link #have} bytes. */
    private boolean rest() throws IOException {
        MessageDigest hash = Transfer.sha256();
        try (InputStream content = content()) {
            skip(content, have, hash);
            Transfer.Answer answer;
            try (Connection connection = opener.open()) {
                answer = Transfer.blocks(connection, content, header(1, have), hash, have);
            }
            if (answer.part) {
                throw new TransferException(Kind.POSITION, "the receiver has only " + answer.bytes + " bytes");
            }
        }
        return true;
    }

    private InputStream content() throws Unread {
        try {
            return new Reading(source.open());
        } catch (IOException e) {
            throw new Unread(e);
        }
    }

    private static void skip(InputStream content, long bytes, MessageDigest hash) throws IOException {
        byte[] piece = new byte[Transfer.MAX_BLOCK];
        for (long remaining = bytes; remaining > 0;) {
            int n = content.read(piece, 0, (int) Math.min(remaining, piece.length));
            if (n < 0) {
                throw new Unread(new EOFException("the content has become shorter meanwhile"));
            }
            hash.update(piece, 0, n);
            remaining -= n;
        }
    }
}
