//! Blocks of RFC 7541 (appendix C), and blocks of which a part is missing.

use super::{FieldName, HeaderTable, TABLE_BYTES_MAX, huffman};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|two| u8::try_from(two[0] * 16 + two[1]).expect("two digits")).collect()
}

/// The fields that are read, and the table's size.
fn decode(table: &mut HeaderTable, block: &[u8]) -> (String, u32, bool) {
    let mut text = String::new();
    let is_whole = table.decode(block, &mut |field| {
        if field.name != FieldName::Other {
            text += &format!("{:?}={} ", field.name, String::from_utf8_lossy(field.value));
        }
    });
    (text, table.bytes, is_whole)
}

#[test]
fn requests_of_the_standard_decode_with_and_without_huffman() {
    let plain = [
        "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        "8286 84be 5808 6e6f 2d63 6163 6865",
        "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
    ];
    let short = [
        "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
        "8286 84be 5886 a8eb 1064 9cbf",
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
    ];
    for blocks in [plain, short] {
        let mut table = HeaderTable::new();
        let found = blocks.map(|block| decode(&mut table, &bytes(block)));
        let first = "Method=GET Path=/ Authority=www.example.com ".to_owned();
        let third = "Method=GET Path=/index.html Authority=www.example.com ".to_owned();
        assert_eq!(found, [(first.clone(), 57, true), (first, 110, true), (third, 164, true)]);
    }
}

#[test]
fn responses_of_the_standard_evict_entries() {
    let mut table = HeaderTable { bytes_max: 256, ..HeaderTable::new() };
    let blocks = [
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
         29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        "4883 640e ffc1 c0bf",
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
         d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
         3d50 07",
    ];
    let found = blocks.map(|block| decode(&mut table, &bytes(block)));
    let status = |status: u16, bytes: u32| (format!("Status={status} "), bytes, true);
    assert_eq!(found, [status(302, 222), status(307, 222), status(200, 215)]);
}

/// A block with a literal that is inserted: name, value.
fn literal(texts: [&str; 2]) -> Vec<u8> {
    let mut out = vec![0x40];
    for text in texts {
        let code = huffman::encode(text.as_bytes());
        out.push(0x80 | u8::try_from(code.len()).expect("short"));
        out.extend(code);
    }
    out
}

#[test]
fn after_a_gap_only_later_entries_are_known() {
    let mut table = HeaderTable::new();
    decode(&mut table, &literal([":path", "/before"]));
    assert_eq!(decode(&mut table, &[0xbe]).0, "Path=/before ");
    table.forget();
    assert_eq!(decode(&mut table, &[0x88, 0xbe]), ("Status=200 ".to_owned(), 0, true));
    decode(&mut table, &literal(["grpc-status", "14"]));
    decode(&mut table, &literal(["x-other", "1"]));
    assert_eq!(decode(&mut table, &[0xbe, 0xbf, 0xc0]).0, "GrpcStatus=14 ");
    // The name of an unknown entry with a literal value.
    assert_eq!(decode(&mut table, &[0x7f, 0x01, 1, b'x']), (String::new(), 118, true));
}

#[test]
fn cut_and_wrong_blocks_give_what_is_before() {
    let mut table = HeaderTable::new();
    let path = literal([":path", "/long/path"]);
    let block = [&[0x82][..], &path, &literal(["x", "y"])].concat();
    let ends_of_fields = [0, 1, 1 + path.len(), block.len()];
    for length in 0..=block.len() {
        let (text, _, is_whole) = decode(&mut HeaderTable::new(), &block[..length]);
        assert!("Method=GET Path=/long/path ".starts_with(&text), "{text}");
        assert!(!is_whole || ends_of_fields.contains(&length), "{length}");
    }
    // Integers without an end, and larger than any length.
    assert!(!decode(&mut table, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).2);
    assert!(!decode(&mut table, &[0x7f, 0x80]).2);
}

/// A table holds what its peers agreed upon, whatever blocks contain.
#[test]
fn no_block_makes_a_table_exceed_its_limit() {
    arbtest::arbtest(|u| {
        let mut table = HeaderTable::new();
        for _ in 0..u.int_in_range(1..=20)? {
            let garbage: Vec<u8> = u.arbitrary()?;
            let block = if u.arbitrary()? {
                let value = "v".repeat(u.int_in_range(0..=90)?);
                [literal([":path", &value]), garbage].concat()
            } else {
                garbage
            };
            table.decode(&block, &mut |_| {});
            let bytes: u32 = table.entries.iter().map(super::TableEntry::bytes).sum();
            assert_eq!(bytes, table.bytes);
            assert!(bytes <= table.bytes_max && table.bytes_max <= TABLE_BYTES_MAX);
        }
        Ok(())
    });
}
