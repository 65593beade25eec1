//! Tests of the simulation: reproducible bytes, chronological packets, and each story's
//! characteristics.

use super::*;

fn made(recipe: Recipe, format: Format) -> (Vec<u8>, String, Summary) {
    let (mut capture, mut truth) = (Vec::new(), Vec::new());
    let summary = write(recipe, format, &mut capture, &mut truth).expect("memory takes all");
    (capture, String::from_utf8(truth).expect("JSON"), summary)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
}

fn small(story: Story) -> Recipe {
    let recipe = Recipe::of(story);
    Recipe { rate: recipe.rate.min(200), seconds: recipe.seconds.min(14), ..recipe }
}

#[test]
fn the_same_recipe_gives_the_same_bytes() {
    let recipe = small(Story::LossAfter);
    assert_eq!(made(recipe, Format::default()), made(recipe, Format::default()));
    let other = Recipe { seed: 43, ..recipe };
    assert_ne!(made(recipe, Format::default()).0, made(other, Format::default()).0);
}

#[test]
fn packets_are_chronological_with_valid_lengths() {
    for story in Story::ALL {
        let (capture, _, summary) =
            made(small(story), Format { is_nanosecond: true, ..Format::default() });
        let (mut at, mut last, mut packets) = (24, 0, 0);
        while at < capture.len() {
            let time = word(&capture, at) * 1_000_000_000 + word(&capture, at + 4);
            assert!(time >= last, "{story:?}: packet {packets} goes back by {} ns", last - time);
            last = time;
            at += 16 + usize::try_from(word(&capture, at + 8)).expect("it is small");
            packets += 1;
        }
        assert_eq!((at, packets), (capture.len(), summary.packets), "{story:?}");
        assert_eq!(summary.bytes, capture.len() as u64);
    }
}

#[test]
fn every_story_has_its_characteristics() {
    for story in Story::ALL {
        let (_, truth, summary) = made(small(story), Format::default());
        let lines = truth.lines().filter(|line| line.starts_with(r#"{"port":80,"#)).count() as u64;
        assert_eq!(lines, summary.requests, "{story:?}");
        assert!(summary.requests > 50, "{story:?}: {summary:?}");
        let has = match story {
            Story::AcceptQueue | Story::AcceptQueueLinear => summary.syn_retries > 100,
            Story::NetworkHold => summary.spurious > 50,
            Story::LossAfter | Story::LossAfterFar => summary.retransmits - summary.spurious > 40,
            Story::LossBefore | Story::LossBeforeFar => summary.lost_before > 20,
            Story::UpstreamRace | Story::ClientRace => summary.resets > 20,
            Story::SlowReader => summary.zero_windows > 200,
            Story::SlowApp => truth.matches("/app/search").count() > 200,
            Story::Churn => summary.connections == summary.requests,
            Story::UslSteps => summary.connections >= 64,
            Story::Smooth | Story::SenderBursts | Story::Framing | Story::Bulk => true,
        };
        assert!(has, "{story:?}: {summary:?}");
    }
}
