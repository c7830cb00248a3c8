// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.transfer;

import java.io.IOException;

/** An error of a transfer. The message is one line. */
public final class TransferException extends IOException {
    private static final long serialVersionUID = 1L;

    /** Kinds of errors. */
    public enum Kind {
        /** The peer sends something else. */
        STRANGER,
        /** The peer speaks another version. */
        VERSION,
        /** A header that cannot be. */
        HEADER,
        /** A block or a trailer that cannot be. */
        BLOCK,
        /** Something came after the end. */
        AFTER_END,
        /** The content is not what was sent. */
        HASH,
        /** The data ended too early. */
        CUT_SHORT,
        /** The file is longer than this end accepts. */
        TOO_LONG,
        /** The receiver's answer makes no sense. */
        ANSWER,
        /** The receiver says that the content came damaged. */
        DAMAGED,
        /** The receiver could not keep it. */
        NOT_KEPT,
        /** The sender resumes at another position than the receiver's data ends. */
        POSITION
    }

    /** The kind, for programs. */
    private final Kind kind;

    TransferException(Kind kind, String message) {
        super(message);
        this.kind = kind;
    }

    /**
     * The kind of the error, for programs.
     *
     * @return never null
     */
    public Kind kind() {
        return kind;
    }
}
