//! Bytes of a pcap, pcapng or tcpdump text through the model: every record is counted once.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use weir_wire::text::{LineReader, TextReader};
use weir_wire::{Capture, CaptureFormat, CaptureInput, Model, ModelOptions, SkipReason};

fuzz_target!(|bytes: &[u8]| {
    let stream = Box::new(Cursor::new(bytes.to_vec()));
    let Ok(input) = CaptureInput::from_stream("fuzz", stream) else { return };
    let mut model = Model::new(ModelOptions::default(), None);
    if input.format() == CaptureFormat::Text {
        let mut reader = TextReader::new(Box::new(|_| Some(0)), 0, 1);
        let mut lines = LineReader::new(b"", input);
        while let Ok(Some(_)) = reader.feed(&mut lines, &mut model) {}
        drop(model.report());
        return;
    }
    let Ok(mut capture) = Capture::new(input) else { return };
    while capture.feed(&mut model).expect("memory can be read") {}
    let report = model.report();
    let in_model = report.packets + report.skipped.total();
    // A packet of an undescribed interface is not a record.
    let skipped = capture.skipped().total() - capture.skipped().count(SkipReason::Interface);
    // One more for the position at which reading ended; several fragments make one packet.
    assert!(in_model <= capture.records() && in_model + skipped <= capture.records() + 1);
    for tier in &report.tiers {
        assert!(tier.responses <= tier.requests, "{} of {}", tier.responses, tier.requests);
    }
});
