//! Signed orders: no bytes panic, and what decodes has one encoding.

#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_act::{Order, SignedOrder};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(order) = Order::decode(bytes) {
        assert_eq!(order.encode().as_deref(), Ok(bytes));
    }
    if let Ok(signed) = SignedOrder::from_bytes(bytes.to_vec()) {
        assert_eq!(signed.as_bytes(), bytes);
        assert!(signed.claim().is_ok());
    }
});
