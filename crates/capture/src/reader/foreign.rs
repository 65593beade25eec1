//! Detects other file formats by their first bytes, for an error with a hint.
//!
//! Sources: RFC 1761 (snoop) and the formats that `editcap -F` lists.

use crate::error::WireError;

const CONVERT: &str = "convert it with `editcap -F pcap FILE NEW`";
const UNPACK_XZ: &str = "unpack it first: `xz -dc FILE | weir wire -`";
const UNPACK_BZIP2: &str = "unpack it first: `bzip2 -dc FILE | weir wire -`";
const UNPACK_LZ4: &str = "unpack it first: `lz4 -dc FILE | weir wire -`";
const UNPACK: &str = "unpack it first";
const SAVE_AS_UTF_8: &str =
    "PowerShell's `>` writes UTF-16: use `tcpdump -w FILE`, or save the text as UTF-8";
const WEB_PAGE: &str = "a download may have ended at a login page: look at it in an editor";

/// First bytes, what they are, and what to do.
const SIGNATURES: [(&[u8], &str, &str); 17] = [
    (b"snoo", "a capture of Solaris' snoop", CONVERT),
    (b"btsn", "a capture of Bluetooth", "weir reads TCP over IP"),
    (b"GMBU", "a capture of Microsoft's Network Monitor", CONVERT),
    (b"RTSS", "a capture of Microsoft's Network Monitor", CONVERT),
    (b"XCP\0", "a capture of NetXRay", CONVERT),
    (b"TRSN", "a capture of Sniffer", CONVERT),
    (b"iptr", "a capture of AIX' iptrace", CONVERT),
    (&[0xfd, b'7', b'z', b'X'], "packed with xz", UNPACK_XZ),
    (b"BZh", "packed with bzip2", UNPACK_BZIP2),
    (&[0x04, 0x22, 0x4d, 0x18], "packed with lz4", UNPACK_LZ4),
    (b"PK\x03\x04", "a zip archive", UNPACK),
    (b"7z\xbc\xaf", "a 7-Zip archive", UNPACK),
    (b"Rar!", "a RAR archive", UNPACK),
    (&[0xff, 0xfe], "text in UTF-16", SAVE_AS_UTF_8),
    (&[0xfe, 0xff], "text in UTF-16", SAVE_AS_UTF_8),
    (b"<!", "a web page", WEB_PAGE),
    (b"<htm", "a web page", WEB_PAGE),
];

/// The error for a file that begins with `first`, if it is known.
pub(super) fn refusal(name: &str, first: [u8; 4]) -> Option<WireError> {
    let mut known = SIGNATURES.iter();
    let (_, format, hint) = known.find(|(bytes, ..)| first.starts_with(bytes))?;
    Some(WireError::other_format(name, [format, hint]))
}
