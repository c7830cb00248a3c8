// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.inband;

import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.cert.CertificateException;
import java.security.cert.X509Certificate;
import java.util.Locale;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

/** TLS with one server whose certificate is known beforehand, by its SHA-256. */
public final class Pin implements X509TrustManager {
    private final String pin;

    private Pin(String pin) {
        this.pin = pin;
    }

    /**
     * A context that trusts only one certificate, independent of its issuer and its name.
     *
     * @param fingerprint SHA-256 of the certificate, 64 hexadecimal digits, with colons or without, as {@code alcc
     *     recv} prints it
     * @return a context for sockets of {@link Connection#connect}
     * @throws IllegalArgumentException if it is not a fingerprint
     * @throws GeneralSecurityException if this Java has no TLS
     */
    public static SSLContext sha256(String fingerprint) throws GeneralSecurityException {
        String digits = fingerprint.replace(":", "").toLowerCase(Locale.ROOT);
        if (!digits.matches("[0-9a-f]{64}")) {
            throw new IllegalArgumentException("a fingerprint has 64 hexadecimal digits, found " + fingerprint);
        }
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, new TrustManager[] {new Pin(digits)}, null);
        return context;
    }

    @Override
    public void checkServerTrusted(X509Certificate[] chain, String type) throws CertificateException {
        if (chain == null || chain.length == 0) {
            throw new CertificateException("the server shows no certificate");
        }
        StringBuilder found = new StringBuilder();
        try {
            for (byte octet : MessageDigest.getInstance("SHA-256").digest(chain[0].getEncoded())) {
                found.append(Character.forDigit(octet >> 4 & 15, 16)).append(Character.forDigit(octet & 15, 16));
            }
        } catch (GeneralSecurityException e) {
            throw new CertificateException("the certificate cannot be hashed", e);
        }
        if (!MessageDigest.isEqual(found.toString().getBytes(), pin.getBytes())) {
            throw new CertificateException("another certificate than the pinned one: its SHA-256 is " + found);
        }
    }

    @Override
    public void checkClientTrusted(X509Certificate[] chain, String type) throws CertificateException {
        throw new CertificateException("a pin is for servers only");
    }

    @Override
    public X509Certificate[] getAcceptedIssuers() {
        return new X509Certificate[0];
    }
}
