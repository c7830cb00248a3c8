// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;

/** Input and output streams of a {@link Connection}. */
final class Streams {
    private Streams() { }

    static final class Input extends InputStream {
        private final Connection connection;
        private final byte[] one = new byte[1];

        Input(Connection connection) {
            this.connection = connection;
        }

        @Override
        public int read() throws IOException {
            return connection.read(one, 0, 1) < 0 ? -1 : one[0] & 255;
        }

        @Override
        public int read(byte[] into, int offset, int length) throws IOException {
            range(into, offset, length);
            return connection.read(into, offset, length);
        }

        @Override
        public int available() {
            return connection.unread();
        }

        @Override
        public void close() {
            connection.close();
        }
    }

    static final class Output extends OutputStream {
        private final Connection connection;
        /** One write of the application after the other. */
        private final Object turn = new Object();

        Output(Connection connection) {
            this.connection = connection;
        }

        @Override
        public void write(int octet) throws IOException {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] from, int offset, int length) throws IOException {
            range(from, offset, length);
            synchronized (turn) {
                connection.write(from, offset, length);
            }
        }

        @Override
        public void close() {
            connection.close();
        }
    }

    private static void range(byte[] array, int offset, int length) {
        if (offset < 0 || length < 0 || length > array.length - offset) {
            throw new IndexOutOfBoundsException(length + " bytes from " + offset + " of an array of " + array.length);
        }
    }
}
