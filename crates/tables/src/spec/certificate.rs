//! `certificate`: what TLS servers of this host show, beside the file that they should show.

table! {
    /// Certificates as they are served in a handshake, beside the file that the configuration names.
    Certificate, CertificateRows = "certificate";
    grain: "one row per configured address and server name and minute, and at once when the configuration changes";
    source: "a TLS handshake with SNI (RFC 8446, RFC 6066), the file of ssl_certificate or crt, RFC 5280";
    sort: [host, server_port, server_name, ts];
    1 ts: Time = "When the handshake was made.";
    2 host: Text = "The host that it was made on.";
    3 program: Text = "nginx, haproxy or apache.";
    4 server_address: Text = "The address that was asked.";
    5 server_port: Int = "The port that was asked.";
    6 server_name: Text = "The name that was asked for (SNI); empty when none was.";
    7 config_file: Text = "The file whose line names the certificate.";
    8 config_line: Int = "That line.";
    9 path: Text = "The certificate's file.";
    10 served_not_after: OptTime = "When the served certificate ends; NULL when no handshake came about.";
    11 served_not_before: OptTime = "When the served certificate began; NULL as above.";
    12 served_subject: OptText = "Whom it is for; NULL as above.";
    13 served_issuer: OptText = "Who issued it; NULL as above.";
    14 served_digest: OptText = "A short digest of the certificate, to tell two apart; NULL as above.";
    15 chain_not_after: OptTime = "The earliest end among the certificates that came with it, its own left out; NULL when none came.";
    16 file_not_after: OptTime = "When the file's first certificate ends; NULL when the file could not be read.";
    17 file_digest: OptText = "The same digest of the file's first certificate; NULL as above.";
    18 file_modified_ts: OptTime = "When the file was last written; NULL as above.";
    19 error: OptText = "What failed in the handshake or in reading the file; NULL when nothing did.";
}
