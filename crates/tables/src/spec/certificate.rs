//! `certificate`: certificates served by this host's TLS servers, beside the configured files.

table! {
    /// Certificates as served in a handshake, beside the file that the configuration names.
    Certificate, CertificateRows = "certificate";
    grain: "one row per configured address and server name and minute, and at once when the configuration changes";
    source: "a TLS handshake with SNI (RFC 8446, RFC 6066), the file of ssl_certificate or crt, RFC 5280";
    sort: [host, server_port, server_name, ts];
    1 ts: Time = "When the handshake was made.";
    2 host: Text = "The host that it was made on.";
    3 program: Text = "nginx, haproxy or apache.";
    4 server_address: Text = "The address that was probed.";
    5 server_port: Int = "The port that was probed.";
    6 server_name: Text = "The requested name (SNI); empty without one.";
    7 config_file: Text = "The file whose line names the certificate.";
    8 config_line: Int = "That line.";
    9 path: Text = "The certificate's file.";
    10 served_not_after: OptTime = "When the served certificate expires; NULL when the handshake failed.";
    11 served_not_before: OptTime = "When the served certificate became valid; NULL as above.";
    12 served_subject: OptText = "Its subject; NULL as above.";
    13 served_issuer: OptText = "Its issuer; NULL as above.";
    14 served_digest: OptText = "A short digest of the certificate, to compare two certificates; NULL as above.";
    15 chain_not_after: OptTime = "Earliest expiry among the other certificates of the served chain, of a trusted chain among the ones that it needs; NULL when there are none.";
    16 file_not_after: OptTime = "When the file's first certificate expires; NULL when the file could not be read.";
    17 file_digest: OptText = "Digest of the file's first certificate; NULL as above.";
    18 file_modified_ts: OptTime = "When the file was last written; NULL as above.";
    19 error: OptText = "Why the handshake or reading the file failed; NULL on success.";
    20 served_trust: OptText = "How a client with this host's authorities judges the served chain: `trusted`, `wrong_name`, `expired`, `intermediate_expired`, `intermediate_missing`, `self_signed`, `unknown_issuer`, `not_yet_valid` or `invalid`; NULL when the handshake failed or this host has no authorities.";
    21 served_names: OptText = "The first DNS names of the served certificate; NULL when the handshake failed.";
    22 chain_length: OptInt = "Certificates that the server sent; NULL when the handshake failed.";
}
