// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.transfer;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.util.Arrays;
import org.alcc.inband.Connection;
import org.alcc.transfer.TransferException.Kind;

/**
 * One file to {@code alcc recv}, or from {@code alcc send}: version 1 of the transfer format. {@link Resuming} sends
 * by version 2, over as many connections as it takes. A peer that does nothing for {@code Settings.silence} is given
 * up.
 */
public final class Transfer {
    /** The length is not known beforehand. */
    public static final long UNKNOWN = -1;

    static final int HEADER = 64;
    static final int PREFIX = 12;
    private static final int ANSWER = 88;
    static final int MAX_BLOCK = 65_536;
    private static final int VERSION = 1;
    static final int RESUMING = 2;
    static final byte[] SEND = {'a', 'l', 'c', 'c', 's', 'e', 'n', 'd'};
    private static final byte[] DONE = {'a', 'l', 'c', 'c', 'd', 'o', 'n', 'e'};
    private static final int GOOD = 0;
    private static final int DAMAGED = 1;
    private static final int NOT_KEPT = 2;
    private static final int PART = 3;
    /** A kind of header. */
    static final int ASK = 2;

    private Transfer() { }

    static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("each Java has SHA-256", e);
        }
    }

    /**
     * Sends a file and waits until the receiver has it.
     *
     * @param connection just opened; it is finished afterwards and still to be closed
     * @param content read to its end
     * @param size its bytes; {@link #UNKNOWN}
     * @return bytes that were sent
     * @throws IOException an {@code AlccException} of the connection, a {@link TransferException} if the receiver is
     *     not content, or what reading the content said
     */
    public static long send(Connection connection, InputStream content, long size) throws IOException {
        byte[] session = new byte[16];
        new SecureRandom().nextBytes(session);
        ByteBuffer block = ByteBuffer.allocate(HEADER + PREFIX + MAX_BLOCK);
        block.put(SEND).put((byte) VERSION).put((byte) 1).putShort((short) 0).putShort((short) 1);
        block.position(16);
        block.putLong(size).put(session);
        block.position(HEADER);
        return blocks(connection, content, block, sha256(), 0).bytes;
    }

    /**
     * Sends the rest of a flow, and waits for the answer.
     *
     * @param block with the header at its beginning, and positioned behind it
     * @param hash that of the content before
     * @param bytes number of bytes to send
     */
    static Answer blocks(Connection connection, InputStream content, ByteBuffer block, MessageDigest hash, long bytes)
            throws IOException {
        connection.expectProgress();
        OutputStream out = connection.getOutputStream();
        for (int n = fill(content, block); n > 0; n = fill(content, block)) {
            hash.update(block.array(), block.position() + PREFIX, n);
            bytes += n;
            block.putInt(n).putLong(System.nanoTime());
            out.write(block.array(), 0, block.position() + n);
            block.clear();
        }
        byte[] sum = hash.digest();
        block.putInt(0).putLong(System.nanoTime()).putLong(bytes).put(sum);
        out.write(block.array(), 0, block.position());
        connection.finish(0);
        Answer answer = answer(connection.getInputStream());
        if (!answer.part && (answer.bytes != bytes || !Arrays.equals(answer.hash, sum))) {
            throw new TransferException(Kind.DAMAGED, "the receiver has other content than was sent");
        }
        connection.finish(Long.MAX_VALUE / 1_000_000 / 4);
        return answer;
    }

    /** Reads a block behind the place of its prefix. */
    private static int fill(InputStream content, ByteBuffer block) throws IOException {
        int at = block.position() + PREFIX;
        int n = 0;
        // One block less than the array, so that the header fits before the first one.
        while (n < MAX_BLOCK) {
            int more = content.read(block.array(), at + n, MAX_BLOCK - n);
            if (more < 0) {
                break;
            }
            n += more;
        }
        return n;
    }

    /**
     * Reads a receiver's answer.
     *
     * @param in from here
     * @throws IOException a {@link TransferException} unless what is there is as it was sent
     */
    static Answer answer(InputStream in) throws IOException {
        byte[] bytes = new byte[ANSWER];
        read(in, bytes, 0, ANSWER);
        boolean right = Arrays.equals(Arrays.copyOf(bytes, 8), DONE)
            && (bytes[8] == VERSION || bytes[8] == RESUMING);
        for (int i = 10; i < 16; i++) {
            right &= bytes[i] == 0;
        }
        if (!right || (bytes[9] & 255) > (bytes[8] == RESUMING ? PART : NOT_KEPT)) {
            throw new TransferException(Kind.ANSWER, "the receiver's answer is malformed");
        }
        if (bytes[9] == DAMAGED) {
            throw new TransferException(Kind.DAMAGED, "the receiver says that the content came damaged");
        }
        if (bytes[9] == NOT_KEPT) {
            throw new TransferException(Kind.NOT_KEPT, "the receiver could not keep the content");
        }
        ByteBuffer fields = ByteBuffer.wrap(bytes);
        return new Answer(bytes[9] == PART, fields.getLong(16), Arrays.copyOfRange(bytes, 56, ANSWER));
    }

    /** A receiver's report on its data. */
    static final class Answer {
        /** True if it is not complete. */
        final boolean part;
        /** Bytes at the receiver. */
        final long bytes;
        final byte[] hash;

        Answer(boolean part, long bytes, byte[] hash) {
            this.part = part;
            this.bytes = bytes;
            this.hash = hash;
        }
    }

    private static void read(InputStream in, byte[] into, int at, int n) throws IOException {
        try {
            new DataInputStream(in).readFully(into, at, n);
        } catch (EOFException e) {
            throw new TransferException(Kind.CUT_SHORT, "the peer ended in the middle of a transfer");
        }
    }

    /**
     * Receives a file, answers, and ends this direction.
     *
     * @param connection just accepted; the caller still closes it
     * @param into gets the content, which is valid only if this returns
     * @param limit maximum number of bytes
     * @return number of received bytes
     * @throws IOException an {@code AlccException} of the connection, a {@link TransferException}, or the error of the
     *     output; the sender is notified
     */
    public static long receive(Connection connection, OutputStream into, long limit) throws IOException {
        connection.expectProgress();
        MessageDigest hash = sha256();
        long began = System.nanoTime();
        long[] bytes = {0};
        int verdict = DAMAGED;
        TransferException wrong = null;
        try {
            read(connection.getInputStream(), into, limit, hash, bytes, false);
            verdict = GOOD;
        } catch (TransferException e) {
            wrong = e;
            verdict = e.kind() == Kind.TOO_LONG || e.kind() == Kind.NOT_KEPT ? NOT_KEPT : DAMAGED;
            if (e.kind() == Kind.STRANGER) {
                throw e;
            }
        } catch (NotKept e) {
            verdict = NOT_KEPT;
            throw e.why;
        } finally {
            if (wrong == null || wrong.kind() != Kind.STRANGER) {
                say(connection, verdict, bytes[0], System.nanoTime() - began, hash.digest());
            }
        }
        if (wrong != null) {
            throw wrong;
        }
        connection.finish(Long.MAX_VALUE / 1_000_000 / 4);
        return bytes[0];
    }

    private static void say(Connection connection, int verdict, long bytes, long took, byte[] hash) {
        ByteBuffer answer = ByteBuffer.allocate(ANSWER);
        answer.put(DONE).put((byte) VERSION).put((byte) verdict);
        answer.position(16);
        answer.putLong(bytes).putLong(took).putLong(-1).putLong(-1).putLong(-1).put(hash);
        try {
            connection.getOutputStream().write(answer.array());
            connection.finish(0);
        } catch (IOException e) {
            // The caller gets the error that ended the connection.
        }
    }

    private static final class NotKept extends IOException {
        private static final long serialVersionUID = 1L;
        final IOException why;

        NotKept(IOException why) {
            super(why);
            this.why = why;
        }
    }

    /** Reads a stream to its end; counts what has come into {@code bytes[0]}. */
    static void read(InputStream in, OutputStream into, long limit, MessageDigest hash, long[] bytes, boolean resumes)
            throws IOException {
        byte[] part = new byte[MAX_BLOCK];
        long size = header(in, part);
        if (part[8] == RESUMING) {
            if (!resumes) {
                throw new TransferException(Kind.NOT_KEPT, "the sender wants to go on where it is cut: not here");
            }
            if (part[9] == ASK) {
                end(in);
                return;
            }
            long offset = ByteBuffer.wrap(part).getLong(56);
            if (offset > 0 && offset != bytes[0]) {
                throw new TransferException(Kind.POSITION, "it goes on at byte " + offset + ", and " + bytes[0]
                    + " bytes are here");
            }
            if (offset == 0) {
                hash.reset();
                bytes[0] = 0;
            }
        }
        if (size > limit) {
            throw new TransferException(Kind.TOO_LONG, "the content has " + size + " bytes, " + limit + " are taken");
        }
        while (true) {
            read(in, part, 0, PREFIX);
            int n = ByteBuffer.wrap(part).getInt();
            if (n == 0) {
                break;
            }
            boolean tooMuch = bytes[0] + n > (size == UNKNOWN ? limit : size);
            if (n < 0 || n > MAX_BLOCK || tooMuch && size != UNKNOWN) {
                throw new TransferException(Kind.BLOCK, "a block of " + (n & 0xffffffffL) + " bytes");
            }
            if (tooMuch) {
                throw new TransferException(Kind.TOO_LONG, "the content has more than " + limit + " bytes");
            }
            while (n > 0) {
                int some = in.read(part, 0, n);
                if (some < 0) {
                    throw new TransferException(Kind.CUT_SHORT, "the peer ended in the middle of a block");
                }
                hash.update(part, 0, some);
                try {
                    into.write(part, 0, some);
                } catch (IOException e) {
                    throw new NotKept(e);
                }
                bytes[0] += some;
                n -= some;
            }
        }
        byte[] sum = new byte[32];
        read(in, part, 0, 8);
        read(in, sum, 0, sum.length);
        long told = ByteBuffer.wrap(part).getLong();
        if (told != bytes[0] || size != UNKNOWN && told != size) {
            throw new TransferException(Kind.BLOCK, "the sender counts " + told + " bytes, " + bytes[0] + " came");
        }
        end(in);
        MessageDigest copy;
        try {
            copy = (MessageDigest) hash.clone();
        } catch (CloneNotSupportedException e) {
            throw new IllegalStateException("SHA-256 cannot be cloned here", e);
        }
        if (!Arrays.equals(copy.digest(), sum)) {
            throw new TransferException(Kind.HASH, "the content is not what was sent: another SHA-256");
        }
    }

    private static void end(InputStream in) throws IOException {
        if (in.read() >= 0) {
            throw new TransferException(Kind.AFTER_END, "something came after the end of the transfer");
        }
    }

    /** @return the announced size */
    private static long header(InputStream in, byte[] part) throws IOException {
        for (int i = 0; i < SEND.length; i++) {
            read(in, part, i, 1);
            if (part[i] != SEND[i]) {
                throw new TransferException(Kind.STRANGER, "the peer does not speak the transfer format");
            }
        }
        read(in, part, 8, HEADER - 8);
        if (part[8] != VERSION && part[8] != RESUMING) {
            throw new TransferException(Kind.VERSION, "the peer speaks version " + (part[8] & 255)
                + " of the transfer format, this library speaks " + VERSION + " and " + RESUMING);
        }
        ByteBuffer fields = ByteBuffer.wrap(part);
        int flow = fields.getShort(10) & 0xffff;
        int flows = fields.getShort(12) & 0xffff;
        long size = fields.getLong(16);
        long offset = fields.getLong(56);
        boolean resumes = part[8] == RESUMING;
        boolean right = flow < flows && fields.getShort(14) == 0;
        if (resumes) {
            right &= flows == 1 && size != UNKNOWN && (part[9] == ASK ? offset == 0 : part[9] == 1)
                && (size < 0 || offset >= 0 && offset <= size);
        } else {
            right &= offset == 0 && (part[9] == 0 || part[9] == 1);
        }
        if (!right) {
            throw new TransferException(Kind.HEADER, "a header that cannot be");
        }
        if (part[9] == 0) {
            throw new TransferException(Kind.HEADER, "content that both ends make up, which this library does not");
        }
        return size < 0 && size != UNKNOWN ? Long.MAX_VALUE : size;
    }
}
